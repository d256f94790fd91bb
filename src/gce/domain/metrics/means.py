"""Means over conversations: rewards, replies and tokens. The conversations about one problem form a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gce.domain.conversations import Conversation
from gce.domain.metrics.metric import Metric
from gce.domain.statistics import Estimate, clustered_mean, mean_of_problems

__all__ = ["PROMPT_TOKENS", "REPLIES", "REWARD", "TOKENS"]

Values = tuple[float, ...]
"""One value for each conversation about one problem."""


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _rewards(conversations: Sequence[Conversation]) -> float | None:
    found = [each.last.reward for each in conversations if each.last.reward is not None]
    return _mean(found) if found else None


def _counted(name: str, words: str, count: Callable[[Conversation], int | None]) -> Metric[Estimate]:
    """Make a metric for the mean of a count over conversations; a problem without known counts contributes nothing."""

    def counts(conversations: Sequence[Conversation]) -> Values | None:
        found = [count(each) for each in conversations]
        return None if None in found else tuple(each or 0 for each in found)

    return Metric(
        name=name,
        help=words,
        over="problem",
        contribution=counts,
        estimate=lambda problems, settings: clustered_mean(problems, confidence=settings.confidence),
        unit=name,
        higher_is_better=False,
        paired=_mean,
    )


REWARD = Metric(
    name="mean reward",
    help="mean reward in [0, 1] of judged answers, averaged over problems",
    over="problem",
    contribution=_rewards,
    estimate=lambda found, settings: mean_of_problems(found, method=settings.interval, confidence=settings.confidence),
    unit="reward",
    higher_is_better=True,
    paired=float,
)
REPLIES = _counted("replies", "completions per conversation", lambda each: each.replies)
PROMPT_TOKENS = _counted("prompt tokens", "prompt tokens per conversation", lambda each: each.prompt_tokens)
TOKENS = _counted("tokens", "generated tokens per conversation", lambda each: each.tokens)
