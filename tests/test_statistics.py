"""Statistics against published tables, hand-worked numbers, and what they promise."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gce.domain import randomness
from gce.domain.measurements import Interval
from gce.domain.statistics import (
    Estimate,
    clustered_standard_error,
    difference,
    holm,
    interval,
    mcnemar,
    mean_difference,
    mean_of_problems,
    mean_of_tiers,
    mean_pass_at_k,
    paired_difference,
    pass_at_k,
    sign_flip_test,
    stratified_bootstrap,
    wilson,
)

COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
CONFIDENCES = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


class TestWilson:
    @pytest.mark.parametrize(
        ("correct", "n", "low", "high"),
        [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
    )
    def test_it_agrees_with_the_table_of_newcombe_1998(self, correct: int, n: int, low: float, high: float) -> None:
        interval = wilson(correct, n)
        assert (interval.n, interval.correct) == (n, correct)
        assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)

    def test_two_of_three_says_next_to_nothing(self) -> None:
        assert wilson(2, 3).low == pytest.approx(0.208, abs=5e-4)
        assert wilson(2, 3).high == pytest.approx(0.939, abs=5e-4)

    def test_none_of_200_still_allows_almost_2_percent(self) -> None:
        assert wilson(0, 200).low == 0.0
        assert wilson(0, 200).high == pytest.approx(0.0188, abs=5e-5)

    def test_nothing_measured_is_nothing_known(self) -> None:
        assert wilson(0, 0) == Interval(n=0, correct=0, low=0.0, high=1.0)

    def test_none_right_begins_at_0_and_all_right_ends_at_1_exactly(self) -> None:
        """Numbers for which the formula is a rounding error off."""
        assert wilson(0, 5).low == wilson(0, 21).low == 0.0
        assert wilson(7, 7).high == wilson(15, 15).high == 1.0

    def test_half_of_100_at_90_percent_by_hand(self) -> None:
        """z = 1.6449: 0.5 -+ 1.6449 * sqrt(0.25 / 100 + 2.7055 / 40000) / 1.027055."""
        interval = wilson(50, 100, confidence=0.9)
        assert (interval.low, interval.high) == pytest.approx((0.41884, 0.58116), abs=1e-5)

    @given(COUNTS, CONFIDENCES)
    def test_the_limits_are_where_the_score_test_just_rejects(self, counts: Any, confidence: Any) -> None:
        """The definition: |share - limit| is z standard errors taken at the limit."""
        correct, n = counts
        interval = wilson(correct, n, confidence=confidence)
        z = {0.5: 0.674490, 0.8: 1.281552, 0.9: 1.644854, 0.95: 1.959964, 0.99: 2.575829}[confidence]
        assert 0.0 <= interval.low <= interval.share <= interval.high <= 1.0
        for limit in (interval.low, interval.high):
            if 0.0 < limit < 1.0:
                error = math.sqrt(limit * (1 - limit) / n)
                assert abs(interval.share - limit) == pytest.approx(z * error, rel=1e-4)

    @given(COUNTS)
    def test_right_and_wrong_mirror_each_other(self, counts: Any) -> None:
        correct, n = counts
        one, other = wilson(correct, n), wilson(n - correct, n)
        assert one.low == pytest.approx(1 - other.high, abs=1e-12)

    @given(COUNTS)
    def test_more_confidence_is_wider(self, counts: Any) -> None:
        narrow, wide = wilson(*counts, confidence=0.9), wilson(*counts, confidence=0.99)
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high

    @pytest.mark.parametrize(("correct", "n"), [(-1, 3), (4, 3), (0, -1)])
    def test_impossible_counts_are_refused(self, correct: int, n: int) -> None:
        with pytest.raises(ValueError, match="expected correct from 0 to n"):
            wilson(correct, n)

    @pytest.mark.parametrize("confidence", [-0.5, 0.0, 1.0, 95.0, math.nan])
    def test_a_confidence_is_between_0_and_1(self, confidence: Any) -> None:
        with pytest.raises(ValueError, match="expected a confidence in"):
            wilson(1, 2, confidence=confidence)


class TestDifference:
    @pytest.mark.parametrize(
        ("after", "before", "low", "high"),
        [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((6, 7), (2, 7), 0.0582, 0.8062),
            ((5, 56), (0, 29), -0.0381, 0.1926),
            ((0, 10), (0, 20), -0.1611, 0.2775),
            ((0, 10), (0, 10), -0.2775, 0.2775),
            ((10, 10), (0, 20), 0.6791, 1.0),
            ((10, 10), (0, 10), 0.6075, 1.0),
        ],
    )
    def test_it_agrees_with_the_table_of_newcombe_1998(
        self, after: tuple[int, int], before: tuple[int, int], low: float, high: float
    ) -> None:
        estimate = difference(wilson(*after), wilson(*before))
        assert (round(estimate.low, 4), round(estimate.high, 4)) == (low, high)

    @given(COUNTS, COUNTS)
    def test_it_holds_the_difference_and_turns_around(self, after: tuple[int, int], before: tuple[int, int]) -> None:
        one, other = difference(wilson(*after), wilson(*before)), difference(wilson(*before), wilson(*after))
        assert -1.0 - 1e-12 <= one.low <= one.value <= one.high <= 1.0 + 1e-12
        assert (one.low, one.value, one.high) == (-other.high, -other.value, -other.low)

    def test_a_share_of_nothing_is_refused(self) -> None:
        with pytest.raises(ValueError, match="n = 0"):
            difference(wilson(0, 0), wilson(1, 2))


def adding_up_wilson_limits(intervals: Any) -> Estimate:
    value = sum(one.share for one in intervals) / len(intervals)
    down = math.hypot(*(one.share - one.low for one in intervals)) / len(intervals)
    up = math.hypot(*(one.high - one.share for one in intervals)) / len(intervals)
    return Estimate(value, value - down, value + up)


class TestMeanOfTiers:
    def test_two_tiers_worked_by_hand(self) -> None:
        """3 and 7 of 10: z^2 / 4 = 0.9604 is added to each side, so 0.3322 and 0.6678 of 11.9207."""
        estimate = mean_of_tiers([wilson(3, 10), wilson(7, 10)])
        assert estimate.value == pytest.approx(0.5)
        assert (estimate.low, estimate.high) == pytest.approx((0.5 - 0.18907, 0.5 + 0.18907), abs=1e-5)

    @given(COUNTS, CONFIDENCES)
    def test_one_tier_is_agresti_and_coull(self, counts: Any, confidence: Any) -> None:
        """Which has the centre of Wilson's interval and holds all of it."""
        estimate, interval = (
            mean_of_tiers([wilson(*counts)], confidence=confidence),
            wilson(*counts, confidence=confidence),
        )
        assert estimate.value == interval.share
        assert estimate.low <= interval.low + 1e-12
        assert interval.high - 1e-12 <= estimate.high

    @given(st.lists(COUNTS, min_size=1, max_size=6), CONFIDENCES)
    def test_it_holds_the_mean_and_stays_a_share(self, tiers: list[Any], confidence: Any) -> None:
        estimate = mean_of_tiers((wilson(*counts) for counts in tiers), confidence=confidence)
        assert estimate.value == pytest.approx(sum(correct / n for correct, n in tiers) / len(tiers))
        assert 0.0 <= estimate.low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= estimate.high <= 1.0

    @pytest.mark.slow
    @given(st.lists(COUNTS, min_size=2, max_size=6))
    def test_the_order_of_tiers_does_not_matter(self, tiers: list[Any]) -> None:
        assert mean_of_tiers(wilson(*one) for one in tiers) == mean_of_tiers(wilson(*one) for one in reversed(tiers))

    def test_tiers_of_other_sizes_at_90_percent_by_hand(self) -> None:
        """1 of 4 and 9 of 10: z^2 / 4 = 0.67639 is added, so 1.67639 of 5.35277 and 9.67639 of 11.35277."""
        estimate = mean_of_tiers([wilson(1, 4), wilson(9, 10)], confidence=0.9)
        assert estimate.value == pytest.approx(0.575)
        assert (estimate.low, estimate.high) == pytest.approx((0.58276 - 0.18622, 0.58276 + 0.18622), abs=1e-5)

    def test_it_is_cut_to_what_a_share_can_be(self) -> None:
        """0 of 10 with 1.92 more of each: 0.13877 -+ 0.18212."""
        none, all_right = mean_of_tiers([wilson(0, 10)]), mean_of_tiers([wilson(10, 10)])
        assert none.low == 0.0 and none.high == pytest.approx(0.32089, abs=1e-5)
        assert all_right.low == pytest.approx(0.67911, abs=1e-5) and all_right.high == 1.0

    def test_a_tier_weighs_the_same_whatever_its_n(self) -> None:
        assert mean_of_tiers([wilson(1000, 1000), wilson(0, 10)]).value == 0.5

    @pytest.mark.parametrize(
        ("shares", "n"),
        [
            ((0.01,) * 6, 200),
            ((0.75, 0.25, 0.10, 0.12, 0.0, 0.0), 200),
            ((1.0, 0.98, 0.99, 1.0, 1.0, 0.97), 40),
            ((0.0, 0.02, 0.02, 0.02, 0.02, 0.02), 40),
            ((0.9, 0.9, 0.8, 0.6, 0.3, 0.05), 40),
        ],
    )
    def test_it_covers_the_truth_as_often_as_it_says(self, shares: Any, n: int) -> None:
        estimates = [mean_of_tiers(tiers) for tiers in simulated_tiers(shares, n)]
        covered = [one.low <= sum(shares) / len(shares) <= one.high for one in estimates]
        assert sum(covered) / len(covered) >= 0.935  # 2.2 standard errors below 95 %

    def test_adding_up_the_tiers_wilson_limits_would_not(self) -> None:
        """Why it is not done: 6 tiers of 200 at 1 % each."""
        covered = [
            estimate.low <= 0.01 <= estimate.high
            for estimate in map(adding_up_wilson_limits, simulated_tiers((0.01,) * 6, 200))
        ]
        assert 0.89 <= sum(covered) / len(covered) <= 0.925

    @pytest.mark.parametrize(
        ("tiers", "message"),
        [
            ([], "at least one tier, got none"),
            ([(0, 0)], "measured shares, got one with n = 0"),
            ([(1, 2), (0, 0)], "measured shares, got one with n = 0"),
        ],
    )
    def test_nothing_has_no_mean(self, tiers: Any, message: str) -> None:
        with pytest.raises(ValueError, match=f"expected {message}"):
            mean_of_tiers([wilson(*counts) for counts in tiers])


def simulated_tiers(shares: Any, n: int, *, times: int = 1000) -> list[list[Any]]:
    drawn = randomness.generator("coverage", n).binomial(n, shares, size=(times, len(shares))).tolist()
    return [[wilson(correct, n) for correct in row] for row in drawn]


class TestMeanDifference:
    def test_one_tier_each_worked_by_hand(self) -> None:
        """7 and 3 of 10: the same shares and errors as in the mean of two tiers, each with weight 1, not 1/2."""
        estimate = mean_difference([wilson(7, 10)], [wilson(3, 10)])
        assert estimate.value == pytest.approx(0.4)
        assert (estimate.low, estimate.high) == pytest.approx((0.33555 - 0.37813, 0.33555 + 0.37813), abs=1e-5)

    def test_two_tiers_against_one_by_hand(self) -> None:
        """9 and 5 of 10 weigh 1/2 each, 3 of 10 weighs 1: z^2 / 6 = 0.64024 is added to each side of the three."""
        two, one = [wilson(9, 10), wilson(5, 10)], [wilson(3, 10)]
        more, less = mean_difference(two, one), mean_difference(one, two)
        assert (more.value, less.value) == pytest.approx((0.4, -0.4))
        assert (more.low, more.high) == pytest.approx((0.35460 - 0.32603, 0.35460 + 0.32603), abs=1e-5)
        assert (less.low, less.high) == pytest.approx((-more.high, -more.low))

    def test_it_is_cut_to_what_a_difference_of_shares_can_be(self) -> None:
        """1 of 1 against 0 of 1, with 0.96 more of each: 0.34238 -+ 0.76193."""
        most, least = (mean_difference([wilson(one, 1)], [wilson(1 - one, 1)]) for one in (1, 0))
        assert most.low == pytest.approx(-0.41955, abs=1e-5) and most.high == 1.0
        assert least.low == -1.0 and least.high == pytest.approx(0.41955, abs=1e-5)

    def test_less_confidence_is_narrower(self) -> None:
        wide, narrow = (mean_difference([wilson(7, 10)], [wilson(3, 10)], confidence=c) for c in (0.95, 0.5))
        assert wide.low < narrow.low < narrow.high < wide.high

    @pytest.mark.slow
    @given(st.lists(COUNTS, min_size=1, max_size=6), st.lists(COUNTS, min_size=1, max_size=6))
    def test_it_holds_the_difference_of_the_means(self, after: list[Any], before: list[Any]) -> None:
        later, earlier = [wilson(*one) for one in after], [wilson(*one) for one in before]
        estimate = mean_difference(later, earlier)
        assert estimate.value == pytest.approx(mean_of_tiers(later).value - mean_of_tiers(earlier).value, abs=1e-12)
        assert -1.0 <= estimate.low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= estimate.high <= 1.0

    def test_it_covers_the_truth_as_often_as_it_says(self) -> None:
        after = simulated_tiers((0.9, 0.6, 0.5, 0.5, 0.2, 0.1), 60)
        before = simulated_tiers((0.7, 0.2, 0.1, 0.1, 0.0, 0.0), 40)
        estimates = map(mean_difference, after, before)
        covered = [one.low <= 1.7 / 6 <= one.high for one in estimates]
        assert 0.935 <= sum(covered) / len(covered) <= 0.985

    @pytest.mark.parametrize(
        ("after", "before", "message"),
        [
            ([], [(1, 2)], "tiers on both sides, got 0 after and 1 before"),
            ([(1, 2)], [], "tiers on both sides, got 1 after and 0 before"),
            ([(0, 0)], [(1, 2)], "measured shares, got one with n = 0"),
        ],
    )
    def test_nothing_has_no_mean(
        self, after: list[tuple[int, int]], before: list[tuple[int, int]], message: str
    ) -> None:
        with pytest.raises(ValueError, match=f"expected {message}"):
            mean_difference([wilson(*one) for one in after], [wilson(*one) for one in before])


class TestPassAtK:
    def test_two_right_of_five_by_hand(self) -> None:
        assert pass_at_k(5, 2, 1) == pytest.approx(2 / 5)
        assert pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)
        assert pass_at_k(5, 2, 4) == 1.0

    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
    def test_it_is_the_share_of_subsets_with_a_right_sample(self, drawn: Any) -> None:
        n, correct, k = drawn
        subsets = list(itertools.combinations([index < correct for index in range(n)], k))
        assert pass_at_k(n, correct, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))

    def test_thousands_of_samples_do_not_overflow(self) -> None:
        assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)

    @pytest.mark.parametrize(("n", "correct", "k"), [(3, 1, 0), (3, 1, 4), (3, 4, 1), (0, 0, 1)])
    def test_impossible_arguments_are_refused(self, n: int, correct: int, k: int) -> None:
        with pytest.raises(ValueError, match="expected"):
            pass_at_k(n, correct, k)


class TestMeanPassAtK:
    def test_two_problems_by_hand(self) -> None:
        """1 of 2 and 2 of 2: pass@1 is 0.75 and pass@2 is 1."""
        assert mean_pass_at_k([(2, 1), (2, 2)], 1).value == pytest.approx(0.75)
        both = mean_pass_at_k([(2, 1), (2, 2)], 2)
        assert (both.value, both.high) == (1.0, 1.0) and both.low == pytest.approx(wilson(2, 2).low)

    @given(COUNTS)
    def test_one_sample_of_each_problem_is_the_plain_share(self, drawn: Any) -> None:
        correct, n = drawn
        found, share = mean_pass_at_k([(1, int(index < correct)) for index in range(n)], 1), wilson(correct, n)
        assert (found.value, found.low, found.high) == pytest.approx((share.share, share.low, share.high))

    def test_more_samples_of_few_problems_do_not_narrow_the_interval(self) -> None:
        few, many = mean_pass_at_k([(2, 1)] * 10, 1), mean_pass_at_k([(200, 100)] * 10, 1)
        assert (few.low, few.high) == pytest.approx((many.low, many.high))

    def test_it_is_wilsons_interval_at_the_confidence_asked_for(self) -> None:
        found, share = mean_pass_at_k([(1, 1), (1, 0), (1, 0)], 1, confidence=0.9), wilson(1, 3, confidence=0.9)
        assert (found.value, found.low, found.high) == pytest.approx((share.share, share.low, share.high))

    def test_no_problem_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one problem"):
            mean_pass_at_k([], 1)


class TestClusteredStandardError:
    def test_two_problems_of_two_rollouts_by_hand(self) -> None:
        """Residuals +-1/2 add up to 1 and -1 in the clusters: sqrt(2 / 1 * (1 + 1)) / 4."""
        assert clustered_standard_error([1, 1, 0, 0], ["a", "a", "b", "b"]) == pytest.approx(0.5)

    def test_problems_with_unequal_numbers_of_rollouts_by_hand(self) -> None:
        """Mean 3/5: residuals add up to -1/5, -3/5 and 4/5, so sqrt(3 / 2 * 26 / 25) / 5."""
        found = clustered_standard_error([1, 0, 0, 1, 1], ["a", "a", "b", "c", "c"])
        assert found == pytest.approx(math.sqrt(1.56) / 5)

    def test_hundreds_of_problems_by_hand(self) -> None:
        """150 right and 150 wrong: sqrt(300 / 299 * 75) / 300."""
        assert clustered_standard_error([0, 1] * 150, range(300)) == pytest.approx(math.sqrt(75 / 299 / 300))

    def test_rollouts_that_agree_inside_no_problem_cancel(self) -> None:
        assert clustered_standard_error([1, 0, 1, 0], ["a", "a", "b", "b"]) == 0.0

    @given(st.lists(st.floats(0, 1), min_size=2, max_size=30))
    def test_with_clusters_of_one_it_is_the_usual_standard_error(self, values: list[float]) -> None:
        mean = sum(values) / len(values)
        usual = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
        assert clustered_standard_error(values, range(len(values))) == pytest.approx(usual, abs=1e-9)

    @given(st.lists(st.floats(0, 1), min_size=2, max_size=10), st.integers(2, 5))
    def test_repeating_every_rollout_adds_no_information(self, values: list[float], times: int) -> None:
        once = clustered_standard_error(values, range(len(values)))
        again = clustered_standard_error(values * times, list(range(len(values))) * times)
        assert again == pytest.approx(once, abs=1e-9)

    @pytest.mark.parametrize(
        ("values", "clusters", "message"),
        [
            ([], [], "at least two clusters, got 0"),
            ([1.0], ["a"], "at least two clusters, got 1"),
            ([1, 0], ["a", "a"], "at least two clusters, got 1"),
            ([1, 0], ["a"], "one cluster for each of 2 values, got 1"),
            ([1, 0], ["a", "b", "c"], "one cluster for each of 2 values, got 3"),
        ],
    )
    def test_fewer_than_two_clusters_are_refused(self, values: Any, clusters: Any, message: str) -> None:
        with pytest.raises(ValueError, match=f"expected {message}"):
            clustered_standard_error(values, clusters)


class TestMcNemar:
    def test_ten_gained_two_lost_by_hand(self) -> None:
        """2 * (1 + 12 + 66) / 2**12."""
        assert mcnemar(10, 2) == 158 / 4096

    def test_five_gained_none_lost_is_no_finding(self) -> None:
        assert mcnemar(5, 0) == 2 / 32

    def test_no_change_is_no_evidence(self) -> None:
        assert mcnemar(0, 0) == 1.0
        assert mcnemar(7, 7) == 1.0

    @given(st.integers(0, 60), st.integers(0, 60))
    def test_it_is_the_two_sided_binomial_tail(self, gained: int, lost: int) -> None:
        total = gained + lost
        tail = sum(math.comb(total, i) for i in range(min(gained, lost) + 1)) / 2**total
        assert mcnemar(gained, lost) == mcnemar(lost, gained) == pytest.approx(min(1.0, 2 * tail))

    def test_thousands_of_problems_do_not_overflow(self) -> None:
        assert 0.3 < mcnemar(5000, 5100) < 0.35

    @pytest.mark.parametrize(("gained", "lost"), [(-1, 2), (2, -1)])
    def test_negative_counts_are_refused(self, gained: int, lost: int) -> None:
        with pytest.raises(ValueError, match=f"expected counts from 0, got gained {gained} and lost {lost}"):
            mcnemar(gained, lost)


class TestPairedDifference:
    def test_one_tier_worked_by_hand(self) -> None:
        """10 gained and 2 lost of 98: with 0.96 more of each and 1.92 more problems, 8 / 99.92 and its Wald limits."""
        found = paired_difference([(10, 2, 98)])
        z = 1.959964
        n, up, down = 98 + z * z / 2, 10 + z * z / 4, 2 + z * z / 4
        reach = z * math.sqrt(up + down - (up - down) ** 2 / n) / n
        assert found.value == pytest.approx(8 / 98)
        assert (found.low, found.high) == pytest.approx((8 / n - reach, 8 / n + reach), abs=1e-6)

    def test_two_tiers_of_other_sizes_worked_by_hand(self) -> None:
        """Each gets half of z^2 / 4: 3.48018 and 1.48018 of 10.96036, and 0.48018 and 2.48018 of 20.96036."""
        found = paired_difference([(3, 1, 10), (0, 2, 20)])
        assert found.value == pytest.approx((2 / 10 - 2 / 20) / 2)
        assert (found.low, found.high) == pytest.approx((0.04353 - 0.20686, 0.04353 + 0.20686), abs=1e-5)

    def test_it_is_cut_to_what_a_difference_of_shares_can_be(self) -> None:
        """3 gained of 3, with 0.96 more of each: 0.60967 -+ 0.70036."""
        most, least = paired_difference([(3, 0, 3)]), paired_difference([(0, 3, 3)])
        assert most.low == pytest.approx(-0.09069, abs=1e-5) and most.high == 1.0
        assert least.low == -1.0 and least.high == pytest.approx(0.09069, abs=1e-5)

    def test_as_many_gained_as_lost_is_no_difference(self) -> None:
        """All 6 changed: with 0.96 more of each, 0 -+ 1.96 * sqrt(1 / 7.92)."""
        found = paired_difference([(3, 3, 6)])
        assert (found.value, found.low, found.high) == pytest.approx((0.0, -0.69641, 0.69641), abs=1e-5)

    def test_less_confidence_is_narrower(self) -> None:
        wide, narrow = paired_difference([(10, 2, 98)]), paired_difference([(10, 2, 98)], confidence=0.5)
        assert wide.low < narrow.low < narrow.high < wide.high

    def test_the_paper_adds_one_to_each_count_and_two_to_the_problems(self) -> None:
        """Its rounding of z^2 / 4 and z^2 / 2 moves the limits by less than half a point at n = 40."""
        p12, p21, n = 9 / 42, 3 / 42, 42
        reach = 1.96 * math.sqrt((p12 + p21 - (p12 - p21) ** 2) / n)
        found = paired_difference([(8, 2, 40)])
        assert (found.low, found.high) == pytest.approx((p12 - p21 - reach, p12 - p21 + reach), abs=5e-3)

    @pytest.mark.parametrize("tiers", [[(0.1, 0.02, 50)], [(0.0, 0.0, 200)] * 5 + [(0.06, 0.01, 200)]])
    def test_it_covers_the_truth_as_often_as_it_says(self, tiers: Any) -> None:
        rng = randomness.generator(0, "paired")
        truth = sum(up - down for up, down, _ in tiers) / len(tiers)
        covered = 0
        for _ in range(1000):
            drawn = [rng.multinomial(n, [up, down, 1 - up - down]).tolist() for up, down, n in tiers]
            found = paired_difference([(up, down, up + down + rest) for up, down, rest in drawn])
            covered += found.low <= truth <= found.high
        assert covered >= 930

    @pytest.mark.slow
    @given(st.lists(COUNTS, min_size=1, max_size=5))
    def test_turned_round_it_changes_sign(self, tiers: list[Any]) -> None:
        one = paired_difference([(correct, 0, n) for correct, n in tiers])
        other = paired_difference([(0, correct, n) for correct, n in tiers])
        assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
        assert one.low <= one.value <= one.high

    @pytest.mark.parametrize(
        ("tiers", "message"),
        [
            ([], "at least one tier, got none"),
            ([(0, 0, 0)], "counts from 0 and problems from 1, got 0, 0 and 0"),
            ([(-1, 2, 4)], "counts from 0 and problems from 1, got -1, 2 and 4"),
            ([(2, -1, 4)], "counts from 0 and problems from 1, got 2, -1 and 4"),
            ([(3, 2, 4)], "correct from 0 to n = 4, got 5"),
        ],
    )
    def test_impossible_counts_are_refused(self, tiers: Any, message: str) -> None:
        with pytest.raises(ValueError, match=f"expected {message}"):
            paired_difference(tiers)


class TestStratified:
    STRATA = ((1.0, 0.0, 0.0, 1.0), (0.5, -0.5, 0.0, 0.0, 0.0))

    def test_the_mean_of_the_strata_by_hand(self) -> None:
        assert stratified_bootstrap(self.STRATA, randomness.generator(0, "bootstrap")).value == 0.25

    def test_a_stratum_weighs_the_same_whatever_its_size(self) -> None:
        """Three ones and one zero: a half, not three quarters. With nothing to draw from, neither limit is off it."""
        found = stratified_bootstrap([[1.0] * 3, [0.0]], randomness.generator(0, "weights"), repetitions=100)
        assert found == Estimate(0.5, 0.5, 0.5)

    @pytest.mark.parametrize(
        ("strata", "confidence", "low", "high"),
        [
            ([[0.0, 1.0]], 0.7, 0.0, 1.0),
            ([[0.0, 1.0]], 0.4, 0.5, 0.5),
            ([[0.0, 1.0], [0.0] * 6], 0.7, 0.0, 0.5),
            ([[0.0, 1.0], [0.0] * 6], 0.4, 0.25, 0.25),
            ([[0.0] * 6, [0.0, 1.0]], 0.7, 0.0, 0.5),
        ],
    )
    def test_the_limits_of_two_values_by_hand(self, strata: Any, confidence: float, low: float, high: float) -> None:
        """A quarter of the resamples has the first value alone, and a quarter the second: 15 % lie within, 30 % beyond.

        A second stratum, which never varies, halves what the first does, however many values it has.
        """
        found = stratified_bootstrap(strata, randomness.generator(0, "two values"), confidence=confidence)
        assert (found.low, found.high) == (low, high)

    def test_without_options_it_draws_10000_times_for_95_percent(self) -> None:
        values = [[math.sqrt(index) for index in range(20)]]
        usual, spelt, fewer = (
            stratified_bootstrap(values, randomness.generator(0, "options"), **options)
            for options in ({}, {"repetitions": 10_000, "confidence": 0.95}, {"repetitions": 9_999})
        )
        assert usual == spelt != fewer

    def test_signs_of_strata_of_other_sizes_by_hand(self) -> None:
        """A gain of 1 against the mean of 4: what 4 losses of 1 take away is 1, and 3 losses beside a gain take 1/2.

        The first sum is 0, as far off as any. The second is 1/2, which 30 of the 32 ways to draw signs reach: all but
        +1 and four losses, and their opposites.
        """
        even, ahead, behind = (
            sign_flip_test(strata, randomness.generator(0, "sizes"))[1]
            for strata in (
                [[1.0], [-1.0] * 4],
                [[1.0], [1.0, -1.0, -1.0, -1.0]],
                [[-1.0], [-1.0, 1.0, 1.0, 1.0]],
            )
        )
        assert (even, ahead, behind) == (1.0, 30 / 32, 30 / 32)

    def test_signs_drawn_by_lot_by_hand(self) -> None:
        """Shares 1/4, 1/4, 1/10, -1/10 make 1/2: as far off are 1/2 (two ways), 0.7, and their opposites, 6 of 16."""
        exact = sign_flip_test(self.STRATA, randomness.generator(0, "signs"))[1]
        drawn = sign_flip_test(self.STRATA, randomness.generator(0, "signs"), repetitions=500)[1]
        assert exact == 6 / 16 and drawn == pytest.approx(6 / 16, abs=0.06) and drawn != exact

    @pytest.mark.parametrize(("gained", "lost"), [(4, 0), (9, 2), (30, 14)])
    def test_on_one_stratum_of_changes_it_is_the_exact_paired_test(self, gained: int, lost: int) -> None:
        values = [1.0] * gained + [-1.0] * lost + [0.0] * 50
        found = sign_flip_test([values], randomness.generator(0, "signs"), repetitions=40_000)[1]
        assert found == pytest.approx(mcnemar(gained, lost), abs=0.01)

    def test_one_stratum_is_the_usual_bootstrap(self) -> None:
        """Of 100 zeros and ones: the limits are the binomial's, 40 to 60 of 100 for a half."""
        found = stratified_bootstrap([[0.0, 1.0] * 50], randomness.generator(1, "bootstrap"))
        assert (found.low, found.high) == pytest.approx((0.40, 0.60), abs=0.011)

    def test_it_covers_the_truth_as_often_as_it_says(self) -> None:
        """Strata of 60 and 20 values of different spread; percentile intervals are a little too narrow for few."""
        rng = randomness.generator(2, "strata")
        covered = false = 0
        for _ in range(400):
            strata = [rng.normal(0.0, 1.0, 60).tolist(), rng.choice([-1.0, 0.0, 1.0], 20).tolist()]
            found = stratified_bootstrap(strata, rng, repetitions=400)
            covered += found.low <= 0 <= found.high
            false += sign_flip_test(strata, rng, repetitions=400)[1] < 0.05
        assert covered >= 364
        assert false <= 36

    def test_it_repeats(self) -> None:
        one, other = (stratified_bootstrap(self.STRATA, randomness.generator(0, "x")) for _ in range(2))
        assert one == other

    def test_no_change_is_no_evidence_and_nothing_but_change_is_all(self) -> None:
        assert sign_flip_test([[0.0] * 9], randomness.generator(0, "signs")) == (Estimate(0.0, 0.0, 0.0), 1.0)
        found, p = sign_flip_test([[1.0] * 30], randomness.generator(0, "signs"))
        assert (found.value, p) == (1.0, 1 / 10_001) and (found.low, found.high) == pytest.approx((1.0, 1.0))

    def test_what_was_found_counts_as_one_more_draw(self) -> None:
        """Of 9 draws and itself it is as far off as 1 at least, and as 10 at most."""
        assert sign_flip_test([[1.0] * 30], randomness.generator(0, "signs"), repetitions=9)[1] == 1 / 10
        assert sign_flip_test([[0.0] * 9], randomness.generator(0, "signs"), repetitions=9)[1] == 1.0

    def test_six_values_by_hand(self) -> None:
        """Three gains of 1/2 and three of 0: of 8 ways to sign the gains two are as far off; p = 1/4.

        Of 64 flips 4 have to be within 5 %: none and all, and the least value alone against the others, both ways. So
        the interval goes from the least value to the largest, and touches 0.
        """
        found = sign_flip_test([[0.0, 0.5, 0.0, 0.5, 0.0, 0.5]], randomness.generator(0, "six"))
        assert found == (Estimate(0.25, 0.0, 0.5), 0.25)
        above, p = sign_flip_test([[0.1, 0.5, 0.2, 0.6, 0.3, 0.4]], randomness.generator(0, "six"))
        assert (above.low, above.high, p) == pytest.approx((0.1, 0.6, 2 / 64))

    def test_seven_values_by_hand(self) -> None:
        """Of 128 flips 7 are above 5 %, so that the fourth pair counts, after that of none and all.

        The least means of subsets are 0, 1/2 (0 and 1) and 1; the largest 64, 48 (64 and 32) and 40 (64 and 16).
        """
        found, p = sign_flip_test([[0.0, 1.0, 4.0, 8.0, 16.0, 32.0, 64.0]], randomness.generator(0, "seven"))
        assert (found.low, found.high, p) == pytest.approx((1.0, 40.0, 4 / 128))

    def test_five_values_cannot_tell(self) -> None:
        found, p = sign_flip_test([[0.5] * 5], randomness.generator(0, "five"))
        assert (found.low, found.high, p) == (-math.inf, math.inf, 2 / 32)
        narrower, _ = sign_flip_test([[0.5] * 5], randomness.generator(0, "five"), confidence=0.9)
        assert (narrower.low, narrower.high) == (0.5, 0.5)

    def test_limits_of_strata_of_other_sizes_by_hand(self) -> None:
        """Weights 1/2 of the single value and 1/10 of each of the five: the least subset mean is the least value's."""
        found, p = sign_flip_test([[3.0], [1.0, 2.0, 2.0, 2.0, 2.0]], randomness.generator(0, "unequal"))
        assert found.value == pytest.approx((3.0 + 9.0 / 5) / 2)
        assert (found.low, found.high, p) == pytest.approx((1.0, 3.0, 2 / 64))

    @given(
        st.lists(st.lists(st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=9), min_size=1)
    )
    @settings(max_examples=60)
    def test_the_interval_leaves_out_0_exactly_if_p_is_below_5_percent(self, strata: Any) -> None:
        found, p = sign_flip_test(strata, randomness.generator(0, "agree"), repetitions=999)
        assert (not found.low <= 0.0 <= found.high) == (p < 0.05)
        assert found.low <= found.value + 1e-9 and found.value - 1e-9 <= found.high

    @given(st.lists(st.integers(-8, 8), min_size=1, max_size=9), st.integers(-4, 4))
    def test_the_interval_is_what_the_test_does_not_reject(self, values: list[int], shift: int) -> None:
        """Eighths are exact: the test of the values less d gives p >= 5 % exactly if d is in the interval."""
        found, _ = sign_flip_test([[value / 8 for value in values]], randomness.generator(0, "invert"))
        _, p = sign_flip_test([[(value - shift) / 8 for value in values]], randomness.generator(0, "invert"))
        assert (found.low <= shift / 8 + 1e-9 and shift / 8 - 1e-9 <= found.high) == (p >= 0.05)

    @pytest.mark.parametrize("strata", [[], [[]], [[1.0], []]])
    @pytest.mark.parametrize("made", [stratified_bootstrap, sign_flip_test])
    def test_nothing_is_refused(self, made: Any, strata: Any) -> None:
        with pytest.raises(ValueError, match="expected strata with at least one value each"):
            made(strata, randomness.generator(0, "x"))

    def test_a_confidence_is_between_0_and_1(self) -> None:
        with pytest.raises(ValueError, match="expected a confidence in"):
            stratified_bootstrap(self.STRATA, randomness.generator(0, "x"), confidence=1.0)


class TestHolm:
    def test_four_tests_by_hand(self) -> None:
        """0.005 * 4, 0.01 * 3, 0.03 * 2, and 0.04 * 1 raised to its forerunner's 0.06."""
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))

    def test_no_adjusted_p_value_is_above_1(self) -> None:
        assert holm([0.6, 0.7]) == (1.0, 1.0)

    def test_the_ends_are_p_values_too(self) -> None:
        assert holm([0.0, 1.0]) == (0.0, 1.0)

    def test_none_and_one_stay_as_they_are(self) -> None:
        assert holm([]) == ()
        assert holm([0.2]) == (0.2,)

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.1]))
    def test_it_rejects_what_the_step_down_procedure_rejects(self, p_values: list[float], level: float) -> None:
        assume(all(abs(p * m - level) > 1e-9 for p in p_values for m in range(1, 13)))
        rejected = set()
        for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
            if p_values[index] > level / (len(p_values) - rank):
                break
            rejected.add(index)
        assert {index for index, p in enumerate(holm(p_values)) if p <= level} == rejected

    @given(st.lists(st.floats(0, 1), max_size=12))
    def test_it_lies_between_the_p_value_and_bonferroni(self, p_values: list[float]) -> None:
        for p, adjusted in zip(p_values, holm(p_values), strict=True):
            assert p <= adjusted <= min(1.0, p * len(p_values))

    @pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
    def test_what_is_no_probability_is_refused(self, p: float) -> None:
        with pytest.raises(ValueError, match="expected p values in"):
            holm([0.5, p])


class TestTheExactInterval:
    """Clopper and Pearson."""

    @pytest.mark.parametrize(
        ("correct", "n", "low", "high"),
        [(0, 10, 0.0, 0.30850), (5, 10, 0.18709, 0.81291), (10, 10, 0.69150, 1.0), (1, 20, 0.00127, 0.24873)],
    )
    def test_it_has_the_limits_of_published_tables(self, correct: int, n: int, low: float, high: float) -> None:
        found = interval(correct, n, method="clopper-pearson")
        assert found.low == pytest.approx(low, abs=5e-6) and found.high == pytest.approx(high, abs=5e-6)

    def test_of_none_right_it_is_a_closed_formula(self) -> None:
        """1 - (alpha / 2)^(1 / n)."""
        for n in (1, 7, 1000):
            assert interval(0, n, method="clopper-pearson", confidence=0.9).high == pytest.approx(1 - 0.05 ** (1 / n))

    @pytest.mark.slow
    @given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
    def test_a_tail_beyond_each_limit_is_half_of_what_is_left(self, counts: Any) -> None:
        correct, n = counts
        found = interval(correct, n, method="clopper-pearson")

        def chance(numbers: Any, p: float) -> Any:
            return math.fsum(math.comb(n, each) * p**each * (1 - p) ** (n - each) for each in numbers)

        if correct:
            assert chance(range(correct, n + 1), found.low) == pytest.approx(0.025, rel=1e-6)
        if correct < n:
            assert chance(range(correct + 1), found.high) == pytest.approx(0.025, rel=1e-6)
        mirrored = interval(n - correct, n, method="clopper-pearson")
        assert mirrored.low == pytest.approx(1 - found.high) and mirrored.high == pytest.approx(1 - found.low)

    def test_a_mean_between_two_counts_takes_the_outer_limits(self) -> None:
        """1.5 of 3: the lower limit of 1, the upper one of 2."""
        found = mean_of_problems([0.5, 0.5, 0.5], method="clopper-pearson")
        one, two = (interval(count, 3, method="clopper-pearson") for count in (1, 2))
        assert (found.low, found.high) == (one.low, two.high)
        assert (
            mean_of_problems([0.1] * 10, method="clopper-pearson").low == interval(1, 10, method="clopper-pearson").low
        ), "a whole count up to rounding"

    @pytest.mark.slow
    def test_a_whole_count_is_one_though_its_share_is_rounded(self) -> None:
        """1 / 49 times 49 is a little less than 1."""
        for n in range(2, 200):
            one, all_but_one = (interval(count, n, method="clopper-pearson") for count in (1, n - 1))
            assert one.low > 0.0 and all_but_one.high < 1.0
            for count in (n // 3, n // 2, n - n // 3):
                found = interval(count, n, method="clopper-pearson")
                other = interval(n - count, n, method="clopper-pearson")
                assert found.low == pytest.approx(1 - other.high)

    def test_methods_have_names(self) -> None:
        assert interval(2, 3) == interval(2, 3, method="wilson") == wilson(2, 3)
        assert interval(0, 0, method="clopper-pearson") == wilson(0, 0)
        with pytest.raises(ValueError, match="expected one of wilson, clopper-pearson, got 'wald'"):
            interval(2, 3, method="wald")
        with pytest.raises(ValueError, match="confidence"):
            interval(2, 3, method="clopper-pearson", confidence=1.0)
