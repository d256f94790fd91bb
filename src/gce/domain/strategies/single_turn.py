"""The single-turn strategies: one call, with or without few-shot examples before the prompt."""

from __future__ import annotations

from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy
from gce.domain.tasks.task import Task

__all__ = ["FEW_SHOT", "ZERO_SHOT"]


def _zero_shot(_task: Task, problem: Problem, _settings: Settings) -> Exchange:
    return ((yield Ask(problem.prompt)),)


def _few_shot(_task: Task, problem: Problem, settings: Settings) -> Exchange:
    return ((yield Ask(settings.examples[problem.tier] + problem.prompt)),)


ZERO_SHOT = Strategy("zero-shot", _zero_shot, "the prompt without examples")
FEW_SHOT = Strategy(
    "few-shot",
    _few_shot,
    "few-shot examples before the prompt: training problems solved by a heuristic or a solver",
    needs=frozenset({"sample", "examples"}),
)
