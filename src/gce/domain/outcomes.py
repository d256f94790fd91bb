"""The four outcomes of an answer, and the rates over them: one definition for all tables, records and decisions.

- `right`: the reward is at least the task's `admit_at`.
- `wrong`: the reward is lower.
- `unreadable`: the answer could not be parsed. It is the model's fault, as `wrong` is: it stays in every denominator
  with reward 0, and is counted separately.
- `failed`: the sandbox, the server or the verifier failed. The answer is excluded from every rate, retried, and never
  trained on. Only failed answers lower the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import evolve

from gce.domain.completions import Completion
from gce.domain.measurements import Interval, MeanReward
from gce.domain.statistics import DEFAULT_INTERVAL, INTERVALS, interval, mean_of_problems
from gce.domain.verdicts import Status, Verdict, deciding

__all__ = ["coverage", "mean_reward", "outcome", "pooled_rate", "pooled_reward", "rate"]


def outcome(completion: Completion, verdicts: Iterable[Verdict], *, right: bool) -> Status:
    """Return the outcome of an answer; `right` says whether its reward reaches the task's `admit_at`."""
    statuses = {verdict.status for verdict in deciding(verdicts)}
    if completion.finish_reason == "error" or "failed" in statuses:
        return "failed"
    if right:
        return "right"
    return "unreadable" if "unreadable" in statuses else "wrong"


def rate(
    outcomes: Iterable[Status],
    *,
    method: str = DEFAULT_INTERVAL,
    confidence: float = 0.95,
    problems: int | None = None,
) -> Interval:
    """Return the share of right answers among those that did not fail, with its confidence interval.

    If several of them answer one problem, the interval is that of as many trials as there are `problems`, as in
    `mean_of_problems`: answers to one problem are not independent.
    """
    found = list(outcomes)
    failed = found.count("failed")
    share = interval(found.count("right"), len(found) - failed, method=method, confidence=confidence)
    if problems is not None and 0 < problems < share.n:
        low, high = INTERVALS[method](share.share, problems, confidence)
        share = evolve(share, low=low, high=high)
    return evolve(share, unreadable=found.count("unreadable"), failed=failed)


def mean_reward(
    rewards: Iterable[float | None], *, method: str = DEFAULT_INTERVAL, confidence: float = 0.95
) -> MeanReward:
    """Return the mean of one reward per problem, without those that failed (None); see `mean_of_problems`."""
    found = [reward for reward in rewards if reward is not None]
    if not found:
        return MeanReward(n=0, total=0.0, low=0.0, high=1.0)
    mean = mean_of_problems(found, method=method, confidence=confidence)
    graded = not set(found) <= {0.0, 1.0}
    return MeanReward(len(found), math.fsum(found), mean.low, mean.high, graded)


def pooled_rate(parts: Iterable[Interval]) -> Interval:
    """Return the share over the answers of all parts, each counted by `rate` and of other problems."""
    found = list(parts)
    share = interval(sum(each.correct for each in found), sum(each.n for each in found))
    return evolve(share, unreadable=sum(each.unreadable for each in found), failed=sum(each.failed for each in found))


def pooled_reward(parts: Iterable[MeanReward]) -> MeanReward:
    """Return the mean reward over the answers of all parts, each found by `mean_reward` and of other problems."""
    found = [each for each in parts if each.n]
    n, total = sum(each.n for each in found), math.fsum(each.total for each in found)
    if not n:
        return MeanReward(n=0, total=0.0, low=0.0, high=1.0)
    low, high = INTERVALS[DEFAULT_INTERVAL](total / n, n, 0.95)
    return MeanReward(n, total, low, high, any(each.graded for each in found))


def coverage(rates: Iterable[Interval]) -> float:
    """Return the share of all answers, over several rates, that did not fail, in [0, 1]; 1 if there are no answers."""
    found = list(rates)
    asked = sum(each.n + each.failed for each in found)
    return sum(each.n for each in found) / asked if asked else 1.0
