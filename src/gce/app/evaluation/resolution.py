"""What a list of questions can tell: the width of the interval that so few problems leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gce.app.evaluation.splits import ALL, MeasuredSplit, split_words, splits_of
from gce.app.terminal import as_called, as_given
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS
from gce.domain.tasks.task import Listed, Task
from gce.domain.text import counted

__all__ = ["all_tip", "asked_for", "folds_call", "folds_tip", "half_width", "listed", "resolution"]

WIDE = 0.05
"""Half the width of an interval above which more test questions are proposed."""


def half_width(n: int) -> float:
    """Half the width of the 95 % Wilson interval where half of `n` problems are right: the widest that there is."""
    low, high = INTERVALS[DEFAULT_INTERVAL](0.5, n, 0.95)
    return (high - low) / 2


def listed(task: Task, preset: str, tier: str, split: MeasuredSplit = "test") -> int:
    """How many questions a listed task has there; 0 of a task that draws them."""
    if not isinstance(task.draw, Listed):
        return 0
    return sum(len(task.draw.instances(preset, tier, each)) for each in splits_of(split))


def asked_for(task: Task, preset: str, tiers: Sequence[str], split: MeasuredSplit, most: int) -> int:
    """How many problems of a split these tiers have together, at most `most` in each; nothing is drawn.

    A task that draws its problems counts as having as many as are asked for.
    """
    if not isinstance(task.draw, Listed):
        return most * len(tiers)
    return sum(min(most, listed(task, preset, tier, split)) for tier in tiers)


def folds_call() -> str:
    """How a task is trained on in folds."""
    command, call = "gce train --folds 5", "gce.cross_fit(task=..., folds=5, run=...)"
    return as_called(command, call)


def folds_tip() -> str:
    """What to do where test questions are few, and the model is to be trained."""
    return f"{folds_call()} tests on all questions"


def all_tip() -> str:
    """What to do where test questions are few, and the model was not trained on the others."""
    return f"{as_given('split', ALL)} asks all questions"


def resolution(task: Task, preset: str, limit: int, split: MeasuredSplit = "test", *, tip: str = "") -> Iterator[str]:
    """A line for a listed task: how many questions are asked, and what they resolve; nothing for others.

    It ends with the `tip` where they are few, unless `limit` leaves some out.
    """
    tiers = task.tiers(preset)
    sizes = [listed(task, preset, tier.name, split) for tier in tiers]
    if n := sum(min(limit, size) for size in sizes):
        among = f" in {len(tiers)} tiers" if len(tiers) > 1 else ""
        few = n == sum(sizes) and half_width(n) > WIDE
        if split == ALL and n < sum(sizes):
            tip, few = f"{as_given('n', max(sizes))} asks all {sum(sizes):,}", True
        more = f"; {tip}" if tip and few else ""
        what = counted(n, f"{split_words(split)} question")
        yield f"{what}{among}: 95 % interval about +-{100 * half_width(n):.0f} points{more}"
