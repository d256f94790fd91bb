"""The table of belief measures of an evaluation: a row for each measure, a column for each strategy that allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gce.domain.conversations import Conversation
from gce.domain.figures import Table
from gce.domain.metrics import MetricSettings, overall
from gce.domain.metrics.beliefs.entries import BELIEF_METRICS
from gce.domain.metrics.means import PROMPT_TOKENS, TOKENS
from gce.domain.metrics.metric import Metric
from gce.domain.statistics import Estimate

__all__ = ["Measures", "belief_measures", "measures_table"]

Measures = Mapping[str, Mapping[str, Estimate]]
"""Estimates over all tiers by metric and strategy; a strategy that does not allow a metric is left out there."""

_ROWS: tuple[Metric[Estimate], ...] = (*BELIEF_METRICS, PROMPT_TOKENS, TOKENS)


def belief_measures(
    conversations: Mapping[str, Sequence[Conversation]], settings: MetricSettings | None = None
) -> Measures:
    """Measure the beliefs of each strategy's conversations, and the tokens that they cost.

    Nothing is returned if no strategy has a belief with a known outcome or posterior.
    """
    found = {
        metric.name: {
            name: estimate
            for name, held in conversations.items()
            if (estimate := overall(metric, held, settings)) is not None
        }
        for metric in _ROWS
    }
    measured = {name: row for name, row in found.items() if row}
    return measured if any(metric.name in measured for metric in BELIEF_METRICS) else {}


def measures_table(measures: Measures, strategies: Sequence[str]) -> Table:
    """A row for each measure, with 95 % intervals."""
    rows = tuple(
        (metric.name, *(_cell(metric, measures[metric.name].get(name)) for name in strategies))
        for metric in _ROWS
        if metric.name in measures
    )
    return Table(("all tiers (95 %)", *strategies), rows)


def _cell(metric: Metric[Any], found: Estimate | None) -> str:
    if found is None:
        return "-"
    if metric in (PROMPT_TOKENS, TOKENS):
        return f"{found.value:.0f} ({found.low:.0f} to {found.high:.0f})"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
