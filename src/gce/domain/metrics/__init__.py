"""Metrics: one file for one or a few of them, and one line each in `METRICS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gce.domain.metrics.beliefs.entries import BELIEF_METRICS
from gce.domain.metrics.consultation import CONSULTATION_METRICS
from gce.domain.metrics.means import PROMPT_TOKENS, REPLIES, REWARD, TOKENS
from gce.domain.metrics.metric import Metric, MetricSettings, by_tier, by_unit, overall, point
from gce.domain.metrics.pass_at_k import pass_at
from gce.domain.metrics.rates import ACCURACY, COVERAGE, KEPT, NO_ROOM, TRUNCATED

__all__ = ["METRICS", "Metric", "MetricSettings", "by_tier", "by_unit", "overall", "point"]

_ALL: tuple[Metric[Any], ...] = (
    ACCURACY,
    REWARD,
    *(pass_at(8**power) for power in range(5)),
    COVERAGE,
    REPLIES,
    PROMPT_TOKENS,
    TOKENS,
    TRUNCATED,
    NO_ROOM,
    *KEPT,
    *BELIEF_METRICS,
    *CONSULTATION_METRICS,
)
METRICS: Mapping[str, Metric[Any]] = {metric.name: metric for metric in _ALL}
