"""Shares of conversations: right, judged, truncated, and right if another of several answers counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from gce.domain.answers import Answer
from gce.domain.completions import FinishReason
from gce.domain.conversations import Conversation
from gce.domain.measurements import Interval
from gce.domain.metrics.metric import Metric, MetricSettings
from gce.domain.outcomes import rate
from gce.domain.statistics import interval
from gce.domain.verdicts import Status

__all__ = ["ACCURACY", "COVERAGE", "KEPT", "NO_ROOM", "TRUNCATED"]


def _outcomes(conversations: Sequence[Conversation]) -> tuple[Status, ...]:
    return tuple(each.last.outcome for each in conversations)


def _rate(problems: Sequence[Sequence[Status]], settings: MetricSettings) -> Interval:
    return rate(
        chain.from_iterable(problems),
        method=settings.interval,
        confidence=settings.confidence,
        problems=sum(_right(each) is not None for each in problems),
    )


def _right(outcomes: Sequence[Status]) -> float | None:
    """Return the share of right answers to one problem."""
    judged = [each == "right" for each in outcomes if each != "failed"]
    return sum(judged) / len(judged) if judged else None


def _share(found: Sequence[bool], settings: MetricSettings) -> Interval:
    return interval(sum(found), len(found), method=settings.interval, confidence=settings.confidence)


def _kept(name: str, words: str, choose: Callable[[Conversation], Answer]) -> Metric[Interval]:
    """Make a metric for the share right if another of a conversation's answers counted."""
    return Metric(
        name=name,
        help=words,
        over="problem",
        contribution=lambda found: tuple(choose(each).outcome for each in found),
        estimate=_rate,
        unit="share",
        higher_is_better=True,
        paired=_right,
    )


def _written(conversation: Conversation) -> Sequence[Answer]:
    """The first answer and revisions of it, where there are any, else the answer that counts."""
    found = [each for each in conversation.attempts if each.reading in ("first", "revised")]
    return found or [conversation.last]


def _best(conversation: Conversation) -> Answer:
    written = _written(conversation)
    return written[min(int(conversation.last.notes.get("best", 0)), len(written) - 1)]


def _finished(name: str, words: str, reason: FinishReason) -> Metric[Interval]:
    """Make a metric for the share of answers with this finish reason."""
    return Metric(
        name=name,
        help=words,
        over="answer",
        contribution=lambda found: found[0].last.completion.finish_reason == reason,
        estimate=_share,
        unit="share",
        higher_is_better=False,
        paired=float,
    )


ACCURACY = Metric(
    name="accuracy",
    help="share of judged answers that are right",
    over="problem",
    contribution=_outcomes,
    estimate=_rate,
    unit="share",
    higher_is_better=True,
    paired=_right,
)
COVERAGE = Metric(
    name="coverage",
    help="share of answers that could be given and judged",
    over="answer",
    contribution=lambda found: not found[0].last.failed,
    estimate=_share,
    unit="share",
    higher_is_better=True,
)
KEPT = (
    _kept("keep-first", "share right if the answer before any revision counts", lambda held: _written(held)[0]),
    _kept("keep-always", "share right if the last revision counts", lambda held: _written(held)[-1]),
    _kept("keep-best", "share right if the answer that the critic prefers counts", _best),
)
TRUNCATED = _finished("truncated", "share of answers truncated at the maximum tokens", "length")
NO_ROOM = _finished("no room", "share of answers whose prompt did not fit into the model's context", "context")
