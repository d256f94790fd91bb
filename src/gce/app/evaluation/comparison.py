"""Compare strategies with one of them in cost and accuracy, and stored answers with each other, unit by unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import stored_reward
from gce.domain.answers import Answer
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics import Metric, MetricSettings, by_unit, point
from gce.domain.metrics.means import PROMPT_TOKENS, REPLIES, TOKENS
from gce.domain.metrics.rates import ACCURACY, NO_ROOM, TRUNCATED
from gce.domain.paired import Gain, Pair, paired_gain, paired_gains
from gce.domain.statistics import DEFAULT_INTERVAL, interval
from gce.domain.strategies.single_turn import ZERO_SHOT

__all__ = [
    "Attempts",
    "Measured",
    "against",
    "attempts",
    "compared_with",
    "gains_between",
    "stored_gain",
    "stored_pairs",
]

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
    peak_bytes: int | None = None
    """Peak resident memory of this process meanwhile, the model's included."""

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
    estimate = None if None in found else metric.estimate(found, MetricSettings())
    return None if estimate is None else point(estimate)


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
    """Compare each strategy with zero-shot, or else with the first one, over the units for which both have a value.

    Raises:
        ValueError: the metric does not support paired comparison.
    """
    reference = compared_with(found)
    return gains_between(found, {name: (reference, name) for name in found if name != reference}, metric)


def gains_between(
    found: Mapping[str, Measured], comparisons: Mapping[str, tuple[str, str]], metric: Metric[Any] = ACCURACY
) -> dict[str, Gain]:
    """Compare pairs of strategies, each named (before, after), over the units for which both have a value.

    Raises:
        ValueError: the metric does not support paired comparison.
    """
    if metric.paired is None:
        raise ValueError(f"{metric.name} cannot be compared {metric.over} by {metric.over}")
    named = {name for pair in comparisons.values() for name in pair}
    numbers = {name: _numbers(metric, found[name].conversations) for name in named}
    compared = {}
    for what, (before, after) in comparisons.items():
        base = numbers[before]
        pairs = [(unit[0], base[unit], number) for unit, number in numbers[after].items() if unit in base]
        if pairs:
            compared[what] = pairs
    return paired_gains(compared)


def compared_with(found: Mapping[str, Measured]) -> str:
    """Return the strategy that the others are compared with: zero-shot if measured, else the first."""
    return ZERO_SHOT.name if ZERO_SHOT.name in found else next(iter(found))


def _numbers(metric: Metric[Any], conversations: Sequence[Conversation]) -> dict[tuple[str, str, int], float]:
    """Return the compared values by unit."""
    assert metric.paired is not None
    units = by_unit(metric, conversations).items()
    found = {unit: metric.paired(each) for unit, each in units if each is not None}
    return {unit: number for unit, number in found.items() if number is not None}


def stored_pairs(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]], *, rewards: bool = False
) -> list[Pair]:
    """Pair two sets of stored answers, such as a run's `test-before` and `test-after`, by tier and problem.

    Values are 1 for a right answer and 0 for any other, or rewards. Answers that failed are left out.
    """
    earlier, later = (_stored_values(each, rewards=rewards) for each in (before, after))
    return [(problem[0], earlier[problem], value) for problem, value in later.items() if problem in earlier]


def stored_gain(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]], *, rewards: bool = False
) -> Gain | None:
    """Compare two sets of stored answers; None if no problem was judged in both.

    With `rewards` mean rewards are compared, and the result is None where no reward is partial.
    """
    pairs = stored_pairs(before, after, rewards=rewards)
    if rewards and {number for _, *numbers in pairs for number in numbers} <= {0.0, 1.0}:
        return None
    return paired_gain(pairs) if pairs else None


def _stored_values(answers: Iterable[Mapping[str, Any]], *, rewards: bool) -> dict[tuple[str, str], float]:
    return {
        (each["tier"], each.get("digest") or each["problem"]): reward if rewards else float(each["right"])
        for each in answers
        if (reward := stored_reward(each)) is not None
    }


def attempts(measured: Measured, *, method: str = DEFAULT_INTERVAL) -> Attempts:
    """Return the shares over all tiers together, without failed conversations."""
    found = [conversation for conversation in measured.conversations if not conversation.last.failed]
    count = len(found)
    first = sum(conversation.tries[0].right for conversation in found)
    last = sum(conversation.last.right for conversation in found)
    used = sum(len(conversation.tries) for conversation in found) / max(1, count)
    return Attempts(
        interval(first, count, method=method),
        interval(last, count, method=method),
        interval(last - first, count - first, method=method),
        used,
    )
