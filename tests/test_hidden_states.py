"""What is kept comes back; what nobody has asked for longest makes room."""

from __future__ import annotations

import numpy as np
import pytest
from present import present

from gce.adapters.models.local.hidden_state_cache import HiddenStates


def states(number: int, rows: int = 3) -> np.ndarray:
    """48 bytes, unless more rows are asked for."""
    return np.full((rows, 4), number, np.float32)


def held(kept: HiddenStates) -> list[int]:
    return [number for number in range(6) if kept.get((number, 7)) is not None]


@pytest.mark.parametrize(("room", "expected"), [(10_000, [0, 1, 2, 3]), (100, [2, 3]), (48, [3]), (47, []), (0, [])])
def test_the_latest_arrays_are_kept_while_there_is_room(room: int, expected: list[int]) -> None:
    kept = HiddenStates(most_bytes=room)
    for number in range(4):
        kept.put((number, 7), states(number))
    assert held(kept) == expected
    assert all(np.array_equal(present(kept.get((number, 7))), states(number)) for number in expected)


def test_what_was_asked_for_stays_longer() -> None:
    kept = HiddenStates(most_bytes=100)
    kept.put((0, 7), states(0))
    kept.put((1, 7), states(1))
    kept.get((0, 7))
    kept.put((2, 7), states(2))
    assert held(kept) == [0, 2]


def test_an_array_larger_than_all_room_leaves_room_for_the_next() -> None:
    kept = HiddenStates(most_bytes=100)
    kept.put((0, 7), states(0, rows=10))
    assert held(kept) == []
    kept.put((1, 7), states(1))
    kept.put((2, 7), states(2))
    assert held(kept) == [1, 2]


def test_tokens_are_told_apart() -> None:
    kept = HiddenStates()
    kept.put((1, 23), states(0))
    assert kept.get((12, 3)) is None
    assert kept.get((1, 23, 0)) is None
    assert kept.get((1,)) is None
