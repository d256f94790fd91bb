"""Weights of rollouts, by hand and by what the methods promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.algorithms import (
    ALGORITHMS,
    centered,
    drop_decided,
    group_relative,
    leave_one_out,
    rejection,
    signed,
    truncated_ratios,
    weighted,
)

REWARDS = st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), max_size=12)
METHODS = [
    rejection,
    weighted,
    signed,
    group_relative,
    centered,
    leave_one_out,
    lambda rewards: drop_decided({"p": rewards}),
]


def test_rejection_keeps_the_right_ones_alone() -> None:
    assert rejection([1.0, 0.0, 0.99, True, False]) == (1.0, 0.0, 0.0, 1.0, 0.0)


def test_weighted_pushes_away_from_wrong_ones() -> None:
    assert weighted([1.0, 0.0, 0.5]) == (1.0, -0.1, -0.1)
    assert weighted([1.0, 0.0], positive=0.1, negative=-1.0) == (0.1, -1.0)


def test_signed_weighs_right_and_wrong_ones_alike() -> None:
    assert signed([1.0, 0.0, 0.99]) == (1.0, -1.0, -1.0)


def test_each_algorithm_weighs_and_drops_as_its_paper_says() -> None:
    """Of a right and a wrong rollout; what learns from the replay buffer alone weighs nothing here."""
    weights = {name: algorithm.weigh([1.0, 0.0]) for name, algorithm in ALGORITHMS.items() if algorithm.weigh}
    assert weights == {
        "raft++": (1.0, 0.0),
        "grpo": pytest.approx((1.0, -1.0), abs=1e-5),
        "reinforce-rej": (1.0, -1.0),
        "rloo": (1.0, -1.0),
        "dr-grpo": (0.5, -0.5),
        "dapo": pytest.approx((1.0, -1.0), abs=1e-5),
        "gspo": pytest.approx((1.0, -1.0), abs=1e-5),
    }
    assert ALGORITHMS.keys() - weights == {"raft", "sft-top", "weighted"}
    assert [name for name, algorithm in ALGORITHMS.items() if algorithm.drops_decided] == ["reinforce-rej", "dapo"]
    assert [name for name, algorithm in ALGORITHMS.items() if algorithm.opposes] == ["weighted"]
    losses = {name: (each.ratio, each.normalization, each.clip) for name, each in ALGORITHMS.items()}
    plain = ("token", "token", (0.2, 0.2))
    assert {name: loss for name, loss in losses.items() if loss != plain} == {
        "rloo": ("product", "sequence", (0.2, 0.2)),
        "dr-grpo": ("token", "constant", (0.2, 0.2)),
        "dapo": ("token", "token", (0.2, 0.28)),
        "gspo": ("sequence", "sequence", (3e-4, 4e-4)),
    }


def test_centered_rewards_and_those_of_the_others_by_hand() -> None:
    """Mean 1/4; the others' mean is 0 for the right one and 1/3 for each wrong one."""
    assert centered([1, 0, 0, 0]) == (0.75, -0.25, -0.25, -0.25)
    assert leave_one_out([1, 0, 0, 0]) == pytest.approx((1.0, -1 / 3, -1 / 3, -1 / 3))
    assert leave_one_out([0.5, 1.0]) == (-0.5, 0.5)
    assert leave_one_out([1.0]) == leave_one_out([0.4]) == (0.0,), "alone there is no baseline"
    assert centered([]) == leave_one_out([]) == ()


@given(REWARDS)
def test_a_leave_one_out_weight_is_the_reward_less_the_mean_of_the_others(rewards: Any) -> None:
    for place, weight in enumerate(leave_one_out(rewards)):
        others = [*rewards[:place], *rewards[place + 1 :]]
        assert weight == pytest.approx(rewards[place] - sum(others) / len(others) if others else 0.0, abs=1e-9)


def test_importance_ratios_are_truncated_by_hand() -> None:
    """0.5 / 0.25 = 2, 0.5 / 0.1 = 5 and 0.2 / 0.4 = 0.5, at most 3; what overflows is cut, too."""
    policy, sampler = [math.log(p) for p in (0.5, 0.5, 0.2)], [math.log(q) for q in (0.25, 0.1, 0.4)]
    assert truncated_ratios(policy, sampler, cap=3.0) == pytest.approx((2.0, 3.0, 0.5))
    assert truncated_ratios([0.0], [-1e4], cap=2.0) == pytest.approx((2.0,))
    with pytest.raises(ValueError, match="expected a cap above 0, got 0"):
        truncated_ratios([0.0], [0.0], cap=0)
    with pytest.raises(ValueError, match="zip"):
        truncated_ratios([0.0], [], cap=1.0)


def test_partly_right_rollouts_by_hand() -> None:
    """Mean 1/2, standard deviation sqrt(1/8)."""
    assert group_relative([1.0, 0.5, 0.0, 0.5], eps=0.0) == pytest.approx((math.sqrt(2), 0.0, -math.sqrt(2), 0.0))


def test_without_options_eps_is_a_millionth() -> None:
    assert group_relative([1, 0]) == pytest.approx((0.5 / 0.500001, -0.5 / 0.500001), rel=1e-9)


def test_one_right_of_four_by_hand() -> None:
    """Mean 1/4, standard deviation sqrt(3)/4: sqrt(3) for the right one, -1/sqrt(3) for the others."""
    weights = group_relative([1, 0, 0, 0], eps=0.0)
    assert weights == pytest.approx((math.sqrt(3),) + (-1 / math.sqrt(3),) * 3)


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_group_that_agrees_weighs_nothing_even_without_eps(size: int) -> None:
    """Though its standard deviation is 0."""
    assert group_relative([0.7] * size, eps=0.0) == (0.0,) * size


def test_eps_bounds_the_weights_of_groups_that_hardly_differ() -> None:
    assert group_relative([0.5, 0.5 + 1e-9], eps=1e-3)[1] < 1e-6
    assert group_relative([1, 0], eps=0.5) == pytest.approx((0.5, -0.5))


@given(REWARDS)
def test_group_relative_weights_add_up_to_nothing_and_follow_the_rewards(rewards: Any) -> None:
    weights = group_relative(rewards)
    assert len(weights) == len(rewards)
    assert sum(weights) == pytest.approx(0.0, abs=1e-6)
    for one, its in zip(rewards, weights, strict=True):
        assert all(weight <= its for reward, weight in zip(rewards, weights, strict=True) if reward <= one)


@given(st.floats(0, 1), st.integers(0, 8))
def test_a_group_that_agrees_weighs_exactly_nothing(reward: float, size: int) -> None:
    assert group_relative([reward] * size) == (0.0,) * size


@pytest.mark.slow
@given(st.lists(st.booleans(), min_size=2, max_size=12))
def test_group_relative_weights_of_verdicts_have_unit_spread(verdicts: list[bool]) -> None:
    if len(set(verdicts)) == 2:
        weights = group_relative(verdicts, eps=0.0)
        assert math.fsum(weight**2 for weight in weights) / len(weights) == pytest.approx(1.0)


def test_decided_groups_are_dropped() -> None:
    groups: dict[str, list[float]] = {"easy": [1, 1], "open": [1, 0], "hard": [0, 0], "partly": [0.5, 0.5], "none": []}
    assert drop_decided(groups) == {"open": (1, 0)}
    assert "none" not in drop_decided(groups, all_right=False, all_wrong=False)
    assert list(drop_decided(groups, all_right=False)) == ["easy", "open"]
    assert list(drop_decided(groups, all_wrong=False)) == ["open", "hard", "partly"]


def test_a_group_is_decided_where_its_rewards_are_the_same() -> None:
    """Right from 0.9 on: of equal rewards 0.4 are all wrong, 0.9 all right; 0.9 beside 1 is neither."""
    groups: dict[str, list[float]] = {"low": [0.4, 0.4], "high": [0.9, 0.9], "best": [0.9, 1], "open": [0, 0.4]}
    assert drop_decided(groups, admit_at=0.9) == {"best": (0.9, 1), "open": (0, 0.4)}
    assert list(drop_decided(groups, admit_at=0.9, all_right=False)) == ["high", "best", "open"]
    assert list(drop_decided(groups, admit_at=0.9, all_wrong=False)) == ["low", "best", "open"]


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), st.lists(st.booleans(), max_size=6), max_size=6))
def test_what_is_left_has_right_and_wrong_rollouts(groups: Any) -> None:
    kept = drop_decided(groups)
    assert kept == {name: tuple(group) for name, group in groups.items() if any(group) and not all(group)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reward", [-0.1, 1.5, math.nan, math.inf])
def test_a_reward_is_a_score(method: Callable[..., Any], reward: float) -> None:
    with pytest.raises(ValueError, match=r"expected rewards in \[0, 1\], got"):
        method([1.0, reward])


def test_a_negative_eps_is_refused() -> None:
    with pytest.raises(ValueError, match="expected eps from 0"):
        group_relative([1, 0], eps=-1.0)
