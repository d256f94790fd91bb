"""What a list of questions can tell: the width of the interval that so few problems leave."""

from __future__ import annotations

from collections.abc import Iterator

from gce.domain.problems import Split
from gce.domain.statistics import interval
from gce.domain.tasks.task import Listed, Task

__all__ = ["half_width", "resolution"]

WIDE = 0.05
"""Half the width of an interval above which more questions are proposed."""


def half_width(n: int) -> float:
    """Half the width of the 95 % Wilson interval where half of `n` problems are right: the widest that there is."""
    found = interval(n // 2, n)  # An odd n has no half; the width is nearly the same.
    return (found.high - found.low) / 2


def resolution(task: Task, preset: str, limit: int, split: Split = "test") -> Iterator[str]:
    """A line for a listed task: how many questions of the split there are, and what they resolve; nothing for others."""
    if not isinstance(task.draw, Listed):
        return
    sizes = {tier.name: min(limit, len(task.draw.instances(preset, tier.name, split))) for tier in task.tiers(preset)}
    n = sum(sizes.values())
    if n:
        tiers = f" in {len(sizes)} tiers" if len(sizes) > 1 else ""
        more = "; gce train --folds 5 tests on all questions" if half_width(n) > WIDE else ""
        yield f"{n:,} {split} questions{tiers}: 95 % interval about +-{100 * half_width(n):.0f} points{more}"
