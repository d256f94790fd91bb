"""Who gets how many rollouts: sums, floors, and the right direction."""

from __future__ import annotations

import math
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.admission import mixed, relative_variance
from gce.domain.curriculum import (
    Policy,
    TierHistory,
    TierRewards,
    expected_variance,
    needs_demonstrations,
    open_levels,
    plan,
    predicted_wave,
    remember,
    second_wave,
    tier_rewards,
)

TIERS = ("T0", "T1", "T2", "T3", "T4")


def count(problems: Any, all_right: Any, all_wrong: Any) -> TierRewards:
    """Eight rollouts of each problem, of which only whether their rewards differ is told."""
    return TierRewards(problems, float(problems - all_right - all_wrong), 8 * problems, 0.0, 8 * problems, 0.0)


def fared(right: Any, *, shown: int = 0, shown_right: int = 0) -> Any:
    """Eight rollouts of two problems."""
    return evolve(count(2, 0, 0), rollouts=8, right=right, alone=8 - shown, alone_right=right - shown_right)


COUNTS = st.tuples(*[st.integers(0, 20)] * 3).map(lambda parts: count(sum(parts), parts[0], parts[1]))
HISTORIES = st.lists(st.dictionaries(st.sampled_from([*TIERS, "T5"]), COUNTS), max_size=3)


def told(iterations: Any, **options: Any) -> Any:
    history = TierHistory()
    for counts in iterations:
        history = remember(history, counts, **options)
    return history


class TestHistory:
    def test_the_share_is_counted_and_smoothed(self) -> None:
        history = told([{"T0": count(8, 6, 1), "T1": count(8, 0, 0)}])
        assert expected_variance(history, "T0") == pytest.approx(2 / 10)
        assert expected_variance(history, "T1") == pytest.approx(9 / 10)
        assert expected_variance(history, "T2") == 0.5

    def test_older_iterations_weigh_less(self) -> None:
        """10 open problems at weight 1/2, then 10 decided ones: (5 + 1) / (15 + 2)."""
        history = told([{"T0": count(10, 0, 0)}, {"T0": count(10, 10, 0)}], decay=0.5)
        assert expected_variance(history, "T0") == pytest.approx(6 / 17)

    def test_two_iterations_by_hand(self) -> None:
        """Half of 4 problems, 1 of them decided, and of 16 rollouts; then 2 problems with 8, and a tier that is new."""
        first = TierRewards(4, 3.0, 16, 6.0, 12, 4.0)
        second = TierRewards(2, 1.0, 8, 3.0, 6, 2.0)
        assert told([{"T0": first}, {"T0": second, "T1": second}], decay=0.5) == TierHistory(
            problems={"T0": 4.0, "T1": 2.0},
            undecided={"T0": 2.5, "T1": 1.0},
            rollouts={"T0": 16.0, "T1": 8.0},
            right={"T0": 6.0, "T1": 3.0},
            alone={"T0": 12.0, "T1": 6.0},
            alone_right={"T0": 4.0, "T1": 2.0},
        )

    def test_without_options_half_is_left_after_two_iterations(self) -> None:
        history = told([{"T0": fared(4)}, {}, {}])
        assert history.right["T0"] == pytest.approx(0.49 * 4)

    def test_a_tier_not_sampled_is_slowly_forgotten(self) -> None:
        history = told([{"T0": count(10, 10, 0)}] + [{}] * 30)
        assert expected_variance(history, "T0") == pytest.approx(0.5, abs=1e-3)

    def test_memory_can_be_switched_off_and_kept_for_ever(self) -> None:
        iterations = [{"T0": count(10, 0, 0)}, {"T0": count(10, 10, 0)}]
        assert expected_variance(told(iterations, decay=0.0), "T0") == pytest.approx(1 / 12)
        assert expected_variance(told(iterations, decay=1.0), "T0") == pytest.approx(11 / 22)

    def test_the_history_given_stays_what_it_was(self) -> None:
        history = told([{"T0": count(10, 0, 0)}])
        remember(history, {"T0": count(10, 10, 0)})
        assert history == told([{"T0": count(10, 0, 0)}])

    @pytest.mark.parametrize("decay", [-0.1, 1.1, math.nan])
    def test_a_decay_is_a_share(self, decay: float) -> None:
        with pytest.raises(ValueError, match="expected a decay in"):
            remember(TierHistory(), {}, decay=decay)


class TestGradedRewards:
    """Rewards 0, 0.4, 0.9 and 1, worked out by hand; where rewards are 0 or 1, everything is a count."""

    def test_the_relative_variance_by_hand(self) -> None:
        """Of all four: mean 2.3 / 4, mean of squares 1.97 / 4; of 0 and 0.4: (0.08 - 0.04) / (0.2 - 0.04)."""
        assert relative_variance((0, 0.4, 0.9, 1)) == pytest.approx((0.4925 - 0.575**2) / (0.575 - 0.575**2))
        assert relative_variance((0, 0.4)) == pytest.approx(0.25)
        assert relative_variance((0.9, 1)) == pytest.approx(0.0025 / 0.0475)
        assert relative_variance((0.4, 0.4)) == 0.0

    @given(st.lists(st.booleans(), min_size=1, max_size=60).map(lambda found: [float(each) for each in found]))
    def test_of_zeros_and_ones_it_is_whether_they_differ_exactly(self, rewards: list[float]) -> None:
        assert relative_variance(rewards) == float(mixed(rewards))

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
    def test_it_is_a_share(self, rewards: list[float]) -> None:
        assert 0.0 <= relative_variance(rewards) <= 1.0

    def test_rewards_that_differ_in_their_last_digit_alone_divide_nothing_by_nothing(self) -> None:
        assert relative_variance((1.0, 1.0 - 2**-53)) == 0.0

    def test_a_group_without_rewards_has_none(self) -> None:
        with pytest.raises(ValueError, match="at least one reward"):
            relative_variance(())

    def test_a_tier_by_hand(self) -> None:
        """Two problems: 0 and 0.4 shown with examples, 0.9 and 1 alone."""
        found = tier_rewards([[(0.0, True), (0.4, True)], [(0.9, False), (1.0, False)]])
        assert (found.problems, found.rollouts, found.alone) == (2, 4, 2)
        assert (found.right, found.alone_right) == pytest.approx((2.3, 1.9))
        assert found.undecided == pytest.approx(0.25 + 0.0025 / 0.0475)
        assert found.mean == pytest.approx(0.575)

    def test_the_mean_reward_climbs_and_does_without_examples(self) -> None:
        """No rollout is right, and 0.4 on average: enough for the next level, and to go on alone."""
        history = told([{"T0": tier_rewards([[(0.0, False), (0.4, False), (0.8, False)]])}])
        assert open_levels(history, TIERS) == ("T0", "T1")
        assert not needs_demonstrations(history, "T0")
        low = told([{"T0": tier_rewards([[(0.0, False)] * 5 + [(0.4, False)]])}])
        assert open_levels(low, TIERS) == ("T0",)
        assert needs_demonstrations(low, "T0")

    def test_a_tier_whose_rewards_hardly_differ_gets_fewer_problems(self) -> None:
        far = [[(0.0, False), (1.0, False)]] * 10
        near = [[(0.4, False), (0.5, False)]] * 10
        shares = plan(told([{"T0": tier_rewards(near), "T1": tier_rewards(far)}]), TIERS[:2], problems=40)
        assert shares["T0"] < shares["T1"]
        assert expected_variance(told([{"T0": tier_rewards(near)}]), "T0") == pytest.approx(
            (10 * 0.0025 / 0.2475 + 1) / 12
        )


class TestPlan:
    def test_without_history_it_is_even_and_the_rest_goes_to_earlier_tiers(self) -> None:
        assert plan(TierHistory(), TIERS, problems=22) == {"T0": 5, "T1": 5, "T2": 4, "T3": 4, "T4": 4}

    def test_undecided_tiers_get_the_rest_by_hand(self) -> None:
        """Shares 0.1 and 0.9, floor 0.25 * 20 / 2 = 2.5, so 3 each; 14 left: 1.4 and 12.6."""
        history = told([{"T0": count(8, 8, 0), "T1": count(8, 0, 0)}])
        assert plan(history, ("T0", "T1"), problems=20) == {"T0": 4, "T1": 16}

    def test_uniform_is_even_whatever_the_history(self) -> None:
        history = told([{"T0": count(8, 8, 0), "T1": count(8, 0, 0)}])
        assert plan(history, ("T0", "T1"), problems=21, policy="uniform") == {"T0": 11, "T1": 10}

    def test_as_many_problems_as_tiers_are_one_each(self) -> None:
        history = told([{"T0": count(8, 8, 0), "T1": count(8, 0, 0)}])
        assert plan(history, TIERS, problems=5) == dict.fromkeys(TIERS, 1)

    def test_there_may_be_hundreds_of_tiers(self) -> None:
        names = [f"T{index}" for index in range(300)]
        assert plan(TierHistory(), names, problems=300) == dict.fromkeys(names, 1)

    def test_a_floor_that_is_whole_is_not_rounded_up(self) -> None:
        """0.07 * 200 / 2 is 7, and a little more in floating point."""
        history = told([{"T0": count(10_000, 10_000, 0), "T1": count(10_000, 0, 0)}])
        assert plan(history, ("T0", "T1"), problems=200, floor=0.07) == {"T0": 7, "T1": 193}

    def test_what_is_left_goes_to_the_largest_remainders(self) -> None:
        """One each; 3 left by shares 1/10, 6/10 and 6/10 of 13/10: 0.23, 1.38 and 1.38, a tie for the earlier one."""
        history = told([{"T0": count(8, 8, 0), "T1": count(8, 0, 3), "T2": count(8, 3, 0)}])
        assert plan(history, ("T0", "T1", "T2"), problems=6, floor=0.0) == {"T0": 1, "T1": 3, "T2": 2}

    def test_always_right_and_always_wrong_count_the_same(self) -> None:
        history = told([{"T0": count(8, 8, 0), "T1": count(8, 0, 8)}])
        assert plan(history, ("T0", "T1"), problems=20) == {"T0": 10, "T1": 10}

    def test_the_floor_by_hand_for_a_tier_that_teaches_nothing(self) -> None:
        """An even share of 20 for two tiers is 10; a quarter of it 2.5, rounded up."""
        history = told([{"T0": count(10_000, 10_000, 0), "T1": count(10_000, 0, 0)}])
        assert plan(history, ("T0", "T1"), problems=20) == {"T0": 3, "T1": 17}
        assert plan(history, ("T0", "T1"), problems=20, floor=0.0) == {"T0": 1, "T1": 19}
        assert plan(history, ("T0", "T1"), problems=21, floor=1.0) == {"T0": 10, "T1": 11}

    @given(HISTORIES, st.lists(st.sampled_from(TIERS), min_size=1, unique=True), st.data())
    def test_it_adds_up_and_keeps_the_floor(self, iterations: Any, tiers: list[Any], data: st.DataObject) -> None:
        problems = data.draw(st.integers(len(tiers), 300))
        floor = data.draw(st.floats(0, 1))
        policy: Policy = data.draw(st.sampled_from(["adaptive", "uniform"]))
        planned = plan(told(iterations), tiers, problems=problems, policy=policy, floor=floor)
        assert list(planned) == tiers
        assert sum(planned.values()) == problems
        even = problems // len(tiers)
        assert all(share >= max(1, min(even, floor * problems / len(tiers) - 1e-9)) for share in planned.values())

    @given(HISTORIES, st.integers(5, 300))
    def test_a_tier_with_more_undecided_problems_never_gets_less(self, iterations: Any, problems: int) -> None:
        history = told(iterations)
        planned = plan(history, TIERS, problems=problems)
        for tier in TIERS:
            for other in TIERS:
                if expected_variance(history, tier) > expected_variance(history, other):
                    assert planned[tier] >= planned[other]

    @given(HISTORIES, st.integers(5, 300))
    def test_uniform_does_not_look_at_the_history(self, iterations: Any, problems: int) -> None:
        planned = plan(told(iterations), TIERS, problems=problems, policy="uniform")
        assert planned == plan(TierHistory(), TIERS, problems=problems, policy="uniform")
        assert max(planned.values()) - min(planned.values()) <= 1

    @given(HISTORIES, st.integers(5, 300))
    def test_tiers_that_are_not_asked_for_do_not_matter(self, iterations: Any, problems: int) -> None:
        without = [{tier: counts for tier, counts in one.items() if tier != "T5"} for one in iterations]
        planned = plan(told(iterations), TIERS, problems=problems)
        assert planned == plan(told(without), TIERS, problems=problems)
        assert "T5" not in planned

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"tiers": ()}, "expected training tiers, each once"),
            ({"tiers": ("T0", "T0")}, "expected training tiers, each once"),
            ({"problems": 4}, "expected at least one problem for each of 5 tiers, got 4"),
            ({"floor": 1.5}, "expected a floor in"),
            ({"floor": -0.5}, "expected a floor in"),
            ({"floor": math.nan}, "expected a floor in"),
            ({"policy": "greedy"}, "expected policy adaptive or uniform, got 'greedy'"),
        ],
    )
    def test_what_cannot_be_planned_is_refused(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            plan(TierHistory(), **{"tiers": TIERS, "problems": 20, **arguments})


GROUPS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=2), st.lists(st.booleans(), min_size=1, max_size=8).map(tuple), max_size=10
)


def test_a_predicted_wave_follows_the_predicted_variance() -> None:
    """p (1 - p) of 0.25, 0.09 and 0 share 34 rollouts as 25, 9 and 0; a prediction is the mean of the answers'."""
    predicted = {"even": (0.4, 0.6), "easy": (0.9,), "solved": (1.0, 1.0)}
    assert predicted_wave(predicted, 34) == {"even": 25, "easy": 9}
    assert predicted_wave({"solved": (1.0,)}, 34) == {} == predicted_wave(predicted, 0)
    with pytest.raises(ValueError, match="from 0, got -1"):
        predicted_wave(predicted, -1)
    with pytest.raises(ValueError, match="prediction for problem 'a', got none"):
        predicted_wave({"a": ()}, 1)


class TestSecondWave:
    def test_undecided_first_then_all_wrong_never_all_right(self) -> None:
        groups = {"easy": (True,) * 4, "hard": (False,) * 4, "open": (True, False, False, True)}
        assert second_wave(groups, 3) == {"open": 3}
        assert second_wave(groups, 6) == {"open": 4, "hard": 2}
        assert second_wave(groups, 100) == {"open": 4, "hard": 4}
        assert second_wave({"easy": (True,) * 4}, 5) == {}

    def test_rollouts_go_round_and_rarely_right_problems_come_first(self) -> None:
        groups = {"often": (True, True, False), "rare": (True, False, False), "rare too": (False, True, False)}
        assert second_wave(groups, 4) == {"rare": 2, "rare too": 1, "often": 1}

    def test_rewards_that_differ_most_come_first(self) -> None:
        """Relative variances 0.25, 0.0625 / 0.2275 = 0.27 and 0.05; then what is 0.4 throughout, and 0.9 throughout
        only where that is not enough."""
        groups = {"top": (0.9, 1), "low": (0, 0.4), "half": (0.4, 0.9), "same": (0.4, 0.4), "good": (0.9, 0.9)}
        assert list(second_wave(groups, 3)) == ["half", "low", "top"]
        assert list(second_wave(groups, 10)) == ["half", "low", "top", "same", "good"]
        assert list(second_wave(groups, 10, admit_at=0.9)) == ["half", "low", "top", "same"]

    def test_of_equal_variance_the_lowest_mean_comes_first(self) -> None:
        """0 and 1 in any mixture have the largest variance that their mean allows."""
        groups = {"often": (1, 1, 0), "graded": (0, 0.9), "rare": (0, 0, 1)}
        assert list(second_wave(groups, 3)) == ["rare", "often", "graded"]

    def test_rollouts_that_find_no_place_go_on_to_the_next_kind(self) -> None:
        groups = {"hard": (False,) * 4, "open": (True, False)}
        assert second_wave(groups, 5) == {"open": 2, "hard": 3}
        assert second_wave(groups, 0) == {}

    def test_hundreds_find_a_place(self) -> None:
        assert second_wave({"hard": (False,) * 300}, 400) == {"hard": 300}

    @pytest.mark.slow
    @given(GROUPS, st.integers(0, 100))
    def test_all_rollouts_are_given_while_there_is_room(self, groups: Any, rollouts: int) -> None:
        extra = second_wave(groups, rollouts)
        room = {problem: len(verdicts) for problem, verdicts in groups.items() if not all(verdicts)}
        assert sum(extra.values()) == min(rollouts, sum(room.values()))
        assert all(0 < given <= room[problem] for problem, given in extra.items())

    @given(GROUPS, st.integers(0, 100))
    def test_no_all_wrong_problem_is_served_while_an_undecided_one_has_room(self, groups: Any, rollouts: int) -> None:
        extra = second_wave(groups, rollouts)
        undecided = [problem for problem, verdicts in groups.items() if any(verdicts) and not all(verdicts)]
        if any(not any(groups[problem]) for problem in extra):
            assert all(extra[problem] == len(groups[problem]) for problem in undecided)

    @given(GROUPS, st.integers(0, 100))
    def test_inside_a_kind_nobody_is_two_ahead_of_one_with_room(self, groups: Any, rollouts: int) -> None:
        extra = second_wave(groups, rollouts)
        for kind in (True, False):
            served = [p for p, verdicts in groups.items() if any(verdicts) is kind and not all(verdicts)]
            most = max((extra.get(problem, 0) for problem in served), default=0)
            assert all(extra.get(problem, 0) >= min(most - 1, len(groups[problem])) for problem in served)

    def test_what_makes_no_sense_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one verdict for problem 'a'"):
            second_wave({"a": ()}, 3)
        with pytest.raises(ValueError, match="expected rollouts from 0, got -1"):
            second_wave({}, -1)


class TestWeakModels:
    def test_a_ladder_is_climbed_tier_by_tier(self) -> None:
        """One of eight is more than a tenth; nothing known is nothing right."""
        assert open_levels(TierHistory(), TIERS) == ("T0",)
        history = told([{"T0": fared(1), "T1": fared(0), "T2": fared(8)}])
        assert open_levels(history, TIERS) == ("T0", "T1")
        assert open_levels(told([{tier: fared(1) for tier in TIERS}]), TIERS) == TIERS

    def test_a_tenth_of_the_rollouts_is_enough_to_climb(self) -> None:
        """One of ten climbs, one of eleven does not; where nothing is said to be right, nothing was."""
        assert open_levels(TierHistory(rollouts={"T0": 10.0}, right={"T0": 1.0}), TIERS) == ("T0", "T1")
        assert open_levels(TierHistory(rollouts={"T0": 11.0}, right={"T0": 1.0}), TIERS) == ("T0",)
        assert open_levels(TierHistory(rollouts={"T0": 8.0}), TIERS) == ("T0",)

    def test_a_tier_that_no_longer_holds_closes_those_above_it(self) -> None:
        assert open_levels(told([{"T0": fared(1)}, {"T0": fared(0)}]), TIERS) == ("T0",)

    def test_examples_are_needed_until_a_fifth_is_right_without_them(self) -> None:
        assert needs_demonstrations(TierHistory(), "T0")
        assert needs_demonstrations(told([{"T0": fared(7, shown=6, shown_right=6)}] * 1), "T0") is False
        assert needs_demonstrations(told([{"T0": fared(6, shown=6, shown_right=6)}]), "T0")
        assert needs_demonstrations(told([{"T0": fared(8, shown=8, shown_right=8)}]), "T0"), "none was alone"

    def test_a_fifth_of_the_rollouts_is_enough_to_do_without_examples(self) -> None:
        """Two of ten is, two of eleven is not; where nothing is said to be right, nothing was."""
        assert not needs_demonstrations(TierHistory(alone={"T0": 10.0}, alone_right={"T0": 2.0}), "T0")
        assert needs_demonstrations(TierHistory(alone={"T0": 11.0}, alone_right={"T0": 2.0}), "T0")
        assert needs_demonstrations(TierHistory(alone={"T0": 1.0}), "T0")

    @given(HISTORIES)
    def test_what_is_climbed_is_a_beginning_and_never_empty(self, iterations: Any) -> None:
        found = open_levels(told(iterations), TIERS)
        assert found and found == TIERS[: len(found)]
