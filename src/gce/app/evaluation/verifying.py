"""Judging a response to a problem that was written down: `gce.verify`, `gce verify`, and exported tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from attrs import define, field

from gce.app.evaluation.scoring import judge
from gce.app.options import PROBLEMS
from gce.app.terminal import as_called
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.tasks import find_task
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain
from gce.domain.tasks import ProblemSource, Task
from gce.errors import BadInput, one_line
from gce.ports.evaluator import Evaluator

__all__ = ["KnownProblems", "response_of", "verify", "written_problem"]

MOST_FAMILIES = 64
"""Tiers, with their seeds, whose problems are remembered."""


@define
class KnownProblems:
    """Problems by their keys, in bounded memory: a source remembers what it has drawn."""

    task: Task
    _source: ProblemSource = field(init=False)
    _families: set[tuple[object, ...]] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self._source = ProblemSource(self.task)

    def problem(self, key: str) -> Problem:
        """The problem of this key; ValueError or BadInput where there is none."""
        problem = ProblemId.parse(key)
        if problem.index >= PROBLEMS.high:
            raise BadInput(f"expected the key of one of the first {PROBLEMS.high:,} problems of a tier, got {key:.200}")
        family = (problem.preset, problem.split, problem.tier, problem.seed)
        if family not in self._families and len(self._families) >= MOST_FAMILIES:
            self._source, self._families = ProblemSource(self.task), set()
        self._families.add(family)
        return self._source.redraw(key)


def verify(task: str, problem: str | Mapping[str, Any], response: str) -> Answer:
    """Judge a response, as `gce verify` does.

    Args:
        task: name of the task, as `--task` takes it.
        problem: as `gce generate --json` prints it, JSON text or parsed: an object with at least `instance`.
        response: all that the model wrote.

    Returns:
        The judged answer: `outcome`, `right`, `reward` in [0, 1] or None where judging failed, `reason`, `verdicts`.

    Raises:
        BadInput: there is no such task, or the problem is none of this task.
    """
    try:
        data = json.loads(problem) if isinstance(problem, str) else problem
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the problem is not JSON: {one_line(error)}") from error
    found, evaluator = _task(task)
    return judge(found, evaluator, written_problem(found, data), response_of(response))


@cache
def _task(name: str) -> tuple[Task, Evaluator]:
    task = find_task(name)
    return task, find_evaluator(task)


def written_problem(task: Task, data: Any) -> Problem:
    """The problem that `gce.app.evaluation.shown_problem.plain_problem` wrote; its prompt is not needed to judge.

    Raises:
        BadInput: it is none of this task.
    """
    if not isinstance(data, Mapping) or "instance" not in data:
        printed = as_called("`gce generate --json` prints it", "the commands generate and export-task write it")
        raise BadInput(f"expected a problem as {printed}: an object with an instance")
    instance: Any
    try:
        instance = from_plain(task.instance_type, data["instance"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BadInput(f"the problem's instance is not valid: {one_line(error)}") from error
    if not isinstance(data.get("tier", ""), str) or not isinstance(data.get("key", ""), str):
        raise BadInput("expected a problem whose key and tier are text")
    name = ProblemId(task.name, "", "test", "", 0, 0)
    return Problem(name, instance, (Message("user", ""),), task.digest(instance))


def response_of(text: str) -> Completion:
    """A response that nobody asked a model for."""
    return Completion("answer", text, "stop", policy="given")
