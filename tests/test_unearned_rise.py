"""A reward that rises while answers do not become right: the rule by hand, and what runs, folds and reports say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from present import present

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.domain.completions import SampleRequest
from gce.domain.measurements import IterationRecord, TierCount
from gce.domain.paired import Pair
from gce.domain.statistics import Estimate
from gce.domain.unearned_rise import is_unearned, last_third, rise_between, rise_over

ROSE, STAYED = Estimate(0.4, 0.2, 0.6), Estimate(0.0, -0.3, 0.3)


@pytest.mark.parametrize(
    ("reward", "right", "share", "unearned"),
    [
        (ROSE, STAYED, 0.0, True),
        (Estimate(0.4, 0.0, 0.8), STAYED, 0.0, False),
        (ROSE, Estimate(0.1, 0.01, 0.2), 0.1, False),
        (ROSE, Estimate(0.19, 0.0, 0.4), 0.2, True),
        (ROSE, Estimate(0.2, 0.0, 0.4), 0.2, False),
        (ROSE, STAYED, 0.49, True),
        (ROSE, STAYED, 0.5, False),
    ],
)
def test_all_four_conditions_must_hold(reward: Estimate, right: Estimate, share: float, unearned: bool) -> None:
    """Of a rise of 0.4, answers that became right account for at most their share: 0.2 is half of it."""
    assert is_unearned(reward, right, share_after=share) is unearned


# Two tests on the same problems


def pairs(before: list[float], after: list[float]) -> list[Pair]:
    return [("all", *values) for values in zip(before, after, strict=True)]


def test_seven_problems_that_earn_partial_credit_and_none_right() -> None:
    """All rise by 0.7: 2 of 2^7 flips of signs are as far from 0, p = 0.016."""
    found = present(rise_between(pairs([0.0] * 7, [0.7] * 7), pairs([0.0] * 7, [0.0] * 7)))
    assert found.reward_before == 0.0 and found.reward_after == pytest.approx(0.7)
    assert found.reward.value == pytest.approx(0.7) and found.right.value == 0.0 and found.right.low < 0.0
    assert (found.right_before, found.right_after, found.n_before, found.n_after) == (0, 0, 7, 7)


def test_five_problems_are_too_few() -> None:
    """2 of 2^5 flips: p = 0.0625, though the interval of equal gains is a point."""
    assert rise_between(pairs([0.0] * 5, [0.7] * 5), pairs([0.0] * 5, [0.0] * 5)) is None


@pytest.mark.parametrize(("right", "unearned"), [(0, True), (1, True), (2, True), (3, False), (7, False)])
def test_right_answers_that_rise_along_explain_the_rise(right: int, unearned: bool) -> None:
    """Of seven, `right` earn 1 and the others 0.5: with 2 the reward rises by 4.5 / 7 and accuracy by 2 / 7, below half
    of it; with 3 they rise by 5 / 7 and 3 / 7."""
    after = [1.0] * right + [0.5] * (7 - right)
    found = rise_between(pairs([0.0] * 7, after), pairs([0.0] * 7, [float(reward == 1.0) for reward in after]))
    assert (found is not None) is unearned


def test_a_reward_that_falls_or_stays_is_no_rise() -> None:
    none = pairs([0.0] * 9, [0.0] * 9)
    assert rise_between(pairs([0.5] * 9, [0.25] * 9), none) is rise_between(pairs([0.5] * 9, [0.5] * 9), none) is None
    assert rise_between([], []) is None


@given(st.lists(st.tuples(st.sampled_from(["T0", "T1"]), st.booleans(), st.booleans()), min_size=1, max_size=40))
def test_rewards_of_0_and_1_never_rise_unearned(drawn: list[tuple[str, bool, bool]]) -> None:
    both = [(tier, float(before), float(after)) for tier, before, after in drawn]
    assert rise_between(both, both) is None


# Rollouts


def record(iteration: int, **tiers: TierCount) -> IterationRecord:
    return IterationRecord(iteration, tiers, {}, 0, 0, None, None, None, 0)


def count(reward: float, correct: int = 0) -> TierCount:
    """80 rollouts of 20 problems."""
    return TierCount(80, correct, 20, 0, 0, 0, 0, correct, 10.0, reward=80 * reward)


@pytest.mark.parametrize(("correct", "unearned"), [(0, True), (8, True), (12, True), (20, False), (40, False)])
def test_rollouts_from_the_first_third_of_iterations_to_the_last(correct: int, unearned: bool) -> None:
    """0.1 to 0.7. With 20 of 80 right, a quarter of 20 problems, (5 + 0.96) / 21.92 - 0.96 / 21.92 = 0.228 +- 0.205."""
    records = [record(1, T0=count(0.1)), record(2, T0=count(0.4)), record(3, T0=count(0.7, correct))]
    found = rise_over(records)
    assert (found is not None) is unearned
    if found is not None:
        assert found.source == "rollouts" and found.reward.value == pytest.approx(0.6)
        assert found.reward_before == pytest.approx(0.1) and found.reward_after == pytest.approx(0.7)
        assert (found.right_after, found.n_after) == (correct, 80)
    assert last_third(records) == 3 and last_third([]) == 0


def test_a_rise_by_fewer_hard_tiers_is_none_and_a_warm_up_does_not_count() -> None:
    assert rise_over([record(1, T0=count(0.7), T1=count(0.0)), record(2, T0=count(0.7))]) is None
    assert rise_over([record(1, T0=count(0.1)), record(2, T1=count(0.9))]) is None, "no tier in common"
    rising = [record(1, T0=count(0.1)), record(2, T0=count(0.7))]
    assert rise_over([record(0), *rising]) is not None and rise_over([record(0), rising[1]]) is None


# A run


WORDS = (
    *("apple", "bread", "chair", "dance", "eagle", "flame", "grape", "house", "index", "juice", "knife", "lemon"),
    *("mango", "night", "ocean", "piano", "queen", "river", "snake", "table", "uncle", "voice", "water", "xenon"),
    *("yacht", "zebra", "amber", "brick"),
)
ROWS = [{"prompt": f"Unscramble {word[::-1]} in one word.", "answer": word} for word in WORDS]


@gce.task(ROWS, name="anagram", extract="text", admit_at=1.0)
def anagram(answer: str, row: Any) -> float:
    """0.7 for the right letters in any order: who copies the scramble has it."""
    return 1.0 if answer == row["answer"] else 0.7 if sorted(answer.strip("\x1b")) == sorted(row["answer"]) else 0.0


def learning(then: Callable[[str], str]) -> Any:
    """A model that answers a quarter of requests with `then` of the scramble, and all after some training."""

    def answer(request: SampleRequest) -> str:
        scramble = request.messages[-1].content.split()[1]
        return then(scramble) if request.seed % 4 <= model.steps else "nothing"

    model = ScriptedModel(answer)
    return model


def copying(_settings: Any, _task: Any) -> Any:
    return learning(lambda scramble: scramble)


SMALL: dict[str, Any] = {"algorithm": "grpo", "iterations": 3, "problems": 8, "samples": 4, "dev": 0, "test": 20}


def trained(model: Any, **more: Any) -> Any:
    return gce.train(task=anagram, model=model, progress=False, **{**SMALL, **more})


def test_a_run_says_what_rose_and_what_did_not_with_three_wrong_answers() -> None:
    result = trained(learning(lambda scramble: f"{scramble}\x1b"))
    head, meaning, *answers, where = str(result).split("warning: ")[1].splitlines()[:6]
    gain = result.summary["mean_reward"]["gain"]["mean"]
    assert head.startswith("the mean reward of test problems rose, from 0.")
    assert f"to 0.700, {gain['value']:+.3f} ({gain['low']:+.3f} to " in head
    assert head.endswith(", and right answers did not: 0 of 7 before, 0 of 7 after")
    assert "the score pays for something other than being right" in meaning
    words = [re.fullmatch(r"  reward 0.7: \"(\w+)\\x1b\", where '(\w+)' is right", line) for line in answers]
    assert len(words) == 3 and all(found and found[1] == found[2][::-1] for found in words), answers
    assert where == "  try: gce.check(task) attacks the score; result.answers() shows the answers"


def test_a_run_whose_answers_become_right_says_nothing() -> None:
    """The reward rises as far, to 1."""
    result = trained(learning(lambda scramble: scramble[::-1]))
    assert result.after["all"].correct == 7 and "mean reward, after" not in str(result), "no reward is partial"
    assert "warning" not in str(result) and "unearned" not in result.summary


def test_a_run_with_partial_credit_on_the_way_to_right_answers_says_nothing() -> None:
    """Half of the words are turned round: rewards are 0.7 or 1, and right answers account for the rise."""
    result = trained(learning(lambda scramble: scramble[::-1] if scramble < "l" else scramble))
    assert 0 < result.after["all"].correct < 7 and "mean reward, after - before: +" in str(result)
    assert "warning" not in str(result) and "unearned" not in result.summary


def test_without_tests_the_rollouts_tell() -> None:
    result = trained(learning(lambda scramble: scramble), test=0, problems=16, samples=4)
    assert "warning: the mean reward of rollouts rose, from 0." in str(result)
    assert ", and right answers did not: 0 of 64 at first, 0 of 64 at last" in str(result)
    with result.run() as run:
        last = {each["problem"] for each in run.read("rollouts") if each["iteration"] == 3}
    assert {each["problem"] for each in result.summary["unearned"]["answers"]} <= last


def test_a_long_answer_is_shortened_to_its_beginning_and_end_and_is_no_markup() -> None:
    """Right letters after 300 others are found by a score that reads the end."""

    def ends(answer: str, row: Any) -> float:
        return 0.5 if answer.endswith(row["answer"][::-1]) else 0.0

    task = gce.task(ROWS, ends, name="ends", extract="text", admit_at=1.0)
    model = learning(lambda scramble: f"<b>{'x' * 300}{scramble}")
    result = gce.train(task=task, model=model, progress=False, **SMALL)
    (text, *_) = [each["text"] for each in result.summary["unearned"]["answers"]]
    assert text.startswith("<b>xxx") and " [... 148 characters ...] x" in text and len(text) == 160 + 26
    html = result._repr_html_()
    assert "&lt;b&gt;xxx" in html and "<b>" not in html and "right answers did not" in html
    section = gce.report(result).sections[0]
    assert any(words.startswith("Warning: the mean reward of ") for words in section.words)
    (table,) = [each for each in section.tables if each.head[1] == "wrong answer"]
    assert [row[0] for row in table.rows] == ["0.5"] * 3 and table.rows[0][1] == text and len(table.rows[0][2]) == 5


def test_the_commands_are_named_and_the_summary_is_read_again(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")  # Runs are kept in directories.
    name = str(tmp_path / "run")
    result = gce.train(
        task="test_unearned_rise:anagram", model="test_unearned_rise:copying", run=name, progress=False, **SMALL
    )
    assert f"  try: gce.check(task) attacks the score; gce transcript {name} shows the answers" in str(result)
    stored = json.loads(Path(name, "summary.json").read_text())["unearned"]
    assert stored["rise"]["source"] == "test problems" and [each["reward"] for each in stored["answers"]] == [0.7] * 3
    assert "right answers did not" in str(gce.report(name))


def test_folds_are_judged_together_and_know_the_answers_of_each(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    settings = {**SMALL, "iterations": 2} | {"model": "test_unearned_rise:copying"}
    del settings["test"]
    found = gce.cross_fit(task="test_unearned_rise:anagram", folds=3, run=tmp_path / "folds", **settings)
    said = str(found).split("warning: ")[1]
    assert "right answers did not: 0 of 28 before, 0 of 28 after" in said
    assert len(re.findall(r"reward 0.7: \"\w+\", where '\w+' is right", said)) == 3
