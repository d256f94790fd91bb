"""Tables of results as text, and the cells that numbers with intervals become."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gce.domain.diagnosis import run_counts
from gce.domain.measurements import Interval, IterationRecord, MeanReward
from gce.domain.outcomes import coverage
from gce.domain.statistics import Estimate, mean_over_tiers
from gce.domain.text import printable

__all__ = [
    "accuracy_rows",
    "count_words",
    "coverage_cell",
    "difference_cell",
    "interval_cell",
    "p_cell",
    "percent",
    "reward_rows",
    "rollout_rows",
    "screen_width",
    "share_cell",
    "table",
]

Measured = TypeVar("Measured", Interval, MeanReward)


def percent(share: float) -> str:
    """A share as a percentage without decimals, as "7%"."""
    return f"{100 * share:.0f}%"


def share_cell(share: float, low: float, high: float, *, digits: int = 1) -> str:
    """A share with its interval in percent, as "7.5 (4.1-12.3)"."""
    return f"{100 * share:.{digits}f} ({100 * low:.{digits}f}-{100 * high:.{digits}f})"


def interval_cell(found: Interval, *, digits: int = 1) -> str:
    """The same of a measured share."""
    return share_cell(found.share, found.low, found.high, digits=digits)


def difference_cell(found: Estimate, *, digits: int = 1) -> str:
    """A difference of shares with its interval in points, as "+7.5 (-4.1 to +12.3)"."""
    value, low, high = (f"{100 * each:+.{digits}f}" for each in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"


def coverage_cell(share: float) -> str:
    """A coverage in percent, as "100 %"; never rounded up to that."""
    return f"{math.floor(1000 * share) / 10:g} %"


def p_cell(p: float | None) -> str:
    """A p value."""
    return "-" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def count_words(counts: Mapping[str, int], asked: int) -> str:
    """How many problems tiers have, by tier, of so many `asked` for; a tier that has fewer says that these are all."""
    most = max(counts.values())
    all_of_them = {tier: " (all there are)" if n < asked else "" for tier, n in counts.items()}
    usual = next(tier for tier, n in counts.items() if n == most)
    fewer = [f", {n} in {tier}{all_of_them[tier]}" for tier, n in counts.items() if n < most]
    return f"n = {most} a tier{all_of_them[usual]}{''.join(fewer)}"


def screen_width() -> int:
    """Columns of the terminal, or as the environment variable COLUMNS says; 80 where there is no terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, words: bool = False, width: int | None = None) -> str:
    """Columns of even width, the first to the left and the others to the right, or to the left where they are words.

    A row is a line, whatever its cells hold. A table that is wider than `width`, by default the screen, continues
    below: further columns behind the first one again. A column alone may be wider.
    """
    head, *rows = ([printable(cell) for cell in row] for row in (head, *rows))
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    place = str.ljust if words else str.rjust

    def line(cells: Sequence[str], columns: Sequence[int]) -> str:
        rest = "  ".join(place(cells[column], widths[column]) for column in columns)
        return f"{cells[0]:<{widths[0]}}  {rest}".rstrip()

    rule = ["-" * width for width in widths]
    blocks = _side_by_side(widths, screen_width() if width is None else width)
    return "\n\n".join("\n".join(line(row, columns) for row in (head, rule, *rows)) for columns in blocks)


def _side_by_side(widths: Sequence[int], most: int) -> list[list[int]]:
    """Columns but the first, in as many groups as it takes for each to fit beside the first."""
    groups: list[list[int]] = [[]]
    taken = widths[0]
    for column, width in enumerate(widths[1:], start=1):
        if groups[-1] and taken + 2 + width > most:
            groups.append([])
            taken = widths[0]
        groups[-1].append(column)
        taken += 2 + width
    return groups


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
