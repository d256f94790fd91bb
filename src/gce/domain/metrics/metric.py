"""The definition of a metric: contributions of answers, problems or whole runs, and an estimate made from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from attrs import field, frozen, validators

from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval, MeanReward
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS, Estimate

__all__ = ["Metric", "MetricSettings", "by_tier", "by_unit", "overall", "point"]

Estimated = TypeVar("Estimated", bound="Interval | Estimate")


@frozen
class MetricSettings:
    """Settings of confidence intervals."""

    confidence: float = 0.95
    interval: str = field(default=DEFAULT_INTERVAL, validator=validators.in_(INTERVALS))
    """Method for intervals of shares: an entry of `INTERVALS`."""


@frozen(kw_only=True)
class Metric(Generic[Estimated]):
    """A measured quantity: an entry of `METRICS`. Pure."""

    name: str
    help: str
    over: Literal["answer", "problem", "run"]
    """The unit that makes one contribution: a conversation, all conversations about a problem, or all of a run."""
    contribution: Callable[[Sequence[Conversation]], Any]
    """Returns the contribution of one unit; None if the unit has none."""
    estimate: Callable[[Sequence[Any], MetricSettings], Estimated | None]
    """Makes the estimate from at least one contribution; contributions are independent of each other. None where it
    is not defined, as a slope on what does not vary."""
    unit: str
    """Unit of the estimate: share, tokens, replies, ..."""
    higher_is_better: bool | None
    """None if neither direction is better."""
    paired: Callable[[Any], float | None] | None = None
    """Returns the value by which a contribution is compared with another strategy's for the same unit, or None if it
    has none. None: the metric does not allow paired comparison."""


def by_unit(metric: Metric[Any], conversations: Sequence[Conversation]) -> dict[tuple[str, str, int], Any]:
    """Return the contributions by tier, problem key and sample.

    Parts of the key that do not identify the metric's unit are empty or 0.
    """
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
    """Return the estimate over all conversations; None if no unit contributes, or if it is not defined."""
    found = [each for each in by_unit(metric, conversations).values() if each is not None]
    return metric.estimate(found, settings or MetricSettings()) if found else None


def by_tier(
    metric: Metric[Estimated], conversations: Sequence[Conversation], settings: MetricSettings | None = None
) -> dict[str, Estimated]:
    """Return the estimate of each tier, in order of first appearance; tiers without one are left out."""
    tiers: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        tiers.setdefault(conversation.last.problem.tier, []).append(conversation)
    found = {tier: overall(metric, each, settings) for tier, each in tiers.items()}
    return {tier: each for tier, each in found.items() if each is not None}


def point(estimate: Interval | MeanReward | Estimate) -> float:
    """Return the point estimate."""
    return estimate.share if isinstance(estimate, Interval) else estimate.value
