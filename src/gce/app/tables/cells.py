"""The cells of tables: shares, differences, p values and coverage as text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gce.domain.measurements import Interval
from gce.domain.paired import Gain
from gce.domain.statistics import Estimate

__all__ = [
    "SIGNIFICANT",
    "and_others",
    "closing_line",
    "count_words",
    "coverage_cell",
    "difference_cell",
    "gain_line",
    "interval_cell",
    "p_cell",
    "percent",
    "share_cell",
]


SIGNIFICANT = 0.05
"""p below which a difference is said to be shown."""


def and_others(count: int) -> str:
    """How many more there are, for the end of a sentence: "; and 1 other", and nothing where there are none."""
    return f"; and {count} other{'s' * (count > 1)}" if count else ""


def percent(share: float) -> str:
    """A share as a percentage without decimals, as "7%"."""
    return f"{100 * share:.0f}%"


def share_cell(share: float, low: float, high: float, *, digits: int = 1) -> str:
    """A share with its interval in percent, as "7.5 (4.1-12.3)"."""
    return f"{100 * share:.{digits}f} ({100 * low:.{digits}f}-{100 * high:.{digits}f})"


def interval_cell(found: Interval, *, digits: int = 1) -> str:
    """The same of a measured share."""
    return share_cell(found.share, found.low, found.high, digits=digits)


def difference_cell(found: Estimate, *, digits: int = 1, scale: float = 100.0) -> str:
    """A difference with its interval, by default of shares in points, as "+7.5 (-4.1 to +12.3)"."""
    rounded = (round(scale * each, digits) + 0.0 for each in (found.value, found.low, found.high))  # No "-0.0".
    value, low, high = (f"{each:+.{digits}f}" for each in rounded)
    return f"{value} ({low} to {high})"


def gain_line(gain: Gain, paired_by: str = "problem", *, rewards: bool = False) -> str:
    """A single paired comparison of accuracy, in points, or of mean rewards, in a line."""
    found, what, unit, test = difference_cell(gain.mean), "", "points", "McNemar"
    if rewards:
        value, low, high = (f"{each:+.3f}" for each in (gain.mean.value, gain.mean.low, gain.mean.high))
        found, what, unit, test = f"{value} ({low} to {high})", "mean reward, ", "in [0, 1]", "sign flips"
    counts = f"{gain.gained} gained, {gain.lost} lost"
    return f"{what}after - before: {found} {unit}, paired by {paired_by}; {counts}, {_p_words(gain.p)} ({test})"


def closing_line(gain: Gain, reward: Gain | None, n: int, means: tuple[float, float] | None = None) -> str:
    """What a run's tests show in a sentence, by their exact tests; `reward` is the gain in mean reward, if graded.

    `means` are the mean rewards after training and of the best prompt-blind baseline, which no test compares.
    """
    said = [_shown(gain, "accuracy" if reward is None else "right answers", n)]
    if reward is not None:
        said.insert(0, _shown(reward, "mean reward", n))
    if means is not None:
        after, blind = means
        where = "above" if after > blind else "not above"
        said.insert(
            1, f"{after:.3f} is {where} the best prompt-blind baseline, {blind:.3f}{' (not tested)' * (after > blind)}"
        )
    if (gain.mean.low > 0.0 or gain.mean.high < 0.0) is not (gain.p < SIGNIFICANT):
        said.append("its interval is approximate, the exact test counts")
    return f"Result: {'; '.join(said)}."


def _shown(gain: Gain, what: str, n: int) -> str:
    if gain.p >= SIGNIFICANT:
        return f"a change in {what} is not shown at n = {n} ({_p_words(gain.p)})"
    return f"{what} {'rose' if gain.mean.value > 0 else 'fell'} ({_p_words(gain.p)})"


def _p_words(p: float) -> str:
    return f"p {p_cell(p)}" if p < 0.001 else f"p = {p_cell(p)}"


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
    each = " a tier" if len(counts) > 1 else ""
    return f"n = {most}{each}{all_of_them[usual]}{''.join(fewer)}"
