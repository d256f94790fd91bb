"""Find evaluators by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.wiring.names import called, entry
from gce.app.wiring.sandboxes import AUTO, LazyRunner
from gce.domain.tasks.task import Task, nothing_to_run
from gce.errors import BadInput
from gce.ports.evaluator import Evaluator
from gce.ports.runner import Runner

__all__ = ["EVALUATORS", "VERIFIER", "find_evaluator"]

Builder = Callable[[Task, Runner | None], Evaluator]

VERIFIER = "verifier"
EVALUATORS: Mapping[str, Builder] = {VERIFIER: TaskVerifier}
"""Builders of evaluators by name: (task, runner, or None if the task has nothing to run) -> evaluator."""


def find_evaluator(task: Task, runner: str = AUTO, evaluator: str | Evaluator = VERIFIER) -> Evaluator:
    """An evaluator of the task by its name, or by module:ATTR of its builder; one that is given itself is taken.

    `runner` says how programs are run that answers consist of.

    Raises:
        BadInput: nothing of that name, or it is no evaluator.
    """
    name, found = f"evaluator={evaluator!r}", evaluator
    if isinstance(evaluator, str):
        name, build = evaluator, entry(evaluator, EVALUATORS, object, "evaluator")
        found = called(name, build, task=task, runner=None if task.request is nothing_to_run else LazyRunner(runner))
    if not isinstance(found, Evaluator):
        raise BadInput(f"{name} is {type(found).__name__}, expected an evaluator (see gce.ports.evaluator)")
    return found
