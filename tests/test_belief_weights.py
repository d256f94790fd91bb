"""Demonstrations about independent reports: sums of weights of evidence, which lead to the exact posterior."""

from __future__ import annotations

import random
from math import log

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

from gce.domain.completions import Completion
from gce.domain.tasks import TASKS, draw_problem, draw_problems
from gce.domain.tasks.beliefs.generate import question_of_world
from gce.domain.tasks.beliefs.log_odds import from_log_odds
from gce.domain.tasks.beliefs.question import BeliefQuestion
from gce.domain.tasks.beliefs.sources import Source, Witnesses
from gce.domain.tasks.beliefs.verify import TOLERANCE
from gce.domain.tasks.beliefs.weights import steps_of, weight_of, written_steps
from gce.domain.tasks.beliefs.wording import after_pieces, opposite_of, with_opinion

BELIEFS = TASKS["beliefs"]
TIERS = ("B1", "B2", "B3", "B4", "B5")


def by_hand(*sources: Source, base_rate: int = 20) -> BeliefQuestion:
    """A question about these sources; one more, which is withheld, follows them."""
    world = Witnesses(base_rate, (*sources, Source(60, 40, 1)))
    return question_of_world("sources", world, False, random.Random(0))


def lines(question: BeliefQuestion) -> list[str]:
    return present(written_steps(question))[1:]


def implied(question: BeliefQuestion) -> float:
    """What the sum of weights says."""
    return from_log_odds(sum(step.weight for step in present(steps_of(question))) * log(10) / 100)


def test_a_weight_is_ten_times_the_logarithm_of_the_ratio() -> None:
    """In tenths of a deciban: two to one is 3.01, ten to one 10, and three tests of two to one 9.03."""
    assert [weight_of(2, 1), weight_of(10, 1), weight_of(1, 10), weight_of(45, 45), weight_of(2, 1, 3)] == [
        *(30, 100, -100, 0, 90)
    ]


def test_steps_worked_by_hand() -> None:
    """Odds 1 to 4, times 4 for an 80 % witness who says yes, times 1 to 3 for a 25 % one: 1 to 3, which is 25 %.

    In weights: 10 log10 4 = 6.02 and 10 log10 3 = 4.77.
    """
    assert lines(by_hand(Source(80, 20, 1), Source(25, 75, 1))) == [
        "Base rate 20 to 80, weight 6.0 against. Total 0.0 for, 6.0 against.",
        "1: yes 80 to 20, says yes, 80 to 20, weight 6.0 for. Total 6.0 for, 6.0 against.",
        "2: yes 25 to 75, says yes, 25 to 75, weight 4.8 against. Total 6.0 for, 10.8 against.",
        "10.8 - 6.0 = 4.8 against: 25 %.",
    ]


def test_what_a_negative_test_and_an_irrelevant_source_weigh() -> None:
    """Negative: 20 % if true, 60 % if false, a third: 4.77 against; a source that says yes as often either way: 0."""
    assert lines(by_hand(Source(80, 40, 0), Source(45, 45, 1), base_rate=50)) == [
        "Base rate 50 to 50, weight 0.0. Total 0.0 for, 0.0 against.",
        "1: yes 80 to 40, says no, 20 to 60, weight 4.8 against. Total 0.0 for, 4.8 against.",
        "2: yes 45 to 45, says yes, 45 to 45, weight 0.0. Total 0.0 for, 4.8 against.",
        "4.8 - 0.0 = 4.8 against: 25 %.",
    ]


def test_who_says_what_he_may_have_copied_weighs_less() -> None:
    """Copied with 50 %, else right with 80 %: 50 + 40 to 50 + 10, that is 3 to 2, 1.76; without copying 4 to 1."""
    copier = Source(80, 20, 1, copies=0, copying=50)
    same = lines(by_hand(Source(60, 40, 1), copier, base_rate=50))
    assert (
        same[2]
        == "2: yes 80 to 20, says yes as 1, 50 + 40 to 50 + 10, 90 to 60, weight 1.8 for. Total 3.6 for, 0.0 against."
    )
    other = lines(by_hand(Source(60, 40, 0), copier, base_rate=50))
    assert other[2] == "2: yes 80 to 20, says yes not as 1, 80 to 20, weight 6.0 for. Total 6.0 for, 1.8 against."


def test_tests_that_were_not_reported_count_as_negative() -> None:
    """Of three tests at 60 % to 20 % two are positive: 3 to 1 twice, 9.54, and 40 to 80 once, 3.01 against."""
    assert lines(by_hand(Source(60, 20, 2, runs=3), base_rate=50))[1:3] == [
        "1: yes 60 to 20, 2 times yes, 60 to 20, weight 9.5 for. Total 9.5 for, 0.0 against.",
        "1: yes 60 to 20, 1 times no, 40 to 80, weight 3.0 against. Total 9.5 for, 3.0 against.",
    ]


def test_a_user_of_stated_reliability_is_one_more_report() -> None:
    question = by_hand(Source(60, 40, 1), base_rate=50)
    assert lines(with_opinion(question, 1, 0.8))[2:] == [
        "The user 20 to 80, weight 6.0 against. Total 1.8 for, 6.0 against.",
        "6.0 - 1.8 = 4.2 against: 27 %.",
    ]
    assert lines(with_opinion(question, 1)) == lines(question)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.integers(0, 60), st.sampled_from(TIERS))
def test_the_sums_are_well_within_the_tolerance_of_the_exact_posterior(index: int, tier: str) -> None:
    """Also for the opposite claim, whose weights are the same with the other sign, and along the evidence."""
    question = draw_problem(BELIEFS, "sources", tier, "train", index).instance
    if steps_of(question) is None:
        assert not isinstance(question.world, Witnesses)
        return
    assert abs(implied(question) - question.posterior) < TOLERANCE - 0.005
    weights = [step.weight for step in present(steps_of(question))]
    assert [-step.weight for step in present(steps_of(opposite_of(question)))] == weights
    for pieces in range(len(question.evidence)):
        before = after_pieces(question, pieces)
        assert abs(implied(before) - present(before.posterior)) < TOLERANCE - 0.005
    opined = with_opinion(question, 0, 0.7)
    assert abs(implied(opined) - present(opined.target)) < TOLERANCE - 0.005


@pytest.mark.parametrize("tier", TIERS)
def test_demonstrations_are_right_in_every_tier_and_also_about_the_opposite(tier: str) -> None:
    for problem in draw_problems(BELIEFS, "sources", tier, "dev", 8):
        for asked in (problem, present(BELIEFS.teaching.beliefs).opposite(problem)):
            shown = present(BELIEFS.teaching.demonstration(asked, None))
            (verdict,) = BELIEFS.judge(asked, Completion("k", shown, "stop", "policy"))
            assert verdict.status == "right", shown


def test_what_is_no_sum_of_weights_has_no_such_steps() -> None:
    """A certain witness has no finite weight; who may repeat a report that is not shown depends on it."""
    assert written_steps(by_hand(Source(100, 0, 1))) is None
    assert written_steps(by_hand(Source(80, 20, 1, copies=1, copying=50), Source(60, 40, 1))) is None
    unknown = evolve(by_hand(Source(80, 20, 1)), posterior=None, path=())
    assert written_steps(unknown) is None
    assert all(
        written_steps(problem.instance) is None for problem in draw_problems(BELIEFS, "elections", "B1", "dev", 3)
    )
