"""Which rollouts of a group are positives: by reward, or the best share; worked by hand with rewards 0, 0.4, 0.9, 1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.admission import mixed, positives

GROUP = (0.0, 0.4, 0.9, 1.0)
GROUPS = st.lists(st.sampled_from(GROUP), max_size=9)


@pytest.mark.parametrize(
    ("admit_at", "found"),
    [(1.0, (False, False, False, True)), (0.9, (False, False, True, True)), (0.4, (False, True, True, True))],
)
def test_a_positive_has_at_least_the_reward_that_the_task_asks_for(
    admit_at: float, found: tuple[bool, bool, bool, bool]
) -> None:
    assert positives(GROUP, admit_at) == found


@pytest.mark.parametrize(
    ("top", "found"),
    [
        (0.25, (False, False, False, True)),
        (0.5, (False, False, True, True)),
        (0.74, (False, False, True, True)),
        (0.75, (False, True, True, True)),
        (1.0, (False, True, True, True)),
        (0.01, (False, False, False, True)),
    ],
)
def test_the_best_share_is_at_least_one_and_never_reward_0(top: float, found: tuple[bool, bool, bool, bool]) -> None:
    assert positives(GROUP, top=top) == found


def test_of_equal_rewards_the_earlier_ones_are_positives() -> None:
    assert positives((0.4, 0.9, 0.4, 0.9, 0.9), top=0.4) == (False, True, False, True, False)
    assert positives((0.4, 0.4), top=0.5) == (True, False)


def test_ranks_decide_among_equal_rewards_alone() -> None:
    assert positives((0.4, 0.9, 0.4, 0.9, 0.9), top=0.4, ranks=(0, 5, 1, 3, 4)) == (False, False, False, True, True)
    assert positives((0.4, 0.5), top=0.5, ranks=(0, 1)) == (False, True)


def test_where_all_is_wrong_nothing_is_a_positive() -> None:
    assert positives((0.0, 0.0), top=1.0) == (False, False)
    assert positives((), top=0.5) == positives(()) == ()


@pytest.mark.parametrize("top", [0.0, -0.5, 1.5, float("nan")])
def test_a_share_is_above_0_and_at_most_1(top: float) -> None:
    with pytest.raises(ValueError, match="expected a share in"):
        positives(GROUP, top=top)


@pytest.mark.slow
@given(GROUPS, st.floats(0.01, 1.0))
def test_no_rollout_is_passed_over_for_a_worse_one(rewards: Any, top: float) -> None:
    found = positives(rewards, top=top)
    taken = [reward for reward, positive in zip(rewards, found, strict=True) if positive]
    left = [reward for reward, positive in zip(rewards, found, strict=True) if not positive]
    assert min(taken, default=1.0) >= max(left, default=0.0) or not taken
    assert bool(taken) == any(rewards)


@pytest.mark.parametrize(
    ("rewards", "found"), [((), False), ((0.4,), False), ((0.4, 0.4), False), ((0.4, 0.9), True), ((0, 1), True)]
)
def test_an_outcome_is_mixed_where_rewards_differ(rewards: Any, found: bool) -> None:
    assert mixed(rewards) is found


@given(st.lists(st.booleans(), max_size=9))
def test_of_right_and_wrong_ones_alone_it_is_what_it_always_was(rewards: list[bool]) -> None:
    assert mixed(rewards) == (any(rewards) and not all(rewards))
    assert positives(rewards) == tuple(rewards)
