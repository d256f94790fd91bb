"""Contract check for metrics, over given conversations."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics import Metric, MetricSettings, by_tier, by_unit, overall, point
from gce.domain.statistics import INTERVALS, Estimate

__all__ = ["check_metric"]


def check_metric(metric: Metric[Any], conversations: Sequence[Conversation]) -> Interval | Estimate:
    """Assert the docstring of `Metric`; return the estimate over the conversations, which must contribute to it."""
    assert metric.name and metric.help and metric.unit
    units = by_unit(metric, conversations)
    assert units == by_unit(metric, conversations), "the same answers, the same contributions"
    found = overall(metric, conversations)
    assert isinstance(found, Interval | Estimate), found
    assert found == overall(metric, conversations)
    assert isfinite(point(found)) and found.low <= point(found) <= found.high, found
    wide = overall(metric, conversations, MetricSettings(confidence=0.999))
    assert wide is not None and wide.low <= found.low and found.high <= wide.high, "more confidence, more width"
    for method in INTERVALS:
        other = overall(metric, conversations, MetricSettings(interval=method))
        assert other is not None and point(other) == point(found), "the method changes the limits alone"
    tiers = [each.last.problem.tier for each in conversations]
    assert list(by_tier(metric, conversations)) == [
        tier for tier in dict.fromkeys(tiers) if _speaks(metric, conversations, tier)
    ]
    for contribution in units.values():
        if metric.paired is not None and contribution is not None:
            number = metric.paired(contribution)
            assert number is None or (isinstance(number, float) and isfinite(number)), number
    return found


def _speaks(metric: Metric[Any], conversations: Sequence[Conversation], tier: str) -> bool:
    found = by_unit(metric, [each for each in conversations if each.last.problem.tier == tier])
    return any(contribution is not None for contribution in found.values())
