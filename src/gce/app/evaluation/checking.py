"""The attack on a task's verifier, from a task or its name: what `gce check` and `gce.check` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gce.app.notebook import watch_of
from gce.app.options import NAME, PROBLEMS, RESPONSES, SECONDS, SEED, Kind, refusal
from gce.app.training.state import Watcher
from gce.app.wiring.elsewhere import by_name
from gce.app.wiring.names import attribute
from gce.app.wiring.sandboxes import AUTO, LazyRunner
from gce.app.wiring.tasks import check_no_function, find_preset, find_task
from gce.domain.tasks import TASKS, Task
from gce.domain.tasks.consultation.case import ConsultationCase
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.task import nothing_to_run
from gce.errors import BadInput
from gce.testing.scheduling.checkers import accepts as scheduling_accepts
from gce.testing.scheduling.consultations import accepts as consultation_accepts
from gce.testing.verifiers.check import Accepts, Stage, TaskReport, check_task

__all__ = ["check", "hold_to", "the_task"]


def check(
    task: str | Task = "scheduling",
    *,
    preset: str | None = None,
    problems: int = 5,
    responses: int = 20_000,
    seed: int = 0,
    accepts: str | Accepts | None = None,
    unique: bool = False,
    seconds: float = 5.0,
    runner: str = AUTO,
    progress: bool = True,
    watcher: Watcher | None = None,
    stage: Stage | None = None,
) -> TaskReport:
    """Attack a task's verifier, which is also its reward: `report.ok` says whether nothing was found.

    Args:
        task: a task, or its name.
        preset: set of tiers; None takes the task's first.
        problems: number of problems of each tier.
        responses: total number of generated responses; without `accepts` none is generated.
        seed: seed of the problems and responses.
        accepts: a second judge, (problem, text) -> bool, or module:ATTR of one; for a task of `gce.task`, (row, text),
            with the row that the reward gets and the whole response. None takes the shipped one for scheduling.
        unique: whether each problem has one right answer, however it is written: a changed right answer that passes is
            a finding then, and not doubtful.
        seconds: time limit of one verdict (seconds of computing).
        runner: where answers that are programs are run.
        progress: as in `gce.train`.
        watcher: receives progress instead of the screen.
        stage: receives the name and the number of steps of each check instead, as `check_task` tells them.

    Raises:
        BadInput: a name or a value that cannot be used.
    """
    kinds = {"problems": (PROBLEMS, problems), "responses": (RESPONSES, responses), "seed": (SEED, seed)}
    hold_to({**kinds, "seconds": (SECONDS, seconds)})
    found = the_task(task)
    return check_task(
        found,
        preset=find_preset(found, preset or ""),
        problems=problems,
        responses=responses,
        seed=seed,
        runner=LazyRunner(runner),
        accepts=_judge(found, accepts),
        unique=unique,
        elsewhere=by_name(task) if isinstance(task, str) and _is_judged_alone(found) else None,
        seconds=seconds,
        stage=stage or (watcher or watch_of(progress)(0)).stage,
    )


def hold_to(values: dict[str, tuple[Kind, Any]]) -> None:
    """BadInput where a value is not of its kind."""
    for name, (kind, value) in values.items():
        if not kind.takes(value):
            raise BadInput(f"{name} must be {refusal(kind, value)}")


def the_task(task: str | Task) -> Task:
    """A task by its name, or itself; BadInput where it is neither."""
    if isinstance(task, Task):
        return task
    check_no_function(task)
    hold_to({"task": (NAME, task)})
    return find_task(task)


def _is_judged_alone(task: Task) -> bool:
    """Whether a task is not one of the shipped ones and its verifier needs no evidence."""
    return task.name not in TASKS and task.request is nothing_to_run


_SHIPPED: Mapping[type, Accepts] = {Instance: scheduling_accepts, ConsultationCase: consultation_accepts}
"""Independent judges of shipped tasks, by the type of their instances."""


def _judge(task: Task, given: str | Accepts | None) -> Accepts | None:
    if not given:
        return _SHIPPED.get(task.instance_type) if TASKS.get(task.name) is task else None
    judge = attribute(given, "judge") if isinstance(given, str) else given
    if not callable(judge):
        raise BadInput(f"{given} is {type(judge).__name__}, expected a function (problem, text) -> bool")
    return judge  # What it returns shows when it is asked.
