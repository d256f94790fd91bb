"""Score prompt-blind baselines, which ignore the problem, and heuristics, which follow a simple rule.

A tier that a prompt-blind baseline solves does not measure skill. Rates carry Wilson intervals. This module depends
neither on the form of the answers nor on the evaluator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count as count_up
from math import sqrt

from attrs import frozen

from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.measurements import Interval, MeanReward
from gce.domain.outcomes import mean_reward, rate
from gce.domain.power import binomial_tail
from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.statistics import DEFAULT_INTERVAL, wilson
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Verdict, deciding

__all__ = [
    "Judge",
    "Judged",
    "PolicyScore",
    "Resolution",
    "answers_of_policies",
    "best_by_group",
    "bounds_held",
    "is_above",
    "least_difference",
    "limit_of",
    "resolution",
    "score_policies",
    "scores_of_answers",
]

POWER = 0.8
"""Probability with which `resolution` and `least_difference` ask for the right conclusion."""


@frozen
class PolicyScore:
    """The solve rate of one policy on one group of problems (a tier, or a subtype within a tier)."""

    policy: str
    group: str
    tier: str
    share: Interval
    reward: MeanReward
    """The mean reward of the same answers."""


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
    method: str = DEFAULT_INTERVAL,
) -> tuple[PolicyScore, ...]:
    """Return the solve rate of each policy by tier, in the given order, and also by subtype if `subtypes` is true.

    Problems to which a policy does not apply are left out, and so are empty groups. Answers that could not be judged
    count as `failed`. `method` is that of the intervals: an entry of `INTERVALS`.
    """
    answers = answers_of_policies(task, judge, policies, problems, seed=seed)
    return scores_of_answers(task, answers, subtypes=subtypes, method=method)


def answers_of_policies(
    task: Task, judge: Judge, policies: Mapping[str, Policy], problems: Sequence[Problem], *, seed: int = 0
) -> dict[str, list[Answer]]:
    """Return the judged answers of each policy to the problems to which it applies."""
    found = {}
    for name, policy in policies.items():
        answers = []
        for problem in problems:
            text = policy(problem, python_generator(seed, "policy", name, problem.key))
            if text is not None:
                answers.append((problem, Completion(problem.key, text, "stop", policy=name)))
        found[name] = [
            answered_by(task, problem, completion, verdicts)
            for problem, completion, verdicts in _judged(judge, answers)
        ]
    return found


def scores_of_answers(
    task: Task,
    answers: Mapping[str, Sequence[Answer]],
    *,
    subtypes: bool = False,
    method: str = DEFAULT_INTERVAL,
) -> tuple[PolicyScore, ...]:
    """Return the scores of policies, as `score_policies` does, from their judged answers."""
    scores = []
    for name, given in answers.items():
        groups: dict[tuple[str, str], list[Answer]] = defaultdict(list)
        for found in given:
            tier, subtype = found.problem.tier, task.audit.group(found.problem.instance)
            groups[tier, tier].append(found)
            if subtypes and subtype:
                groups[f"{tier} {subtype}", tier].append(found)
        for (group, tier), found_in in groups.items():
            share = rate([each.outcome for each in found_in], method=method)
            reward = mean_reward([each.reward for each in found_in], method=method)
            scores.append(PolicyScore(name, group, tier, share, reward))
    return tuple(scores)


def _judged(judge: Judge, answers: Sequence[tuple[Problem, Completion]]) -> Iterator[Judged]:
    """Yield answers with their verdicts; answers whose judging failed are retried once, after all others."""
    again = []
    for problem, completion, verdicts in judge(answers):
        if any(verdict.status == "failed" for verdict in deciding(verdicts)):
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


def bounds_held(task: Task, score: PolicyScore) -> tuple[float, float]:
    """Return the bounds of solve rate and mean reward that a limit is held against: upper ones, or lower if `assumed`.

    That of the mean reward is 0 where no reward is partial.
    """
    lower = task.references.assumed
    share = score.share.low if lower else score.share.high
    if not score.reward.graded:
        return share, 0.0
    return share, score.reward.low if lower else score.reward.high


def is_above(task: Task, preset: str, score: PolicyScore) -> bool:
    """Whether a prompt-blind baseline's solve rate or mean reward exceeds the task's limit; see `bounds_held`."""
    return bool(score.share.n) and max(bounds_held(task, score)) > limit_of(task, preset, score.tier)


@frozen
class Resolution:
    """What so many problems can tell about a limit on solve rates; see `resolution`."""

    most_right: int
    """The most right answers whose upper bound is not above the limit; -1 where even none right is too many."""
    passes: float
    """The largest true solve rate, to a tenth of a percent, whose upper bound is at most the limit with `POWER`."""
    needed: int
    """The fewest problems with which none right stays below the limit."""
    fails: float | None
    """The smallest true solve rate, to a tenth of a percent, whose lower bound is above the limit with `POWER`."""


def resolution(n: int, limit: float) -> Resolution:
    """What an audit on `n` problems, from 1, can tell about a `limit` above 0, with 95 % Wilson intervals."""
    most = -1
    while most < n and wilson(most + 1, n).high <= limit:
        most += 1
    passes = next((rate / 1000 for rate in range(1000, 0, -1) if binomial_tail(most, n, rate / 1000) >= POWER), 0.0)
    needed = next(count for count in count_up(1) if wilson(0, count).high <= limit)
    below = next((right - 1 for right in range(n + 1) if wilson(right, n).low > limit), n)
    fails = next((rate / 1000 for rate in range(1, 1001) if binomial_tail(below, n, rate / 1000) <= 1.0 - POWER), None)
    return Resolution(most, passes if most >= 0 else 0.0, needed, fails)


def least_difference(n: int) -> float:
    """Return the difference of two accuracies near 50 %, each on `n` problems, that is significant with `POWER`.

    Two-sided z test at 5 %: (1.96 + 0.84) standard errors; at most 1.
    """
    return min(1.0, (1.96 + 0.84) * sqrt(0.5 / n))


def best_by_group(scores: Sequence[PolicyScore]) -> dict[str, PolicyScore]:
    """Return the policy with the highest solve rate in each group; the first one wins a tie."""
    best: dict[str, PolicyScore] = {}
    for score in scores:
        if score.share.n and (score.group not in best or score.share.share > best[score.group].share.share):
            best[score.group] = score
    return best
