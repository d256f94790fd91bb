"""What answers score that ignore the problem, or one family of its constraints.

A tier that such an answer passes does not measure skill. Judged by the task's own verifier on given problems, with
Wilson intervals. Knows nothing of what the answers are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from gce.domain.outcomes import admitted, outcome, rate
from gce.domain.randomness import python_generator
from gce.domain.tasks.task import Policy, Task
from gce.domain.types import Completion, Interval, Problem, Status, Verdict

__all__ = ["PolicyScore", "best_by_group", "limit_of", "score_policies"]


@frozen
class PolicyScore:
    """How one policy did on the problems of one group (a tier, or a subtype of one)."""

    policy: str
    group: str
    tier: str
    share: Interval


def score_policies(
    task: Task, policies: Mapping[str, Policy], problems: Sequence[Problem], *, seed: int = 0, subtypes: bool = False
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
        for problem, completion, verdicts in _judged(task, answers):
            found = outcome(completion, verdicts, right=admitted(task.admit, verdicts))
            counts[problem.tier, problem.tier].append(found)
            subtype = task.group(problem.instance)
            if subtypes and subtype:
                counts[f"{problem.tier} {subtype}", problem.tier].append(found)
        scores += [PolicyScore(name, group, tier, rate(outcomes)) for (group, tier), outcomes in counts.items()]
    return tuple(scores)


def _judged(
    task: Task, answers: Sequence[tuple[Problem, Completion]]
) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
    """Answers with their verdicts; those that could not be judged are judged once more, behind the others."""
    again = []
    for problem, completion, verdicts in task.judge_each(answers):
        if any(verdict.status == "failed" for verdict in verdicts):
            again.append((problem, completion))
        else:
            yield problem, completion, verdicts
    yield from task.judge_each(again)


def limit_of(task: Task, preset: str, tier: str) -> float:
    """The share that no blind answer may exceed; 1 where the task declares none, as for any but its first preset."""
    if preset != next(iter(task.presets)):
        return 1.0
    return task.blind_limits.get(tier, task.blind_limits.get("*", 1.0))


def best_by_group(scores: Sequence[PolicyScore]) -> dict[str, PolicyScore]:
    """The policy with the largest share in each group; ties go to the first."""
    best: dict[str, PolicyScore] = {}
    for score in scores:
        if score.share.n and (score.group not in best or score.share.share > best[score.group].share.share):
            best[score.group] = score
    return best
