"""Keys and values of many sequences, each of which takes only the memory of its own length.

All sequences have room for the longest, so that one matrix product per sequence and head needs no copy; pages that
nothing was written to read as zeros and take no memory. Works on arrays; independent of weights and prompts.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Sequence

import numpy as np

from gce.adapters.models.local.token_sampling import Array

__all__ = ["GrowingRows"]


class GrowingRows:
    """Rows of keys and values in every block, in float32, zero where nothing was written."""

    def __init__(self, rows: int, blocks: int, kv_heads: int, room: int, head_size: int) -> None:
        """Reserve addresses for `rows` sequences of up to `room` tokens; memory is taken as tokens are written."""
        shape = rows, 2 * blocks, kv_heads, room, head_size
        self._row_bytes = 4 * math.prod(shape[1:])
        # `np.zeros` would reuse dirty memory, or take huge pages, which hold many sequences.
        self._pages = mmap.mmap(-1, max(1, rows * self._row_bytes), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # A kernel without huge pages.
                self._pages.madvise(mmap.MADV_NOHUGEPAGE)
        self._array = np.ndarray(shape, np.float32, buffer=self._pages)

    @property
    def room(self) -> int:
        """Maximum tokens of a row."""
        return self._array.shape[3]

    def keys(self, block: int) -> Array:
        """Return a view of a block's keys, (rows, kv heads, room, head size)."""
        return self._array[:, 2 * block]

    def values(self, block: int) -> Array:
        """Return a view of a block's values, in the shape of its keys."""
        return self._array[:, 2 * block + 1]

    def clear(self, row: int) -> None:
        """Give the row's memory back; what it holds from now on is finite but meaningless."""
        start, stop = row * self._row_bytes, (row + 1) * self._row_bytes
        start = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = stop // mmap.PAGESIZE * mmap.PAGESIZE
        if stop > start:
            self._pages.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def moved(self, rows: Sequence[int], lengths: Sequence[int], *, room: int) -> GrowingRows:
        """Return the first `lengths` tokens of these rows with other room; the rows here are cleared one by one."""
        _, parts, kv_heads, _, head_size = self._array.shape
        found = GrowingRows(len(rows), parts // 2, kv_heads, room, head_size)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            found._array[place, ..., :length, :] = self._array[row, ..., :length, :]
            self.clear(row)
        return found
