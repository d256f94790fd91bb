"""Rows of keys and values: moved rows hold what was written, and a large buffer takes memory only for that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.adapters.models.backends.numpy import row_buffer
from gce.adapters.models.backends.numpy.row_buffer import RowBuffer

MIB = 2**20
on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=5, unique_by=lambda pair: pair[0]),
    st.integers(0, 3),
)
def test_moved_rows_hold_what_was_written_and_zeros_after_it(kept: list[tuple[int, int]], more: int) -> None:
    buffer = RowBuffer(6, 2, 7, 3)
    buffer.array[:] = np.arange(6 * 2 * 7 * 3).reshape(6, 2, 7, 3)
    rows, lengths = [row for row, _ in kept], [length for _, length in kept]
    moved = buffer.moved(rows, lengths, room=7 + more).array
    assert moved.shape == (len(kept), 2, 7 + more, 3)
    for place, (row, length) in enumerate(kept):
        assert np.array_equal(moved[place, :, :length], buffer.array[row, :, :length])
        assert not moved[place, :, length:].any()


@pytest.mark.parametrize("room", [7, 256])
@pytest.mark.parametrize("most", [0, 2**40])
def test_clearing_a_row_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch, room: int, most: int) -> None:
    """Rows of 7 places do not end at pages; rows of 256 do."""
    monkeypatch.setattr(row_buffer, "_HUGE_PAGES", most)
    buffer = RowBuffer(40, 4, room, 32)
    buffer.array[:] = 1
    buffer.clear(1)
    assert (buffer.array[0] == 1).all() and (buffer.array[2:] == 1).all()
    assert np.isin(buffer.array[1], (0, 1)).all()


def test_a_buffer_may_have_no_room() -> None:
    """The prompts are one token each, which is the input of the first step."""
    buffer = RowBuffer(2, 4, 0, 32)
    buffer.clear(1)
    assert buffer.array.shape == (2, 4, 0, 32)


def resident_after(action: Callable[[], object]) -> int:
    """Return the bytes of memory that the action adds while its result lives."""

    def anonymous() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("RssAnon:")).split()[1])

    before = anonymous()
    held = action()
    return anonymous() - before if held is not None else 0


@on_linux
def test_a_large_buffer_takes_the_memory_of_what_is_written_and_gives_it_back() -> None:
    """64 rows with room for 1,280 tokens come to 40 MiB; one row of 512 tokens takes 4 x 512 x 32 x 4 bytes of it."""
    buffer = RowBuffer(64, 4, 1280, 32)

    def written() -> RowBuffer:
        buffer.array[:, :, :1024].sum()  # Reading takes nothing.
        buffer.array[3, :, :512] = 1
        return buffer

    assert resident_after(written) <= MIB < buffer.array.nbytes == 40 * MIB

    def full() -> RowBuffer:
        buffer.array[:] = 1
        for row in range(63):
            buffer.clear(row)
        return buffer

    assert resident_after(full) <= 2 * MIB


WITHOUT_TORCH = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torch" else find(name, package)
from gce.adapters.system.process import peak_bytes
from gce.app.cli import main
status = main(sys.argv[1:])
print(peak_bytes(), file=sys.stderr)
sys.exit(status)
"""
"""What a fresh install with the extra `train` takes: where torch is installed, transformers imports it."""


@on_linux
@pytest.mark.slow
def test_the_longest_answers_of_a_default_run_stay_within_its_memory() -> None:
    """Sixteen jobs and up to 1,280 tokens an answer, 40 problems a tier: the largest of the tests of `gce train`."""
    pytest.importorskip("mlx_lm")
    arguments = ("evaluate", "--preset", "sixteen", "--n", "40", "--threads", "2")
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) <= 1229 * MIB
