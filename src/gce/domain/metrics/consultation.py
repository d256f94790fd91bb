"""Metrics of consultations: means over conversations of what the strategy `consultation` counts, and of refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gce.domain.conversations import Conversation
from gce.domain.metrics.metric import Metric
from gce.domain.statistics import Estimate, clustered_mean, mean_of_problems

__all__ = ["CONSULTATION_METRICS"]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _measured(name: str, words: str, *, higher_is_better: bool | None = False) -> Metric[Estimate]:
    def values(conversations: Sequence[Conversation]) -> tuple[float, ...] | None:
        found = [each.last.measure(name) for each in conversations if not each.last.failed]
        known = tuple(each for each in found if each is not None)
        return known or None

    return Metric(
        name=name,
        help=words,
        over="problem",
        contribution=values,
        estimate=lambda problems, settings: clustered_mean(problems, confidence=settings.confidence),
        unit="count",
        higher_is_better=higher_is_better,
        paired=_mean,
    )


def _refused(conversations: Sequence[Conversation]) -> float | None:
    judged = (each.last.verdicts for each in conversations if not each.last.failed)
    found = [float(verdict.right) for each in judged for verdict in each if verdict.evaluator == "refusal"]
    return _mean(found) if found else None


REFUSALS = Metric(
    name="refusals",
    help="share of answers that refuse what has to be refused, and nothing else",
    over="problem",
    contribution=_refused,
    estimate=lambda found, settings: mean_of_problems(found, method=settings.interval, confidence=settings.confidence),
    unit="share",
    higher_is_better=True,
    paired=float,
)
CONSULTATION_METRICS = (
    _measured("questions", "questions to the simulated user per consultation", higher_is_better=None),
    _measured("questions at least", "smallest number of questions that finds out everything", higher_is_better=None),
    _measured("facts missed", "facts per consultation that the user was not asked for"),
    _measured("facts invented", "facts per consultation that were stated although nobody had told them"),
    REFUSALS,
)
