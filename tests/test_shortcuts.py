"""Scores of blind answers: counted by tier and subtype, judged by the task itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.evaluation.baselines import heuristics_line, reference_rows, reward_gains_over
from gce.domain.baselines import PolicyScore, answers_of_policies, best_by_group, score_policies
from gce.domain.completions import Completion
from gce.domain.executions import Evidence
from gce.domain.measurements import Interval, MeanReward
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.statistics import wilson
from gce.domain.tasks import TASKS, Audit, Task, TaskTier, draw_problem
from gce.domain.verdicts import Verdict


def parity(problem: Problem, completion: Completion, _evidence: Evidence | None) -> tuple[Verdict, ...]:
    """Right where the answer says `odd` or `even` as the number is; judging fails on what is neither."""
    if completion.text not in ("odd", "even"):
        return (Verdict("failed", None, "parity", "1"),)
    right = (completion.text == "odd") == bool(problem.instance % 2)
    return (Verdict("right" if right else "wrong", float(right), "parity", "1"),)


PARITY = Task(
    name="parity",
    presets={"plain": (TaskTier("small"), TaskTier("large"))},
    draw=lambda preset, tier, rng, solve: rng.randrange(10 if tier == "small" else 1000),
    prompt=lambda instance, rng: (Message("user", f"Is {instance} odd or even?"),),
    digest=lambda instance: f"{instance:032x}",
    verify=parity,
    instance_type=int,
    audit=Audit(group=lambda instance: "digit" if instance < 10 else ""),
)
"""A task of a user's own: numbers, odd or even."""
JUDGE = TaskVerifier(PARITY).judge


def numbers(tier: str, *values: int) -> list[Problem]:
    return [
        Problem(
            ProblemId("parity", "by hand", "test", tier, 0, value),
            value,
            PARITY.prompt(value, random.Random(0)),
            str(value),
        )
        for value in values
    ]


def odd(problem: Problem, rng: random.Random) -> str:
    return "odd"


def shares(scores: tuple[PolicyScore, ...]) -> dict[tuple[str, str], tuple[int, int]]:
    return {(score.policy, score.group): (score.share.correct, score.share.n) for score in scores}


def test_shares_are_counted_by_tier_in_the_order_given() -> None:
    problems = [*numbers("large", 11, 12, 13), *numbers("small", 2, 4, 5)]
    scores = score_policies(PARITY, JUDGE, {"odd": odd}, problems)
    assert shares(scores) == {("odd", "large"): (2, 3), ("odd", "small"): (1, 3)}
    assert [score.tier for score in scores] == ["large", "small"]
    assert scores[0].share == wilson(2, 3)


def test_subtypes_are_counted_beside_their_tier() -> None:
    """Digits form a subtype of either tier; larger numbers belong to none."""
    problems = [*numbers("large", 1, 11, 12), *numbers("small", 2, 3, 5)]
    scores = score_policies(PARITY, JUDGE, {"odd": odd}, problems, subtypes=True)
    assert shares(scores) == {
        ("odd", "large"): (2, 3),
        ("odd", "large digit"): (1, 1),
        ("odd", "small"): (2, 3),
        ("odd", "small digit"): (2, 3),
    }
    assert {score.group: score.tier for score in scores}["large digit"] == "large"


def test_problems_to_which_a_policy_does_not_apply_are_left_out() -> None:
    """Neither right nor wrong; a policy that applies to nothing has no row."""

    def only_small(problem: Problem, rng: random.Random) -> str | None:
        return "odd" if problem.tier == "small" else None

    problems = [*numbers("large", 11), *numbers("small", 2, 3)]
    policies = {"small": only_small, "never": lambda problem, rng: None}
    assert shares(score_policies(PARITY, JUDGE, policies, problems)) == {("small", "small"): (1, 2)}


def test_what_could_not_be_judged_is_outside_the_share() -> None:
    policies = {"mute": lambda problem, rng: "I do not know" if problem.instance == 1 else "even"}
    (score,) = score_policies(PARITY, JUDGE, policies, numbers("small", 1, 2, 3))
    assert (score.share.correct, score.share.n, score.share.failed) == (1, 2, 1)


def test_a_gain_over_a_reference_pairs_the_problems_that_both_answered() -> None:
    """The numbers are 1, 2, 4 and 6; "even" gains 2, 4 and 6 over "odd" and loses 1, and knows nothing of who is mute.

    Who answers 2 and 4 alone is compared on these: 0 and 1 right against 2.
    """

    def some(problem: Problem, rng: random.Random) -> str | None:
        return {2: "odd", 4: "even", 6: "I do not know"}.get(problem.instance)

    problems = numbers("small", 1, 2, 4, 6)
    policies = {"odd": odd, "some": some, "never": lambda problem, rng: None}
    references = answers_of_policies(PARITY, JUDGE, policies, problems)
    own = answers_of_policies(PARITY, JUDGE, {"even": lambda problem, rng: "even"}, problems)["even"]
    found = reward_gains_over(references, own)
    assert list(found) == ["odd", "some"]
    assert (found["odd"].gained, found["odd"].lost, found["odd"].mean.value) == (3, 1, 0.5)
    assert (found["some"].gained, found["some"].lost, found["some"].mean.value) == (1, 0, 0.5)


def test_each_draw_has_its_own_generator() -> None:
    """Named by seed, policy and problem: the same whatever else is asked, and in whatever order."""
    seen: dict[tuple[str, str], float] = {}

    def note(name: Any) -> Any:
        def policy(problem: Problem, rng: random.Random) -> str:
            seen[name, problem.key] = rng.random()
            return "odd"

        return policy

    problems = numbers("small", 1, 2, 3)
    score_policies(PARITY, JUDGE, {"a": note("a"), "b": note("b")}, problems)
    first = dict(seen)
    score_policies(PARITY, JUDGE, {"b": note("b")}, problems[::-1])
    assert seen == first
    assert len(set(first.values())) == 6
    score_policies(PARITY, JUDGE, {"a": note("a")}, problems, seed=1)
    assert seen != first


def test_the_best_of_a_group_is_the_first_of_the_largest_shares() -> None:
    def score(policy: str, group: str, correct: int, n: int) -> PolicyScore:
        return PolicyScore(policy, group, group, Interval(n, correct, 0.0, 1.0), MeanReward(n, correct, 0.0, 1.0))

    scores = [score("a", "T0", 1, 4), score("b", "T0", 2, 4), score("c", "T0", 1, 2), score("a", "T1", 0, 9)]
    best = best_by_group(scores)
    assert {group: found.policy for group, found in best.items()} == {"T0": "b", "T1": "a"}
    assert best_by_group([]) == {}


def test_the_best_blind_answer_of_each_tier_and_the_heuristic_with_the_best_mean_stand_beside_a_model() -> None:
    def row(*correct: int) -> dict[str, Interval]:
        return {tier: Interval(10, n, 0.0, 1.0) for tier, n in zip(("T0", "T1"), correct, strict=True)}

    floors = {"always 1": row(1, 4), "always 2": row(3, 0)}
    heuristics = {"steep": row(10, 0), "even": row(6, 5), "weak": row(0, 1)}
    assert reference_rows(floors, heuristics) == {"best prompt-blind": row(3, 4), "even": row(6, 5)}
    assert heuristics_line(heuristics) == ["even: the best of 3 heuristics that read the whole problem."]
    assert reference_rows({}, {"only": row(1, 1)}) == {"only": row(1, 1)}
    assert heuristics_line({"only": row(1, 1)}) == []
    assert reference_rows({}, {}) == {}
    none_judged = {"T0": Interval(0, 0, 0.0, 1.0, failed=3)}
    assert reference_rows({}, {"broken": none_judged}) == {}


@pytest.mark.parametrize("policies", ["prompt_blind", "heuristics"])
def test_scheduling_says_which_policies_it_has(policies: str) -> None:
    """Each applies to one of three problems at least, and what it answers is judged by the task's verifier."""
    task = TASKS["scheduling"]
    problems = [draw_problem(task, "grounded", tier, "train", 0) for tier in ("T0", "T2", "T5")]
    found = getattr(task.references, policies)(problems)
    scores = score_policies(task, TaskVerifier(task).judge, found, problems)
    assert {score.policy for score in scores} == set(found)
    for score in scores:
        (problem,) = [problem for problem in problems if problem.tier == score.tier]
        assert score.share.n == 1
        assert score.group == problem.tier
