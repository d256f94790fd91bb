"""What a list of questions can tell: the width of the interval that so few problems leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gce.app.terminal import as_called
from gce.domain.problems import Split
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS
from gce.domain.tasks.task import Listed, Task

__all__ = ["asked_for", "half_width", "listed", "resolution"]

WIDE = 0.05
"""Half the width of an interval above which more test questions are proposed."""


def half_width(n: int) -> float:
    """Half the width of the 95 % Wilson interval where half of `n` problems are right: the widest that there is."""
    low, high = INTERVALS[DEFAULT_INTERVAL](0.5, n, 0.95)
    return (high - low) / 2


def listed(task: Task, preset: str, tier: str, split: Split = "test") -> int:
    """How many questions a listed task has there; 0 of a task that draws them."""
    return len(task.draw.instances(preset, tier, split)) if isinstance(task.draw, Listed) else 0


def asked_for(task: Task, preset: str, tiers: Sequence[str], split: Split, most: int) -> int:
    """How many problems of a split these tiers have together, at most `most` in each; nothing is drawn.

    A task that draws its problems counts as having as many as are asked for.
    """
    if not isinstance(task.draw, Listed):
        return most * len(tiers)
    return sum(min(most, listed(task, preset, tier, split)) for tier in tiers)


def resolution(task: Task, preset: str, limit: int, split: Split = "test", *, tip: bool = True) -> Iterator[str]:
    """A line for a listed task: how many questions are asked, and what they resolve; nothing for others.

    With `tip` it says what to do where they are few, unless `limit` leaves some out.
    """
    tiers = task.tiers(preset)
    sizes = [listed(task, preset, tier.name, split) for tier in tiers]
    if n := sum(min(limit, size) for size in sizes):
        among = f" in {len(tiers)} tiers" if len(tiers) > 1 else ""
        few = tip and n == sum(sizes) and half_width(n) > WIDE
        folds = as_called("gce train --folds 5", "gce.cross_fit(task, folds=5)")
        more = f"; {folds} tests on all questions" if few else ""
        yield f"{n:,} {split} questions{among}: 95 % interval about +-{100 * half_width(n):.0f} points{more}"
