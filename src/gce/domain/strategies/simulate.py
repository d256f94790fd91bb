"""The simulate strategy: list the constraints, draft and check, answer. Only the last reply is judged."""

from __future__ import annotations

from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy, continued, instructed
from gce.domain.tasks.task import Task

__all__ = ["SIMULATE"]


def _simulate(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    first, *others = task.teaching.calls
    turns = instructed(problem.prompt, first)
    for call in others:
        draft = yield Ask(turns, draft=True)
        turns = continued(turns, draft, call)
    return ((yield Ask(turns)),)


SIMULATE = Strategy(
    "simulate",
    _simulate,
    "three calls: list the constraints, draft and check, answer; only the answer is judged",
    needs=frozenset({"sample", "calls"}),
)
