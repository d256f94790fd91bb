"""What prompt-blind baselines and heuristics score: answers that ignore the problem, or follow a plain rule.

A tier that a prompt-blind baseline passes does not measure skill. Rates have Wilson intervals. Knows neither what the
answers are nor who judges them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from gce.domain.answers import answered_by
from gce.domain.completions import Completion
from gce.domain.measurements import Interval
from gce.domain.outcomes import rate
from gce.domain.problems import Problem
from gce.domain.randomness import python_generator
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Status, Verdict

__all__ = ["Judge", "Judged", "PolicyScore", "best_by_group", "limit_of", "score_policies"]


@frozen
class PolicyScore:
    """How one policy did on the problems of one group (a tier, or a subtype of one)."""

    policy: str
    group: str
    tier: str
    share: Interval


Judged = tuple[Problem, Completion, tuple[Verdict, ...]]
Judge = Callable[[Iterable[tuple[Problem, Completion]]], Iterator[Judged]]
"""Answers with their verdicts, in order, as an `Evaluator` gives them."""


def score_policies(
    task: Task,
    judge: Judge,
    policies: Mapping[str, Policy],
    problems: Sequence[Problem],
    *,
    seed: int = 0,
    subtypes: bool = False,
) -> tuple[PolicyScore, ...]:
    """Each policy's share of right answers, by tier in the order given, and with `subtypes` by subtype as well.

    Problems to which a policy does not apply are left out; so are groups with none. Answers that the task could not
    judge are counted as `failed`.
    """
    scores = []
    for name, policy in policies.items():
        counts: dict[tuple[str, str], list[Status]] = defaultdict(list)
        answers = []
        for problem in problems:
            text = policy(problem, python_generator(seed, "policy", name, problem.key))
            if text is not None:
                answers.append((problem, Completion(problem.key, text, "stop", policy=name)))
        for problem, completion, verdicts in _judged(judge, answers):
            found = answered_by(task, problem, completion, verdicts).outcome
            counts[problem.tier, problem.tier].append(found)
            subtype = task.audit.group(problem.instance)
            if subtypes and subtype:
                counts[f"{problem.tier} {subtype}", problem.tier].append(found)
        scores += [PolicyScore(name, group, tier, rate(outcomes)) for (group, tier), outcomes in counts.items()]
    return tuple(scores)


def _judged(judge: Judge, answers: Sequence[tuple[Problem, Completion]]) -> Iterator[Judged]:
    """Answers with their verdicts; those that could not be judged are judged once more, behind the others."""
    again = []
    for problem, completion, verdicts in judge(answers):
        if any(verdict.status == "failed" for verdict in verdicts):
            again.append((problem, completion))
        else:
            yield problem, completion, verdicts
    yield from judge(again)


def limit_of(task: Task, preset: str, tier: str) -> float:
    """The solve rate that no prompt-blind baseline may exceed; 1 where none is declared, as beyond the first preset."""
    if preset != next(iter(task.presets)):
        return 1.0
    return task.references.limits.get(tier, task.references.limits.get("*", 1.0))


def best_by_group(scores: Sequence[PolicyScore]) -> dict[str, PolicyScore]:
    """The policy with the largest share in each group; ties go to the first."""
    best: dict[str, PolicyScore] = {}
    for score in scores:
        if score.share.n and (score.group not in best or score.share.share > best[score.group].share.share):
            best[score.group] = score
    return best
