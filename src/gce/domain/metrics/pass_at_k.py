"""pass@k: the probability that at least one of k samples is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gce.domain.conversations import Conversation
from gce.domain.metrics.metric import Metric, MetricSettings
from gce.domain.statistics import Estimate, mean_pass_at_k

__all__ = ["pass_at"]


def pass_at(k: int) -> Metric[Estimate]:
    """Make the metric pass@k, over the problems with at least k samples that did not fail."""

    def estimate(counts: Sequence[tuple[int, int]], settings: MetricSettings) -> Estimate:
        return mean_pass_at_k(counts, k, method=settings.interval, confidence=settings.confidence)

    return Metric(
        name=f"pass@{k}",
        help=f"probability that at least one of {k} samples is right"
        if k > 1
        else "probability that a sample is right",
        over="problem",
        contribution=_counts(k),
        estimate=estimate,
        unit="share",
        higher_is_better=True,
    )


def _counts(k: int) -> Callable[[Sequence[Conversation]], tuple[int, int] | None]:
    def counted(conversations: Sequence[Conversation]) -> tuple[int, int] | None:
        right = [each.last.right for each in conversations if not each.last.failed]
        return (len(right), sum(right)) if len(right) >= k else None

    return counted
