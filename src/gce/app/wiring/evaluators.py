"""Find evaluators by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial

from gce.adapters.evaluators.parallel import Asked, Found, Spread
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.wiring.names import called, entry
from gce.app.wiring.sandboxes import AUTO, LazyRunner
from gce.app.wiring.tasks import find_task
from gce.domain.evaluators.scores import VERIFIER
from gce.domain.tasks.task import Task, nothing_to_run
from gce.domain.verdicts import Verdict, Violation
from gce.errors import BadInput, GceError, SettingError, one_line
from gce.ports.evaluator import Evaluator
from gce.ports.executor import Executor
from gce.ports.runner import Runner

__all__ = ["EVALUATORS", "VERIFIER", "find_evaluator"]

Builder = Callable[[Task, Runner | None], Evaluator]

EVALUATORS: Mapping[str, Builder] = {VERIFIER: TaskVerifier}
"""Builders of evaluators by name: (task, runner, or None if the task has nothing to run) -> evaluator."""


def find_evaluator(
    task: Task,
    runner: str = AUTO,
    evaluator: str | Evaluator = VERIFIER,
    *,
    named: str | None = None,
    executor: Executor | None = None,
) -> Evaluator:
    """An evaluator of the task by its name, or by module:ATTR of its builder; one that is given itself is taken.

    `runner` says how programs are run that answers consist of. An `executor` has the work done in processes that find
    the task as `named`, and the evaluator, by name; what raises there has failed.

    Raises:
        BadInput: nothing of that name, or it is no evaluator; or other processes could not find it.
    """
    name, found = f"evaluator={evaluator!r}", evaluator
    if isinstance(evaluator, str):
        name, build = evaluator, entry(evaluator, EVALUATORS, object, "evaluator")
        found = called(name, build, task=task, runner=None if task.request is nothing_to_run else LazyRunner(runner))
    if not isinstance(found, Evaluator):
        raise BadInput(f"{name} is {type(found).__name__}, expected an evaluator (see gce.ports.evaluator)")
    if executor is None:
        return found
    if named is None or not isinstance(evaluator, str):
        message = (
            "other processes find task and evaluator by name: give module:ATTR, or leave out {executor.judges} and "
            "{executor.kind}"
        )
        raise SettingError("executor.judges", "names of task and evaluator", name, message)
    return Spread(found, executor, partial(_judge_one, named, runner, evaluator))


def _judge_one(task: str, runner: str, evaluator: str, asked: Asked) -> Iterator[Found]:
    number, problem, completion = asked
    try:
        ((*_, verdicts),) = _evaluator(task, runner, evaluator).judge([(problem, completion)])
    except GceError:
        raise
    except Exception as error:  # It may be anybody's.
        said = one_line(f"{type(error).__name__}: {error}")
        violation = Violation("evaluator", f"the evaluator {evaluator} raised {said}")
        verdicts = (Verdict("failed", None, evaluator, "", {}, (violation,)),)
    yield number, verdicts


@cache
def _evaluator(task: str, runner: str, evaluator: str) -> Evaluator:
    """Of this process."""
    return find_evaluator(find_task(task), runner, evaluator)
