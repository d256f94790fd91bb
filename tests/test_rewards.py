"""From verdicts to rewards: all right or nothing, raw scores from a range, and what no evaluator may say."""

from __future__ import annotations

import math
from typing import Any

import pytest
import toy_task
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present

from gce.app.evaluation.scoring import answer_record, stored_reward
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion, FinishReason
from gce.domain.tasks import Scored, draw_problem
from gce.domain.verdicts import Verdict

PROBLEM = draw_problem(toy_task.ADDITION, "small", "T0", "test", 0)
RIGHT, WRONG = Verdict("right", 1.0, "e", "1"), Verdict("wrong", 0.4, "e", "1")
FAILED = Verdict("failed", None, "e", "1")


def answer(task: Any, *verdicts: Verdict, finish_reason: FinishReason = "stop") -> Answer:
    return answered_by(task, PROBLEM, Completion("k", "w1", finish_reason, "p"), verdicts)


def speedup(verdicts: Any) -> float | None:
    """The first verdict's measure, as an evaluator that takes processor time would say it."""
    measured: float | None = verdicts[0].measures["speedup"]
    return measured


FASTER = evolve(toy_task.ADDITION, reward=Scored(speedup, 0.0, 4.0), admit_at=0.5)


def measured(value: float) -> Verdict:
    return evolve(RIGHT, measures={"speedup": value})


@pytest.mark.parametrize(
    ("verdicts", "reward", "right"),
    [((RIGHT,), 1.0, True), ((RIGHT, WRONG), 0.0, False), ((), 0.0, False), ((RIGHT, FAILED), None, False)],
)
def test_by_default_all_right_is_worth_1_and_anything_else_nothing(
    verdicts: Any, reward: float | None, right: bool
) -> None:
    found = answer(toy_task.ADDITION, *verdicts)
    assert (found.reward, found.right, found.score, found.failed) == (reward, right, None, reward is None)


def test_what_the_backend_failed_to_answer_has_no_reward() -> None:
    found = answer(toy_task.ADDITION, finish_reason="error")
    assert (found.reward, found.outcome) == (None, "failed")


@pytest.mark.parametrize(("admit_at", "right"), [(1.0, [False, False, False, True]), (0.9, [False, False, True, True])])
def test_an_answer_is_right_from_the_tasks_own_reward_on(admit_at: float, right: list[bool]) -> None:
    task = evolve(toy_task.ADDITION, reward=lambda verdicts: verdicts[0].score, admit_at=admit_at)
    found = [answer(task, evolve(WRONG, score=score)) for score in (0.0, 0.4, 0.9, 1.0)]
    assert [each.right for each in found] == right
    assert [each.outcome for each in found] == ["right" if each else "wrong" for each in right]


@pytest.mark.parametrize("admit_at", [0.0, -1.0, 1.1])
def test_a_reward_to_admit_at_is_above_0_and_at_most_1(admit_at: float) -> None:
    with pytest.raises(ValueError, match="admit_at"):
        evolve(toy_task.ADDITION, admit_at=admit_at)


@pytest.mark.parametrize(("score", "reward"), [(0.0, 0.0), (1.6, 0.4), (3.6, 0.9), (4.0, 1.0)])
def test_a_raw_score_is_mapped_from_its_range_and_kept(score: float, reward: float) -> None:
    """Of a speed-up between 0 and 4 times."""
    found = answer(FASTER, measured(score))
    assert found.reward == pytest.approx(reward)
    assert (found.score, found.right) == (score, reward >= 0.5)
    assert FASTER.reward((measured(score),)) == found.reward


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9), st.floats(0, 1))
def test_any_range_is_mapped_onto_0_to_1(low: float, width: float, place: float) -> None:
    high = low + width
    score = min(high, low + place * width)
    assert 0.0 <= present(Scored(lambda _: score, low, high)(())) <= 1.0


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_what_is_no_range_is_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="expected a range of scores"):
        Scored(speedup, low, high)


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (4.1, "the task's reward: ValueError: expected a score in [0, 4], got 4.1"),
        (-0.1, "the task's reward: ValueError: expected a score in [0, 4], got -0.1"),
        (math.nan, "the task's reward: ValueError: expected a score in [0, 4], got nan"),
        (math.inf, "the task's reward: ValueError: expected a score in [0, 4], got inf"),
        (None, "the task's reward: ValueError: expected a number in [0, 1], got None"),
    ],
)
def test_a_score_outside_its_range_fails_the_answer_and_says_why(score: float | None, said: str) -> None:
    """Evaluators are not trusted: no such number is a wrong answer, or a right one."""
    task = evolve(FASTER, reward=Scored(lambda _verdicts: score, 0.0, 4.0))
    found = answer(task, RIGHT)
    assert (found.outcome, found.reward, found.score, found.right) == ("failed", None, None, False)
    assert (found.reason, found.verdicts[0]) == (said, RIGHT)
    assert answered_by(task, PROBLEM, found.completion, found.verdicts) == found, "so it is when it is read back"


@pytest.mark.parametrize("reward", [1.5, -0.1, math.nan, None])
def test_so_does_a_reward_outside_0_to_1(reward: float | None) -> None:
    found = answer(evolve(toy_task.ADDITION, reward=lambda _verdicts: reward), RIGHT)
    assert found.failed and found.reason.endswith(f"expected a number in [0, 1], got {reward!r}")


def test_so_does_a_reward_that_raises() -> None:
    found = answer(evolve(toy_task.ADDITION, reward=lambda verdicts: verdicts[7].score), RIGHT)
    assert found.reason == "the task's reward: IndexError: tuple index out of range"


def test_a_record_holds_what_right_does_not_say() -> None:
    """Of a binary task neither reward nor score; both are read back."""
    for verdicts in ((RIGHT,), (WRONG,), (FAILED,)):
        binary = answer_record(answer(toy_task.ADDITION, *verdicts))
        assert not {"reward", "score"} & set(binary)
        assert stored_reward(binary) == answer(toy_task.ADDITION, *verdicts).reward
    partly = answer_record(answer(FASTER, measured(3.0)))
    assert (partly["reward"], partly["score"], partly["right"], stored_reward(partly)) == (0.75, 3.0, True, 0.75)
    whole = answer_record(answer(FASTER, measured(4.0)))
    assert "reward" not in whole and (whole["score"], stored_reward(whole)) == (4.0, 1.0)
