"""The cells of tables: shares, differences, p values and coverage as text."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gce.domain.measurements import Interval
from gce.domain.statistics import Estimate

__all__ = ["count_words", "coverage_cell", "difference_cell", "interval_cell", "p_cell", "percent", "share_cell"]


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
