"""What is kept comes back to the bit, from memory and from the file behind it; what does not fit is not kept."""

from __future__ import annotations

import numpy as np
import pytest

from gce.adapters import hidden_states
from gce.adapters.hidden_states import HiddenStates


def states(number: int, rows: int = 3) -> np.ndarray:
    return np.random.Generator(np.random.Philox(number)).standard_normal((rows, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("memory", "disk", "held"),
    [(10_000, 0, 4), (0, 10_000, 4), (100, 100, 4), (96, 0, 2), (0, 96, 2), (0, 0, 0)],
)
def test_each_array_of_48_bytes_is_kept_while_there_is_room(memory, disk, held):
    """Room for 100 bytes in memory and 100 on disk takes two arrays each."""
    kept = HiddenStates(memory_bytes=memory, disk_bytes=disk)
    for number in range(4):
        kept.put((number, 7), states(number))
    for number in range(4):
        found = kept.get((number, 7))
        assert (found is not None) == (number < held)
        if found is not None:
            assert np.array_equal(found, states(number))


def test_tokens_are_told_apart():
    kept = HiddenStates()
    kept.put((1, 23), states(0))
    assert kept.get((12, 3)) is None
    assert kept.get((1, 23, 0)) is None
    assert kept.get((1,)) is None


def test_a_full_disk_keeps_what_was_kept(monkeypatch):
    kept = HiddenStates(memory_bytes=0)
    kept.put((1,), states(1))

    def full(*_):
        raise OSError(28, "No space left on device")

    file = kept._file
    monkeypatch.setattr(kept, "_file", type("Full", (), {"seek": full, "fileno": lambda _: file.fileno()})())
    kept.put((2,), states(2))
    kept.put((3,), states(3))
    assert kept.get((2,)) is None and kept.get((3,)) is None
    assert np.array_equal(kept.get((1,)), states(1))


def test_no_file_is_made_before_it_is_needed(monkeypatch):
    monkeypatch.setattr(hidden_states.tempfile, "TemporaryFile", lambda: pytest.fail("made a file"))
    HiddenStates().put((1,), states(1))


def test_the_file_is_closed_with_its_owner():
    kept = HiddenStates(memory_bytes=0)
    kept.put((1,), states(1))
    file = kept._file
    del kept
    assert file.closed
