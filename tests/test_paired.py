"""Paired comparisons: hand-worked gains, graded rewards, and the hierarchical bootstrap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.app.evaluation.comparison import stored_gain, stored_pairs
from gce.app.tables.cells import gain_line
from gce.domain.measurements import Interval
from gce.domain.paired import hierarchical_bootstrap, paired_gain, paired_gains
from gce.domain.randomness import generator
from gce.domain.statistics import Estimate, difference_p, mcnemar, paired_difference, stratified_bootstrap


def test_right_and_wrong_are_compared_by_mcnemar_and_bonett_and_price() -> None:
    pairs = [("T0", 0.0, 1.0)] * 6 + [("T0", 1.0, 0.0)] + [("T1", 1.0, 1.0)] * 3
    found = paired_gain(pairs)
    assert (found.gained, found.lost, found.p) == (6, 1, mcnemar(6, 1))
    assert found.mean == paired_difference([(6, 1, 7), (0, 0, 3)])
    assert found.adjusted == found.p


def test_graded_rewards_are_compared_by_sign_flips_and_what_they_do_not_reject() -> None:
    """Differences 0.5, 0.5 and -0.5, 0.5: the mean of tiers is 1/4; of 16 sign patterns 10 are as far from 0.

    Of four problems no p is below 2/16, so that nothing in [-1, 1] is excluded.
    """
    pairs = [("T0", 0.0, 0.5), ("T0", 0.25, 0.75), ("T1", 0.5, 0.0), ("T1", 0.5, 1.0)]
    found = paired_gain(pairs)
    assert (found.gained, found.lost, found.mean.value) == (3, 1, 0.25)
    assert found.p == 10 / 16
    assert (found.mean.low, found.mean.high) == (-1.0, 1.0)
    assert gain_line(found, rewards=True).startswith("mean reward, after - before: +0.250 (-1.000 to +1.000) in [0, 1]")


def test_an_interval_never_excludes_0_beside_a_p_that_does_not() -> None:
    """The eighth trial's six questions: three of them gained 1/2, of which 2 of 8 signs are as far off; p = 1/4."""
    found = paired_gain([("all", 0.0, 0.5)] * 3 + [("all", 0.0, 0.0)] * 2 + [("all", 0.5, 0.5)])
    assert (found.mean, found.p) == (Estimate(0.25, 0.0, 0.5), 0.25)
    assert gain_line(found, rewards=True) == (
        "mean reward, after - before: +0.250 (+0.000 to +0.500) in [0, 1], paired by problem; 3 gained, 0 lost, "
        "p = 0.250 (sign flips)"
    )


def test_measures_of_any_size_are_not_cut() -> None:
    found = paired_gain([("all", 10.0, 14.0)] * 2)
    assert (found.mean.low, found.mean.high) == (-math.inf, math.inf)


def test_random_signs_are_fixed() -> None:
    pairs = [("all", 0.0, number / 20) for number in range(20)]
    assert paired_gain(pairs) == paired_gain(pairs)


def test_several_rows_have_holms_correction() -> None:
    """p = 2 / 2**7 and 2 / 2**6: the smaller is doubled."""
    found = paired_gains({"a": [("T0", 0.0, 1.0)] * 7, "b": [("T0", 0.0, 1.0)] * 6})
    assert (found["a"].adjusted, found["b"].adjusted) == (4 / 2**7, 2 / 2**6)


def record(tier: str, digest: str, right: bool, **more: Any) -> dict[str, Any]:
    return {"tier": tier, "digest": digest, "right": right, "outcome": "right" if right else "wrong", **more}


def test_stored_answers_are_paired_by_problem_and_failed_ones_left_out() -> None:
    before = [record("T0", "a", False), record("T0", "b", True), record("T0", "c", True)]
    after = [record("T0", "b", True), record("T0", "a", False, reward=0.5), record("T0", "c", False, outcome="failed")]
    assert stored_pairs(before, after) == [("T0", 1.0, 1.0), ("T0", 0.0, 0.0)]
    assert stored_pairs(before, after, rewards=True) == [("T0", 1.0, 1.0), ("T0", 0.0, 0.5)]
    gain = stored_gain(before, after, rewards=True)
    assert gain is not None and gain.mean.value == 0.25
    assert stored_gain(before, before, rewards=True) is None, "no reward is partial"
    assert stored_gain(before, [record("T1", "a", True)]) is None, "no problem in common"


def test_two_seeds_of_one_problem_by_hand() -> None:
    """Seeds 0 and 1 with one problem: a resample of the seeds is 0, 1/2, 1/2 or 1, so the interval is [0, 1]."""
    found = hierarchical_bootstrap([[[0.0], [1.0]]], generator(0, "hand"))
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)
    narrow = hierarchical_bootstrap([[[0.0], [1.0]]], generator(0, "hand"), confidence=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5), "half of all resamples are the value itself"


def test_equal_seeds_leave_the_variation_of_problems() -> None:
    """Problems are drawn once for all seeds: repeating a seed adds no information."""
    problems = generator(0, "problems").normal(size=50).tolist()
    both = hierarchical_bootstrap([[problems, problems]], generator(0, "a"))
    plain = stratified_bootstrap([problems], generator(0, "b"))
    assert both.value == pytest.approx(plain.value)
    assert both.high - both.low == pytest.approx(plain.high - plain.low, rel=0.05)


def test_its_spread_is_that_of_seeds_and_problems_together() -> None:
    """Variances of resampled means: of 4 seeds +-0.3 / 4 problems' share, and of problems; they add."""
    rng = generator(0, "spread")
    seeds, problems = np.array([-0.3, 0.3, -0.3, 0.3]), rng.normal(size=(2, 100))
    tiers = [(seeds[:, None] + tier).tolist() for tier in problems]
    found = hierarchical_bootstrap(tiers, generator(1, "spread"), repetitions=40_000)
    deviation = np.sqrt(seeds.var() / 4 + sum(tier.var() / 100 for tier in problems) / 4)
    assert found.high - found.low == pytest.approx(2 * 1.96 * deviation, rel=0.04)


@pytest.mark.slow
def test_ten_seeds_are_covered_about_as_often_as_said_and_three_are_not() -> None:
    """300 studies whose seeds differ more than their problems: about 93 % of 10 seeds, about 80 % of 3."""

    def covered(seeds: int) -> float:
        rng = generator(0, "coverage", seeds)
        studies = (rng.normal(0, 1, (seeds, 1)) + rng.normal(0, 1, (seeds, 50)) for _ in range(300))
        found = [hierarchical_bootstrap([each.tolist()], rng, repetitions=300) for each in studies]
        return sum(each.low <= 0.0 <= each.high for each in found) / 300

    assert covered(10) > 0.86
    assert 0.6 < covered(3) < 0.88


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(-1, 1), min_size=3, max_size=3), min_size=2, max_size=4))
def test_it_turns_around_with_the_sign(seeds: list[list[float]]) -> None:
    one = hierarchical_bootstrap([seeds], generator(0, "sign"), repetitions=200)
    other = hierarchical_bootstrap([[[-x for x in each] for each in seeds]], generator(0, "sign"), repetitions=200)
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low), abs=1e-9)


@pytest.mark.parametrize("tiers", [[], [[[1.0]]], [[[], []]], [[[1.0], [1.0, 2.0]]], [[[1.0], [2.0]], [[1.0]]]])
def test_what_is_no_crossed_design_is_refused(tiers: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        hierarchical_bootstrap(tiers, generator(0, "refused"))


def test_the_score_test_by_hand() -> None:
    """30 and 20 of 50: pooled 1/2, standard error 1/10, z = 2, p = 0.0455."""
    one, other = Interval(50, 30, 0.0, 1.0), Interval(50, 20, 0.0, 1.0)
    assert difference_p(one, other) == difference_p(other, one) == pytest.approx(0.0455, abs=1e-4)
    assert difference_p(one, one) == 1.0
    assert difference_p(Interval(9, 0, 0, 1), Interval(9, 0, 0, 1)) == 1.0
    with pytest.raises(ValueError, match="n = 0"):
        difference_p(one, Interval(0, 0, 0.0, 1.0))


def test_a_single_comparison_in_a_line() -> None:
    """With 0.96 more of each, 5 / 8.92 less 1.96 * sqrt((1 - 0.5605**2) / 8.92)."""
    found = paired_gain([("T0", 0.0, 1.0)] * 6 + [("T0", 1.0, 0.0)])
    assert isinstance(found.mean, Estimate)
    assert gain_line(found, "question") == (
        "after - before: +71.4 (+1.7 to +100.0) points, paired by question; 6 gained, 1 lost, p = 0.125 (McNemar)"
    )
