"""The rows of summary tables: accuracy, mean rewards, and what training rollouts were like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gce.app.tables.cells import coverage_cell, interval_cell, percent, share_cell
from gce.domain.algorithms import Algorithm
from gce.domain.diagnosis import run_counts
from gce.domain.figures import Table
from gce.domain.measurements import Interval, IterationRecord, MeanReward, TierCount
from gce.domain.outcomes import coverage
from gce.domain.statistics import mean_over_tiers

__all__ = [
    "BEST_BLIND",
    "accuracy_rows",
    "means_beside_blind",
    "reward_rows",
    "rollout_rows",
    "score_tables",
    "what_teaches",
]

Measured = TypeVar("Measured", Interval, MeanReward)

BEST_BLIND = "best prompt-blind"
"""The row of the best prompt-blind baseline of each tier."""
CUT_OFF, UNREADABLE, COVERAGE = "cut off", "unreadable", "coverage"
Rows = tuple[tuple[str, ...], ...]


def rollout_rows(records: Sequence[IterationRecord]) -> tuple[tuple[str, ...], Rows]:
    """What the training rollouts of a run were like, a row a tier: head and rows.

    Where rewards are graded, problems whose rollouts all had the same reward are one column, as this reward need not be
    that of a wrong or of a perfect answer. Columns of what did not happen are left out: answers that were cut off,
    unreadable or not judged.
    """
    counts = run_counts(records)
    graded = any(record.graded for record in records)
    equal = ("equal rewards",) if graded else ("all wrong", "all right")
    shares = ("problems", *equal, CUT_OFF, UNREADABLE, "distinct", COVERAGE)
    head = ("", "rollouts", "right", *(("mean reward",) if graded else ()), *shares)
    failed: Counter[str] = Counter()
    for record in records:
        failed.update(record.failed)
    rows = tuple(
        (
            tier,
            f"{count.rollouts}",
            percent(count.correct / count.rollouts),
            *((f"{count.total_reward / count.rollouts:.3f}",) if graded else ()),
            f"{count.problems}",
            *(percent(problems / count.problems) for problems in _equal(count, graded)),
            percent(count.truncated / count.rollouts),
            percent(count.unparsed / count.rollouts),
            f"{count.distinct}",
            coverage_cell(count.rollouts / (count.rollouts + failed[tier])),
        )
        for tier, count in counts.items()
    )
    return _without_idle(head, rows)


def _without_idle(head: Sequence[str], rows: Rows) -> tuple[tuple[str, ...], Rows]:
    idle = {CUT_OFF: percent(0.0), UNREADABLE: percent(0.0), COVERAGE: coverage_cell(1.0)}
    kept = [
        place for place, name in enumerate(head) if name not in idle or any(row[place] != idle[name] for row in rows)
    ]
    return tuple(head[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in rows)


def _equal(count: TierCount, graded: bool) -> tuple[int, ...]:
    """Problems whose rollouts all had the same reward: together, or those of wrong and of right rollouts."""
    return (count.equal_rewards,) if graded else (count.all_wrong, count.all_right)


def what_teaches(records: Sequence[IterationRecord], algorithm: Algorithm) -> str:
    """Which problems or rollouts of a run teach anything, in words."""
    if not any(record.graded for record in records):
        return "Only problems with mixed outcomes teach anything"
    if algorithm.top is not None:
        return f"{algorithm.name} learns from the rollouts with the best rewards, over all problems together"
    if algorithm.graded or algorithm.drops_decided:
        return "Problems whose rollouts all have the same reward (equal rewards) teach nothing"
    return f"{algorithm.name} learns from admitted rollouts, by default the right ones, whatever the others' rewards"


def accuracy_rows(
    rows: Mapping[str, Mapping[str, Interval]], tiers: Sequence[str], held_out: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Shares in every tier and their mean, with intervals, a row a name; a dash where it was not measured.

    The last column is the coverage. One tier alone is its mean.
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
    return ("", *_heads(tiers, held_out), "coverage"), lines


def score_tables(
    rows: Mapping[str, Mapping[str, Interval]],
    rewards: Mapping[str, Mapping[str, MeanReward]],
    tiers: Sequence[str],
    held_out: Sequence[str] = (),
) -> list[str | Table]:
    """Accuracy and, where there are some, mean rewards: of one tier side by side, else in two tables."""
    if not rewards:
        return [Table(*accuracy_rows(rows, tiers, held_out))]
    if len(tiers) > 1:
        return [Table(*accuracy_rows(rows, tiers, held_out)), "", Table(*reward_rows(rewards, tiers, held_out))]
    lines = tuple(
        (
            name,
            _mean_cell(row, tiers, share_cell),
            _mean_cell(rewards.get(name, {}), tiers, _reward_cell),
            coverage_cell(coverage(row.values())),
        )
        for name, row in rows.items()
    )
    return [Table(("", "right", "mean reward", COVERAGE), lines)]


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
    return ("mean reward", *_heads(tiers, held_out)), lines


def _reward_cell(value: float, low: float, high: float, *, digits: int = 3) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f}-{high:.{digits}f})"


def _heads(tiers: Sequence[str], held_out: Sequence[str]) -> list[str]:
    heads = [f"{tier}, held out" if tier in held_out else tier for tier in tiers]
    return heads if len(tiers) == 1 else [*heads, "mean"]


def _tier_cells(row: Mapping[str, Measured], tiers: Sequence[str], cell: Callable[[Measured], str]) -> list[str]:
    if len(tiers) == 1:
        return []
    return [cell(row[tier]) if tier in row and row[tier].n else "-" for tier in tiers]


def _mean_cell(
    row: Mapping[str, Interval] | Mapping[str, MeanReward],
    tiers: Sequence[str],
    cell: Callable[[float, float, float], str],
) -> str:
    """The mean over all tiers; a dash where one was not measured."""
    mean = mean_over_tiers([row[tier] for tier in tiers]) if set(tiers) <= set(row) else None
    return "-" if mean is None else cell(mean.value, mean.low, mean.high)


def means_beside_blind(rewards: Mapping[str, Mapping[str, MeanReward]]) -> tuple[float, float] | None:
    """The mean rewards after training and of the best prompt-blind baseline; None where one of them is missing."""
    after, blind = (mean_over_tiers(rewards.get(row, {}).values()) for row in ("after", BEST_BLIND))
    return None if after is None or blind is None else (after.value, blind.value)
