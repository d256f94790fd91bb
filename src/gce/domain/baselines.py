"""Score prompt-blind baselines, which ignore the problem, and heuristics, which follow a simple rule.

A tier that a prompt-blind baseline solves does not measure skill. Rates carry Wilson intervals. This module depends
neither on the form of the answers nor on the evaluator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count as count_up
from math import exp, lgamma, log, log1p, sqrt
from statistics import NormalDist, fmean, stdev

from attrs import frozen

from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.measurements import Interval
from gce.domain.outcomes import rate
from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.statistics import wilson
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Status, Verdict

__all__ = [
    "Judge",
    "Judged",
    "MeanReward",
    "PolicyScore",
    "Resolution",
    "best_by_group",
    "is_above",
    "limit_of",
    "mean_reward",
    "resolution",
    "score_policies",
]

POWER = 0.8


@frozen
class MeanReward:
    """The mean reward of one policy, in [0, 1], with 95 % confidence bounds."""

    n: int
    mean: float
    low: float
    high: float


def mean_reward(rewards: Sequence[float]) -> MeanReward:
    """Return the mean of rewards in [0, 1]; the bounds are [0, 1] if there are none.

    The bounds are normal ones from the rewards' own variance, with one more answer: of reward 0 for the lower bound,
    and 1 for the upper. So they stay wide for few answers, even where all rewards are equal.
    """
    n = len(rewards)
    if not n:
        return MeanReward(0, 0.0, 0.0, 1.0)
    return MeanReward(n, fmean(rewards), _lower_bound(rewards), 1.0 - _lower_bound([1.0 - each for each in rewards]))


def _lower_bound(rewards: Sequence[float]) -> float:
    more = [*rewards, 0.0]
    return max(0.0, fmean(more) - NormalDist().inv_cdf(0.975) * stdev(more) / sqrt(len(more)))


@frozen
class PolicyScore:
    """The solve rate of one policy on one group of problems (a tier, or a subtype within a tier)."""

    policy: str
    group: str
    tier: str
    share: Interval
    reward: MeanReward | None = None
    """None where no answer got partial credit: the solve rate is the mean reward."""


Judged = tuple[Problem, Completion, tuple[Verdict, ...]]
Judge = Callable[[Iterable[tuple[Problem, Completion]]], Iterator[Judged]]
"""A function that returns answers with their verdicts, in order, as an `Evaluator` does."""


def score_policies(
    task: Task,
    judge: Judge,
    policies: Mapping[str, Policy],
    problems: Sequence[Problem],
    *,
    seed: int = 0,
    subtypes: bool = False,
) -> tuple[PolicyScore, ...]:
    """Return the solve rate of each policy by tier, in the given order, and also by subtype if `subtypes` is true.

    Problems to which a policy does not apply are left out, and so are empty groups. Answers that could not be judged
    count as `failed`.
    """
    scores = []
    for name, policy in policies.items():
        counts: dict[tuple[str, str], list[Status]] = defaultdict(list)
        rewards: dict[tuple[str, str], list[float]] = defaultdict(list)
        answers = []
        for problem in problems:
            text = policy(problem, python_generator(seed, "policy", name, problem.key))
            if text is not None:
                answers.append((problem, Completion(problem.key, text, "stop", policy=name)))
        for problem, completion, verdicts in _judged(judge, answers):
            answer = answered_by(task, problem, completion, verdicts)
            subtype = task.audit.group(problem.instance) if subtypes else ""
            for group in (problem.tier, f"{problem.tier} {subtype}") if subtype else (problem.tier,):
                counts[group, problem.tier].append(answer.outcome)
                rewards[group, problem.tier] += [] if answer.reward is None else [answer.reward]
        scores += [
            PolicyScore(name, *where, rate(outcomes), _partial(rewards[where])) for where, outcomes in counts.items()
        ]
    return tuple(scores)


def _partial(rewards: Sequence[float]) -> MeanReward | None:
    """The mean reward where some answer got partial credit."""
    return mean_reward(rewards) if any(0.0 < each < 1.0 for each in rewards) else None


def _judged(judge: Judge, answers: Sequence[tuple[Problem, Completion]]) -> Iterator[Judged]:
    """Yield answers with their verdicts; answers whose judging failed are retried once, after all others."""
    again = []
    for problem, completion, verdicts in judge(answers):
        if any(verdict.status == "failed" for verdict in verdicts):
            again.append((problem, completion))
        else:
            yield problem, completion, verdicts
    yield from judge(again)


def limit_of(task: Task, preset: str, tier: str) -> float:
    """Return the highest solve rate, and the highest mean reward, that a prompt-blind baseline may reach.

    It is 1 if the task declares no limit or `preset` is not the task's first preset.
    """
    if preset != next(iter(task.presets)):
        return 1.0
    return task.references.limits.get(tier, task.references.limits.get("*", 1.0))


def is_above(task: Task, preset: str, score: PolicyScore) -> bool:
    """Whether a prompt-blind baseline's solve rate or mean reward exceeds the limit that the task has for its tier.

    The upper bound of either counts; where the limit is `assumed`, the lower bound.
    """
    if not score.share.n:
        return False
    reward = score.reward or score.share
    low, high = max(score.share.low, reward.low), max(score.share.high, reward.high)
    return (low if task.references.assumed else high) > limit_of(task, preset, score.tier)


@frozen
class Resolution:
    """What so many problems can tell about a limit on solve rates; see `resolution`."""

    most_right: int
    """The most right answers whose upper bound is not above the limit; -1 where even none right is too many."""
    passes: float
    """The largest true solve rate, to a tenth of a percent, that stays below the limit in four of five audits."""
    needed: int
    """The fewest problems with which none right stays below the limit."""


def resolution(n: int, limit: float) -> Resolution:
    """What an audit on `n` problems, from 1, can tell about a `limit` above 0, with 95 % Wilson intervals."""
    most = -1
    while most < n and wilson(most + 1, n).high <= limit:
        most += 1
    passes = next((rate / 1000 for rate in range(1000, 0, -1) if _at_most(most, n, rate / 1000) >= POWER), 0.0)
    needed = next(count for count in count_up(1) if wilson(0, count).high <= limit)
    return Resolution(most, passes if most >= 0 else 0.0, needed)


def _at_most(most: int, n: int, rate: float) -> float:
    """The chance of at most so many right answers of `n`."""
    if most >= n:
        return 1.0
    if rate >= 1.0 or most < 0:
        return 0.0
    logs = (
        lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(rate) + (n - k) * log1p(-rate)
        for k in range(most + 1)
    )
    return sum(map(exp, logs))


def best_by_group(scores: Sequence[PolicyScore]) -> dict[str, PolicyScore]:
    """Return the policy with the highest solve rate in each group; the first one wins a tie."""
    best: dict[str, PolicyScore] = {}
    for score in scores:
        if score.share.n and (score.group not in best or score.share.share > best[score.group].share.share):
            best[score.group] = score
    return best
