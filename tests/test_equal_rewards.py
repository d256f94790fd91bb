"""The alarm where all rewards are equal while answers differ, tags around answers, and judging several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.app.evaluation.one_outcome import equal_rewards
from gce.domain.answers import Answer, answered_by
from gce.domain.completions import Completion
from gce.domain.tasks import draw_problems
from gce.domain.tasks.extraction import NoAnswer, extraction_of
from gce.domain.tasks.own import own_task

ROWS = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(20)]


def answers(texts: Sequence[str], reward: float | None) -> list[Answer]:
    task = own_task(ROWS, lambda answer, _row: answer == "known", name="sums", extract="text")
    (problem, *_) = draw_problems(task, "questions", "all", "test", 1)
    if reward is None:
        task = own_task(ROWS, lambda answer, row: answer == row["answer"], name="sums", extract="text")
        (problem, *_) = draw_problems(task, "questions", "all", "test", 1)
        texts = [*texts[:-1], problem.instance.row["answer"]]
    completions = [Completion(f"{place}", text, "stop", policy="") for place, text in enumerate(texts)]
    return [answered_by(task, problem, each, task.judge(problem, each)) for each in completions]


def test_equal_rewards_on_different_answers_raise_the_alarm() -> None:
    said = equal_rewards(answers(["a", "b"] * 4, 0.0))
    assert said.startswith("alarm: all 8 rewards are 0, and 2 of the answers differ")


@pytest.mark.parametrize("texts", [["a"] * 8, ["a", "b"] * 3, ["known"] * 8])
def test_equal_answers_few_answers_and_right_ones_raise_none(texts: list[str]) -> None:
    assert equal_rewards(answers(texts, 0.0)) == ""


def test_different_rewards_raise_none() -> None:
    assert equal_rewards(answers(["a", "b"] * 4, None)) == ""


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> 7 </answer>", "7"),
        ("x <answer>7</answer> and <answer>7</answer>", "7"),
        ("<answer>6 <answer>7</answer>", "7"),
        ("<answer>a\nb</answer>", "a\nb"),
    ],
)
def test_the_answer_stands_in_a_tag(text: str, answer: str) -> None:
    extraction = extraction_of(("tag", "answer"))
    assert extraction.answer(text) == answer
    assert extraction.answer(extraction.write(answer)) == answer


@pytest.mark.parametrize("text", ["7", "<answer>7", "7</answer>", "<answer></answer>", "</answer>7<answer>"])
def test_without_a_whole_tag_there_is_no_answer(text: str) -> None:
    with pytest.raises(NoAnswer):
        extraction_of(("tag", "answer")).answer(text)


def test_several_answers_judged_at_once_have_the_verdicts_of_each_alone() -> None:
    def reward(answer: str, row: Mapping[str, Any]) -> Any:
        if answer == "raises":
            raise ValueError("cannot read it")
        return float("nan") if answer == "nan" else answer == row["answer"]

    def rewards(asked: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        sizes.append(len(asked))
        found: list[Any] = []
        for each in asked:
            try:
                found.append(reward(*each))
            except ValueError as error:
                found.append(error)
        return found

    sizes: list[int] = []
    task = own_task(ROWS, reward, name="sums", extract="text", rewards=rewards)
    problems = draw_problems(task, "questions", "all", "train", 5)
    asked = [
        (problem, Completion(f"{problem.key} {text}", text, "stop", policy=""))
        for problem in problems
        for text in (problem.instance.row["answer"], "7", "raises", "nan", " ")
    ]
    found = [verdicts for *_, verdicts in TaskVerifier(task).judge(iter(asked))]
    assert found == [task.judge(*each) for each in asked]
    assert [verdict.status for (verdict,) in found[:5]] == ["right", "wrong", "failed", "failed", "unreadable"]
    assert sizes == [20]
