"""An array of rows that grow at different speeds, of which a large one takes memory only where it was written.

All rows have room for the longest, so that matrix products read them in place. Works on arrays; independent of what
they hold.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Sequence

import numpy as np

from gce.adapters.models.local.token_sampling import Array

__all__ = ["RowBuffer"]

_HUGE_PAGES = 16 * 2**20
"""Maximum bytes of a buffer in huge pages, which are read faster, but each holds parts of many rows."""


class RowBuffer:
    """Float32 of shape (rows, heads, room, size); finite everywhere, and zero where nothing was written."""

    def __init__(self, rows: int, heads: int, room: int, size: int) -> None:
        shape = rows, heads, room, size
        length = 4 * math.prod(shape)
        # Not on the heap, which would hand out dirty memory and keep what is freed.
        self._pages = mmap.mmap(-1, max(1, length), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._sparse = length > _HUGE_PAGES
        advice = "MADV_NOHUGEPAGE" if self._sparse else "MADV_HUGEPAGE"
        with contextlib.suppress(OSError, AttributeError):  # A system without huge pages.
            self._pages.madvise(getattr(mmap, advice))
        self.array: Array = np.ndarray(shape, np.float32, buffer=self._pages)

    def clear(self, row: int) -> None:
        """Give back the row's memory if the buffer is large. What the row holds is meaningless from now on."""
        if not self._sparse:
            return
        length = self.array[row].nbytes
        start = -(-row * length // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = (row + 1) * length // mmap.PAGESIZE * mmap.PAGESIZE
        if stop > start:
            self._pages.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def moved(self, rows: Sequence[int], lengths: Sequence[int], *, room: int) -> RowBuffer:
        """Return a buffer with other room that holds the first `lengths` places of these rows."""
        _, heads, _, size = self.array.shape
        found = RowBuffer(len(rows), heads, room, size)
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            found.array[place, :, :length] = self.array[row, :, :length]
        return found
