"""Worked examples: right, from the training key space, other than the problem, the same every time."""

from __future__ import annotations

import pytest
from attrs import evolve

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.evaluation.demonstrations import demonstrations, demonstrations_for_training, turns_before
from gce.domain.tasks import TASKS, Teaching, draw_problems, judge
from gce.errors import BadInput

SCHEDULING = TASKS["scheduling"]
VERIFIER = TaskVerifier(SCHEDULING)
SILENT = evolve(SCHEDULING, teaching=Teaching())
TIERS = ("L2", "T0", "T5")


def test_every_example_is_right_and_none_is_a_test_problem() -> None:
    worked = demonstrations(SCHEDULING, VERIFIER, "grounded", TIERS, 4)
    assert {tier: len(found) for tier, found in worked.items()} == dict.fromkeys(TIERS, 4)
    for found in worked.values():
        for each in found:
            assert judge(each.problem, each.text).right
            assert each.problem.split == "train"
    assert worked["T5"][0].problem.tier == "T4", "a held-out tier is shown the last one that is not"


def test_problems_of_an_iteration_are_shown_the_same_examples() -> None:
    worked = demonstrations(SCHEDULING, VERIFIER, "grounded", ["T0"], 6)
    known = {each.problem.digest for each in worked["T0"]}
    drawn = draw_problems(SCHEDULING, "grounded", "T0", "train", 12)
    problems = [problem for problem in drawn if problem.digest not in known]
    assert len(problems) > 6
    by_iteration = [{turns_before(problem, worked, 2, number) for problem in problems} for number in range(9)]
    assert {len(shown) for shown in by_iteration} == {1}, "so that prompts begin alike"
    assert [turn.role for turn in next(iter(by_iteration[0]))] == ["user", "assistant"] * 2
    assert len(set.union(*by_iteration)) > 4, "not the same in all iterations"


def test_a_problem_is_never_shown_itself() -> None:
    worked = demonstrations(SCHEDULING, VERIFIER, "grounded", ["L2"], 3)
    same = worked["L2"][0].problem
    copy = evolve(same, id=evolve(same.id, index=99))
    turns = turns_before(copy, worked, 3, 1)
    assert len(turns) == 4 and same.prompt[-1] not in turns
    assert turns_before(evolve(copy, id=evolve(copy.id, tier="T9")), worked, 3, 1) == ()


@pytest.mark.slow
def test_a_run_leaves_a_quarter_of_few_problems_to_train_on() -> None:
    """T0 of `paper` has 27 problems but for names and order."""
    task = TASKS["scheduling-brief"]
    found = demonstrations_for_training(task, VERIFIER, "paper", ["T0", "T1"], 32)
    assert {tier: len(examples) for tier, examples in found.items()} == {"T0": 20, "T1": 32}
    different = {problem.digest for problem in draw_problems(task, "paper", "T0", "train", 400)}
    assert len(different) == 27 and len(different - {each.problem.digest for each in found["T0"]}) == 7


def test_a_tier_without_examples_is_left_out() -> None:
    """In T2 of `grounded`, one job after another always takes longer than there is time."""
    brief = TASKS["scheduling-brief"]
    assert set(demonstrations_for_training(brief, VERIFIER, "grounded", ["T1", "T2", "T3"], 3)) == {"T1", "T3"}


def test_a_run_without_any_example_is_refused() -> None:
    for tiers, said in (
        ((), "preset paper of task scheduling has no tier"),
        (("T0",), "has no demonstrations of T0: leave"),
    ):
        with pytest.raises(BadInput, match=said):
            demonstrations_for_training(SILENT, VERIFIER, "paper", tiers, 2)


def test_a_task_without_worked_answers_is_named() -> None:
    with pytest.raises(
        BadInput, match="task scheduling has 0 demonstrations of T0, expected 2: use a strategy that needs none"
    ):
        demonstrations(SILENT, VERIFIER, "grounded", ["T0"], 2)
