"""From names on the command line to tasks, presets, tiers and stored problems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, get_args

from attrs import evolve

from gce.adapters.datasets.question_files import read_problem_records, read_rows
from gce.adapters.datasets.record_files import (
    HUMAN_EVAL,
    MOST_BYTES,
    SEATTLE_WEATHER,
    human_eval_path,
    seattle_weather_path,
)
from gce.adapters.system.input_files import read_input
from gce.app.options import nearest
from gce.app.terminal import note
from gce.app.wiring.environments import FRAMEWORK_HELP, find_environment, is_environment
from gce.app.wiring.names import entry, is_given, name_of, plain_name
from gce.domain.problems import Problem, Split
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS, Drawn, Listed, ProblemSource, Task
from gce.domain.tasks.questions import Question, fold_of
from gce.errors import BadInput

__all__ = [
    "TASK_HELP",
    "check_no_function",
    "find_preset",
    "find_task",
    "find_task_and_preset",
    "find_tiers",
    "fold_name",
    "in_fold",
    "problems_digest",
    "read_questions",
    "same_problems",
    "say_if_many",
    "stored_problem",
    "task_name",
]


MANY = 1000
"""Problems a tier; drawing more than that is announced."""

_PACKAGED: Mapping[str, Callable[[], Path]] = {HUMAN_EVAL: human_eval_path, SEATTLE_WEATHER: seattle_weather_path}
"""Files of problems that packages bring, by the name behind @."""

_FOLD = re.compile(r"(?s)(.+)@fold-([0-9]{1,6})-of-([0-9]{1,6})")

TASK_HELP = (
    f"task: {', '.join(TASKS)}, or your own as module:ATTR; programming problems from a file: programs@FILE, "
    f"programs@{HUMAN_EVAL}; questions of belief from a file: beliefs@FILE, beliefs@{SEATTLE_WEATHER}; "
    f"projects from .sm or .rcp files: scheduling@FILE, scheduling@FOLDER; personas from a TOML file: "
    f"consultation@FILE; {FRAMEWORK_HELP}"
)


def find_task(name: str) -> Task:
    """A task by its name or as module:ATTR, behind which @FILE may stand, and behind that @fold-K-of-N.

    One of another framework goes by FRAMEWORK:NAME.

    Raises:
        BadInput: nothing of that name, it is no task, the file has no problems for it, or it has no such fold.
    """
    if fold := _FOLD.fullmatch(name):
        return in_fold(find_task(fold[1]), int(fold[2]), int(fold[3]))
    if is_environment(name):
        return find_environment(name)
    name, at, source = name.partition("@")
    task = entry(name, TASKS, Task, "task")
    return _of_file(task, source) if at else task


def check_no_function(task: object) -> None:
    """BadInput where a plain function came for a task."""
    if callable(task) and not isinstance(task, type):
        name = getattr(task, "__name__", type(task).__name__)
        raise BadInput(f"expected a task, got the function {name}: @gce.task(questions) above it makes it a task")


def task_name(given: str | Task) -> str:
    """What settings call a task that was given, by which `find_task` finds it, or says that it must be given again."""
    if isinstance(given, Task) and TASKS.get(given.name) is given:
        return given.name
    return name_of(given, "" if isinstance(given, str) else given.name)


def fold_name(name: str, fold: int, folds: int) -> str:
    """The name of a task's fold, from 1."""
    return f"{name}@fold-{fold}-of-{folds}"


def in_fold(task: Task, fold: int, folds: int) -> Task:
    """The task's questions with those of one fold, from 1, as test questions.

    Raises:
        BadInput: its problems are no list, there is no such fold, or there are too few questions.
    """
    if not 1 <= fold <= folds or folds < 2:
        raise BadInput(f"expected a fold from 1 to the number of folds, which is 2 or more, got {fold} of {folds}")
    try:
        return fold_of(task, fold, folds)
    except ValueError as error:
        raise BadInput(str(error)) from error


def read_questions(path: Path) -> list[Any]:
    """The rows of a file: see `gce.adapters.datasets.question_files`."""
    return read_rows(path)


def problems_digest(name: str, task: Task) -> str:
    """SHA-256 of the file that a task's problems come from, or of its list; empty where it draws new ones."""
    fold = _FOLD.fullmatch(name)
    source = (fold[1] if fold else name).partition("@")[2]
    if source and not is_given(name) and not is_environment(name):
        path = _path(source)
        if path.is_dir():
            return sha256(json.dumps(read_problem_records(path)).encode()).hexdigest()
        return sha256(read_input(path, MOST_BYTES)).hexdigest()
    if not isinstance(task.draw, Listed):
        return ""
    splits: tuple[Split, ...] = ("train", "dev", "test")
    listed = [
        to_plain(task.draw.instances(preset, tier.name, split))
        for preset, tiers in task.presets.items()
        for tier in tiers
        for split in splits
    ]
    return sha256(json.dumps(listed, default=lambda each: type(each).__name__).encode()).hexdigest()


def same_problems(name: str, task: Task, digest: str) -> None:
    """BadInput where a task's problems are a file, or a list, that is not the one of this digest.

    Runs of earlier versions have none of a list.
    """
    if (digest or "@" in name) and problems_digest(name, task) != digest:
        what = "file of the task" if "@" in name else "list of questions of task"
        raise BadInput(f"the {what} {plain_name(name)} is not the one that the run was made with")


def _path(source: str) -> Path:
    return _PACKAGED[source]() if source in _PACKAGED else Path(source)


def _of_file(task: Task, source: str) -> Task:
    """The task over the problems of a file, or of one that a package brings."""
    drawn = task.draw
    if not isinstance(drawn, Drawn) or drawn.of_records is None:
        raise BadInput(f"task {task.name} takes no problems from a file: leave out @{source}")
    path = _path(source)
    if path.is_dir() and not drawn.takes_folders:
        raise BadInput(f"cannot read {path}: expected a file, got a folder")
    try:
        preset = path.name.partition(".")[0] or "files"
        return drawn.of_records(evolve(task, name=f"{task.name}@{source}"), preset, read_problem_records(path))
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error


def find_preset(task: Task, preset: str) -> str:
    """The preset's name, the task's first where none is given.

    Raises:
        BadInput: there is no such preset, or a row of its questions has text that no model can read.
    """
    preset = preset or next(iter(task.presets))
    if preset not in task.presets:
        known = ", ".join(task.presets)
        hint = nearest(preset, task.presets)
        raise BadInput(f"task {task.name} has no preset {preset!r}: choose one of {known}{hint}")
    if isinstance(task.draw, Listed):
        for tier, split in product(task.presets[preset], get_args(Split)):
            for each in task.draw.instances(preset, tier.name, split):
                _check_text(task, each)
    return preset


def _check_text(task: Task, instance: Any) -> None:
    """Raise BadInput, which names the row, if a question has half of a surrogate pair: UTF-8 cannot encode it."""
    if not isinstance(instance, Question):
        return
    try:
        json.dumps(instance.row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"task {task.name}, {task.audit.where(instance)}: expected text that UTF-8 can encode, got half of a "
            f"surrogate pair, {error.object[error.start]!a}"
        ) from None


def find_task_and_preset(given: str) -> tuple[Task, str]:
    """A task and one of its presets, given as TASK or TASK@PRESET; TASK may have an @FILE of its own.

    Raises:
        BadInput: there is no such task, or it has no such preset.
    """
    name, at, preset = given.rpartition("@")
    if at and _FOLD.fullmatch(given) is None and not is_environment(given):
        task = find_task(name)
        takes_files = isinstance(task.draw, Drawn) and task.draw.of_records is not None
        if preset in task.presets or not takes_files:
            return task, find_preset(task, preset)
    task = find_task(given)
    return task, find_preset(task, "")


def find_tiers(task: Task, preset: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Names of the wanted tiers in the preset's order, all of them where none is named."""
    names = tuple(tier.name for tier in task.tiers(preset))
    for name in wanted:
        if name not in names:
            raise BadInput(f"preset {preset} has no tier {name!r}: choose from {', '.join(names)}")
    return tuple(name for name in names if name in wanted) if wanted else names


def say_if_many(counts: Mapping[str, int | None]) -> None:
    """Say on standard error that many problems are going to be drawn, before which nothing else is seen."""
    for split, count in counts.items():
        if count is not None and count > MANY:
            note(f"drawing {count:,} {split} problems per tier takes 1 to 100 ms per problem")


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
