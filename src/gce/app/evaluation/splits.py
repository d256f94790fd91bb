"""The problems that an evaluation asks: those of one split, or every question of a list.

All questions measure a model that was trained on none of them: training questions are among them.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

from gce.domain.problems import Problem, Split
from gce.domain.tasks import Listed, Task, draw_problems
from gce.errors import SettingError

__all__ = ["ALL", "MeasuredSplit", "check_listed", "drawn", "split_words", "splits_of"]

ALL = "all"
MeasuredSplit = Literal[Split, "all"]
"""One split, or all of them."""
_ORDER: tuple[Split, ...] = ("test", "dev", "train")
"""Test questions come first: a number that leaves some out leaves out training questions."""


def splits_of(measured: MeasuredSplit) -> tuple[Split, ...]:
    """Return the splits, in the order in which their problems are asked."""
    return _ORDER if measured == ALL else (cast(Split, measured),)


def split_words(measured: MeasuredSplit) -> str:
    """Return what the problems are called: "test", or "test, dev and train"."""
    return "test, dev and train" if measured == ALL else measured


def drawn(task: Task, preset: str, tier: str, measured: MeasuredSplit, most: int, *, seed: int) -> tuple[Problem, ...]:
    """Return at most `most` problems of a tier."""
    found: list[Problem] = []
    for split in splits_of(measured):
        found += draw_problems(task, preset, tier, split, most - len(found), seed=seed)
    return tuple(found)


def check_listed(task: Task, measured: MeasuredSplit) -> None:
    """SettingError where all questions are asked of a task that draws its problems."""
    if measured == ALL and not isinstance(task.draw, Listed):
        message = (
            f"{{split}} {ALL} needs a task with a list of questions, and {task.name} draws as many problems as {{n}} "
            "says: leave out {split}"
        )
        raise SettingError("split", ", ".join(get_args(Split)), ALL, message)
