"""The budget governor: rollouts that can teach nothing are not drawn, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from setting_fields import with_fields
from test_loop import SMALL, Listening, a_run, add, finish, number_of

from gce.app.settings.checks import check_variants
from gce.domain.algorithms import ALGORITHMS
from gce.domain.governor import rounds, worth_more
from gce.errors import SettingError

RAFT, GRPO, RAFT_PLUS = (ALGORITHMS[name] for name in ("raft", "grpo", "raft++"))


@pytest.mark.parametrize(
    ("samples", "expected"), [(1, (1,)), (2, (1, 1)), (3, (2, 1)), (5, (3, 2)), (8, (4, 2, 2)), (9, (5, 3, 1))]
)
def test_rounds_are_one_half_and_then_quarters(samples: int, expected: tuple[int, ...]) -> None:
    assert rounds(samples, "adaptive") == expected
    assert rounds(samples, "fixed") == (samples,)


@given(st.integers(1, 10_000))
def test_rounds_add_up_and_hold_no_empty_one(samples: int) -> None:
    found = rounds(samples, "adaptive")
    assert sum(found) == samples and min(found) > 0 and len(found) <= 3


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one rollout per problem, got 0"):
        rounds(0, "fixed")
    with pytest.raises(ValueError, match="governor fixed or adaptive, got 'thrifty'"):
        rounds(4, "thrifty")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rewards", "right", "algorithm", "options", "expected"),
    [
        ((0.0,) * 4, "", RAFT, {}, True),
        ((1.0, 0.0, 0.0, 0.0), "a", RAFT, {}, True),
        ((1.0, 1.0, 0.0, 0.0), "aa", RAFT, {}, False),
        ((1.0, 1.0, 1.0, 0.0), "aab", RAFT, {}, True),
        ((1.0,) * 4, "aabb", RAFT, {}, False),
        ((1.0,) * 4, "abcd", RAFT, {}, False),
        ((1.0,) * 4, "abcd", RAFT, {"per_problem": None}, True),
        ((1.0,) * 4, "aaaa", RAFT, {"deduplicate": False}, False),
        ((1.0,) * 4, "aaaa", RAFT, {"deduplicate": False, "per_problem": 5}, True),
        ((1.0,) * 4, "aaaa", RAFT, {"deduplicate": False, "per_problem": None}, True),
        ((0.0,) * 4, "", GRPO, {}, False),
        ((1.0,) * 4, "abcd", GRPO, {}, False),
        ((1.0, 0.0), "a", GRPO, {}, True),
        ((0.2, 0.3), "", GRPO, {}, True),
        ((), "", GRPO, {}, True),
        ((1.0,), "a", GRPO, {}, True),
        ((1.0,) * 4, "aaaa", RAFT_PLUS, {}, True),
    ],
)
def test_when_a_rollout_can_still_teach(
    rewards: Any, right: str, algorithm: Any, options: dict[str, Any], expected: bool
) -> None:
    """A full place in the buffer, right answers that were all seen again, or a group without a mixed outcome end it;
    a single rollout is no such group, and RAFT++ learns from equal rewards too."""
    assert worth_more(rewards, [*right], algorithm, **{"per_problem": 4, **options}) is expected


def half_right(request: Any) -> str:
    """T0 is always right, each time in other words; T1 is right in one of two rollouts."""
    known = "/T0/" in request.key or number_of(request) % 2
    return f"{'so ' * number_of(request)}w{add(request)}" if known else "no idea"


def test_a_full_place_in_the_buffer_saves_rollouts_and_the_buffer_is_the_same() -> None:
    """Eight rollouts, two kept: T0 has them after the first four, T1 too, as two of four are right."""
    config = with_fields(SMALL, problems=4, samples=8, per_problem=2, iterations=1)
    fixed = finish(a_run(config, Listening(half_right)))
    model = Listening(half_right)
    found = finish(a_run(with_fields(config, governor="adaptive"), model))
    assert {tier: count.rollouts for tier, count in found.records[0].tiers.items()} == {"T0": 8, "T1": 8}
    assert found.records[0].saved == 16 and len(model.asked) == 16
    assert list(found.state.buffer) == list(fixed.state.buffer)


def test_an_answer_that_was_only_ever_seen_again_ends_a_problem() -> None:
    """T0 says the same each time: one trace, and the first four rollouts tell."""
    config = with_fields(SMALL, problems=2, samples=8, iterations=1)
    fixed = finish(a_run(config, Listening(lambda request: f"w{add(request)}")))
    found = finish(a_run(with_fields(config, governor="adaptive"), Listening(lambda request: f"w{add(request)}")))
    assert {tier: count.rollouts for tier, count in found.records[0].tiers.items()} == {"T0": 4, "T1": 4}
    assert list(found.state.buffer) == list(fixed.state.buffer)


def test_a_problem_that_lacks_right_answers_gets_all_its_rollouts() -> None:
    config = with_fields(SMALL, problems=2, samples=8, per_problem=4, iterations=1, governor="adaptive")
    found = finish(a_run(config, Listening(half_right)))
    assert {tier: count.rollouts for tier, count in found.records[0].tiers.items()} == {"T0": 4, "T1": 8}


def test_a_fixed_governor_saves_nothing() -> None:
    assert finish(a_run(SMALL, Listening(half_right))).records[0].saved == 0


@pytest.mark.parametrize("change", [{"drop_solved": True}, {"algorithm": "sft-top"}, {"admission": "top:0.5"}], ids=str)
def test_positives_that_are_chosen_among_all_rollouts_need_all_of_them(change: dict[str, Any]) -> None:
    config = with_fields(SMALL, governor="adaptive", **change)
    with pytest.raises(SettingError, match="chosen among all of them"):
        check_variants(config, ALGORITHMS[config.objective.algorithm])
