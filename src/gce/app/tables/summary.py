"""The rows of summary tables: accuracy, mean rewards, and what training rollouts were like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gce.app.tables.cells import coverage_cell, difference_cell, interval_cell, p_cell, percent, share_cell
from gce.domain.diagnosis import run_counts
from gce.domain.measurements import Interval, IterationRecord, MeanReward
from gce.domain.outcomes import coverage
from gce.domain.statistics import Estimate, mean_over_tiers

__all__ = ["accuracy_rows", "gain_words", "reward_rows", "rollout_rows"]

Measured = TypeVar("Measured", Interval, MeanReward)


def rollout_rows(records: Sequence[IterationRecord]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """What the training rollouts of a run were like, a row a tier: head and rows."""
    shares = ("right", "problems", "all wrong", "all right", "cut off", "unreadable", "distinct", "coverage")
    head = ("", "rollouts", *shares)
    failed: Counter[str] = Counter()
    for record in records:
        failed.update(record.failed)
    rows = tuple(
        (
            tier,
            f"{count.rollouts}",
            percent(count.correct / count.rollouts),
            f"{count.problems}",
            percent(count.all_wrong / count.problems),
            percent(count.all_right / count.problems),
            percent(count.truncated / count.rollouts),
            percent(count.unparsed / count.rollouts),
            f"{count.distinct}",
            coverage_cell(count.rollouts / (count.rollouts + failed[tier])),
        )
        for tier, count in run_counts(records).items()
    )
    return head, rows


def accuracy_rows(
    rows: Mapping[str, Mapping[str, Interval]], tiers: Sequence[str], held_out: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Shares in every tier and their mean, with intervals, a row a name; a dash where it was not measured.

    The last column is the coverage.
    """
    lines = tuple(
        (
            name,
            *_tier_cells(row, tiers, lambda share: interval_cell(share, digits=0)),
            _mean_cell(row, tiers, share_cell),
            coverage_cell(coverage(row.values())),
        )
        for name, row in rows.items()
    )
    return ("", *_tier_heads(tiers, held_out), "mean", "coverage"), lines


def reward_rows(
    rows: Mapping[str, Mapping[str, MeanReward]], tiers: Sequence[str], held_out: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Mean rewards in [0, 1], as `accuracy_rows` has shares, but without the coverage."""
    lines = tuple(
        (
            name,
            *_tier_cells(row, tiers, lambda found: _reward_cell(found.value, found.low, found.high, digits=2)),
            _mean_cell(row, tiers, _reward_cell),
        )
        for name, row in rows.items()
    )
    return ("mean reward", *_tier_heads(tiers, held_out), "mean"), lines


def gain_words(mean: Estimate, gained: int, lost: int, p: float) -> str:
    """How answers to the same problems differ after training from before: a line."""
    counts = f"{gained} gained, {lost} lost, p = {p_cell(p)} (McNemar)"
    return f"after - before: {difference_cell(mean)} points, paired by problem; {counts}"


def _reward_cell(value: float, low: float, high: float, *, digits: int = 3) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def _tier_heads(tiers: Sequence[str], held_out: Sequence[str]) -> list[str]:
    return [f"{tier}, held out" if tier in held_out else tier for tier in tiers]


def _tier_cells(row: Mapping[str, Measured], tiers: Sequence[str], cell: Callable[[Measured], str]) -> list[str]:
    return [cell(row[tier]) if tier in row and row[tier].n else "-" for tier in tiers]


def _mean_cell(
    row: Mapping[str, Interval] | Mapping[str, MeanReward],
    tiers: Sequence[str],
    cell: Callable[[float, float, float], str],
) -> str:
    """The mean over all tiers; a dash where one was not measured."""
    mean = mean_over_tiers([row[tier] for tier in tiers]) if set(tiers) <= set(row) else None
    return "-" if mean is None else cell(mean.value, mean.low, mean.high)
