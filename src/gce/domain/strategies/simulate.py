"""The simulate strategy: list the constraints, draft and check, answer. Only the last reply is judged."""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy
from gce.domain.tasks.task import Task

__all__ = ["SIMULATE"]


def _simulate(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    first, *others = task.teaching.calls
    *before, last = problem.prompt
    turns = (*before, evolve(last, content=f"{last.content}\n{first}"))
    for call in others:
        draft = yield Ask(turns, draft=True)
        turns = (*turns, Message("assistant", draft.completion.text), Message("user", call))
    return ((yield Ask(turns)),)


SIMULATE = Strategy(
    "simulate",
    _simulate,
    "three calls: list the constraints, draft and check, answer; only the answer is judged",
    needs=frozenset({"sample", "calls"}),
)
