"""Compare the cost and accuracy of prompting strategies with zero-shot, unit by unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics import Metric, MetricSettings, by_unit, point
from gce.domain.metrics.means import PROMPT_TOKENS, REPLIES, TOKENS
from gce.domain.metrics.rates import ACCURACY, NO_ROOM, TRUNCATED
from gce.domain.randomness import generator
from gce.domain.statistics import (
    DEFAULT_INTERVAL,
    Estimate,
    holm,
    interval,
    mcnemar,
    paired_difference,
    sign_flip_p,
    stratified_bootstrap,
)
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.verdicts import Status

__all__ = ["Attempts", "Gain", "Measured", "against", "attempts", "paired_gain"]

_COSTS: Mapping[str, Metric[Any]] = {
    "replies": REPLIES,
    "prompt_tokens": PROMPT_TOKENS,
    "tokens": TOKENS,
    "cut_off": TRUNCATED,
    "no_room": NO_ROOM,
}


@frozen(slots=False)
class Measured:
    """All conversations of one strategy."""

    conversations: tuple[Conversation, ...]
    seconds: float
    """Total seconds of all conversations."""

    @cached_property
    def judged(self) -> tuple[Answer, ...]:
        """The final attempts."""
        return tuple(conversation.last for conversation in self.conversations)

    @property
    def no_room(self) -> list[Answer]:
        """Attempts whose prompt did not fit the model's context."""
        return [judged for judged in self.judged if judged.completion.finish_reason == "context"]

    @property
    def costs(self) -> dict[str, float | None]:
        """Mean costs per conversation; None if the backend does not report a cost for each."""
        means = {name: _mean(metric, self.conversations) for name, metric in _COSTS.items()}
        return {"seconds": self.seconds / len(self.conversations), **means}


def _mean(metric: Metric[Any], conversations: Sequence[Conversation]) -> float | None:
    found = list(by_unit(metric, conversations).values())
    return None if None in found else point(metric.estimate(found, MetricSettings()))


@frozen
class Gain:
    """One strategy compared with zero-shot on the same problems."""

    mean: Estimate
    """Mean of the tiers' differences."""
    gained: int
    """Number of units that only this strategy solves, or on which it has the larger value."""
    lost: int
    p: float
    """Two-sided p value: exact McNemar test for shares, sign-flip test for other values."""
    adjusted: float = field(default=1.0)
    """Holm-adjusted p value over all compared strategies."""


@frozen
class Attempts:
    """What further attempts recover."""

    first: Interval
    """Share right at the first attempt."""
    trajectory: Interval
    """Share right at the last attempt."""
    recovered: Interval
    """Share of those wrong at first that are right at the end."""
    used: float
    """Mean number of attempts."""


def against(found: Mapping[str, Measured], metric: Metric[Any] = ACCURACY) -> dict[str, Gain]:
    """Compare each strategy with zero-shot, if measured, over the units for which both have a value.

    Raises:
        ValueError: the metric does not support paired comparison.
    """
    if metric.paired is None:
        raise ValueError(f"{metric.name} cannot be compared {metric.over} by {metric.over}")
    if ZERO_SHOT.name not in found:
        return {}
    base = _numbers(metric, found[ZERO_SHOT.name].conversations)
    gains = {}
    for name, measured in found.items():
        after = _numbers(metric, measured.conversations)
        pairs = [(unit[0], base[unit], number) for unit, number in after.items() if unit in base]
        if name != ZERO_SHOT.name and pairs:
            gains[name] = _gain(pairs)
    adjusted = holm([gain.p for gain in gains.values()])
    return {name: evolve(gain, adjusted=p) for (name, gain), p in zip(gains.items(), adjusted, strict=True)}


def _numbers(metric: Metric[Any], conversations: Sequence[Conversation]) -> dict[tuple[str, str, int], float]:
    """Return the compared values by unit."""
    assert metric.paired is not None
    units = by_unit(metric, conversations).items()
    found = {unit: metric.paired(each) for unit, each in units if each is not None}
    return {unit: number for unit, number in found.items() if number is not None}


def _gain(pairs: Sequence[tuple[str, float, float]]) -> Gain:
    """Return the gain from (tier, before, after)."""
    differences: dict[str, list[float]] = {}
    for tier, before, after in pairs:
        differences.setdefault(tier, []).append(after - before)
    strata = list(differences.values())
    gained, lost = (sum(sign * each > 0 for tier in strata for each in tier) for sign in (1, -1))
    if {number for _, *numbers in pairs for number in numbers} <= {0.0, 1.0}:
        mean = paired_difference([(tier.count(1.0), tier.count(-1.0), len(tier)) for tier in strata])
        return Gain(mean, gained, lost, mcnemar(gained, lost))
    mean = stratified_bootstrap(strata, generator(0, "gain"))
    return Gain(mean, gained, lost, sign_flip_p(strata, generator(0, "gain, p")))


def paired_gain(before: Mapping[tuple[str, str], Status], after: Mapping[tuple[str, str], Status]) -> Gain | None:
    """Return the gain in accuracy between outcomes by tier and digest; None if no problem was judged both times."""
    pairs = {each: (before[each], after[each]) for each in sorted(before.keys() & after.keys())}
    judged = [
        (tier, float(first == "right"), float(last == "right"))
        for (tier, _), (first, last) in pairs.items()
        if "failed" not in (first, last)
    ]
    return _gain(judged) if judged else None


def attempts(measured: Measured, *, method: str = DEFAULT_INTERVAL) -> Attempts:
    """Return the shares over all tiers together, without failed conversations."""
    found = [conversation for conversation in measured.conversations if not conversation.last.failed]
    count = len(found)
    first = sum(conversation.attempts[0].right for conversation in found)
    last = sum(conversation.last.right for conversation in found)
    used = sum(len(conversation.attempts) for conversation in found) / max(1, count)
    return Attempts(
        interval(first, count, method=method),
        interval(last, count, method=method),
        interval(last - first, count - first, method=method),
        used,
    )
