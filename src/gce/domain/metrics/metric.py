"""What a metric is: contributions of answers, problems or whole runs, and the estimate made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from attrs import field, frozen, validators

from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS, Estimate

__all__ = ["Metric", "MetricSettings", "by_tier", "by_unit", "overall", "point"]

Estimated = TypeVar("Estimated", bound="Interval | Estimate")


@frozen
class MetricSettings:
    """How intervals are made."""

    confidence: float = 0.95
    interval: str = field(default=DEFAULT_INTERVAL, validator=validators.in_(INTERVALS))
    """Of shares: an entry of `INTERVALS`."""


@frozen(kw_only=True)
class Metric(Generic[Estimated]):
    """A number that is measured: an entry of `METRICS`. Pure."""

    name: str
    help: str
    over: Literal["answer", "problem", "run"]
    """What makes one contribution: a conversation, all conversations about a problem, or all of them."""
    contribution: Callable[[Sequence[Conversation]], Any]
    """Of one unit; None where it says nothing."""
    estimate: Callable[[Sequence[Any], MetricSettings], Estimated]
    """From at least one contribution; contributions are independent of each other."""
    unit: str
    """Of the estimate: share, tokens, replies, ..."""
    higher_is_better: bool | None
    """None where neither is."""
    paired: Callable[[Any], float | None] | None = None
    """The number by which a contribution is compared with another strategy's of the same unit, None where it has none;
    None where the metric cannot be compared unit by unit."""


def by_unit(metric: Metric[Any], conversations: Sequence[Conversation]) -> dict[tuple[str, str, int], Any]:
    """Contributions by tier, problem key and sample; what a metric is not over is empty or 0."""
    units: dict[tuple[str, str, int], list[Conversation]] = {}
    samples: dict[str, int] = {}
    for conversation in conversations:
        problem = conversation.last.problem
        sample = samples[problem.key] = samples.get(problem.key, -1) + 1
        unit = {"answer": (problem.tier, problem.key, sample), "problem": (problem.tier, problem.key, 0)}
        units.setdefault(unit.get(metric.over, ("", "", 0)), []).append(conversation)
    return {unit: metric.contribution(found) for unit, found in units.items()}


def overall(
    metric: Metric[Estimated], conversations: Sequence[Conversation], settings: MetricSettings | None = None
) -> Estimated | None:
    """The estimate over all conversations; None where none says anything."""
    found = [each for each in by_unit(metric, conversations).values() if each is not None]
    return metric.estimate(found, settings or MetricSettings()) if found else None


def by_tier(
    metric: Metric[Estimated], conversations: Sequence[Conversation], settings: MetricSettings | None = None
) -> dict[str, Estimated]:
    """The estimate of each tier, in the order in which tiers come; without tiers in which none says anything."""
    tiers: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        tiers.setdefault(conversation.last.problem.tier, []).append(conversation)
    found = {tier: overall(metric, each, settings) for tier, each in tiers.items()}
    return {tier: each for tier, each in found.items() if each is not None}


def point(estimate: Interval | Estimate) -> float:
    """The point estimate."""
    return estimate.share if isinstance(estimate, Interval) else estimate.value
