"""Deals a decoder's rows in blocks to threads, in lockstep: neither their timing nor their number changes a result.

Knows rows and threads only. It pays where the work releases the interpreter's lock, as numpy's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gce.adapters.blas import numpy_blas_threads
from gce.adapters.draws import Array
from gce.adapters.numpy_decoder import NumpyDecoder, Prefix

__all__ = ["RowThreads"]

_BLOCK = 64
"""Rows of a block at most. How many rows are multiplied at once shows in the last bits, so threads do not decide it."""


class RowThreads:
    """Rows 0, 1, ... in blocks, each a decoder of its own."""

    def __init__(self, make: Callable[[int], NumpyDecoder], rows: int, *, threads: int) -> None:
        """`make` gives a decoder with that many rows."""
        fewest = 2 if rows > _BLOCK // 2 else 1
        blocks = np.array_split(np.arange(rows), max(fewest, -(-rows // _BLOCK)))
        self._parts = [make(len(block)) for block in blocks]
        workers = min(threads, len(blocks))
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None

    @property
    def rows(self) -> int:
        """Rows of all parts together."""
        return sum(part.rows for part in self._parts)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Each part takes some of the prompts; any row may use the prefixes."""
        shares = [share.tolist() for share in np.array_split(np.arange(len(prompts)), len(self._parts)) if len(share)]
        jobs = [
            (part.prefill, ([prompts[i] for i in share],)) for part, share in zip(self._parts, shares, strict=False)
        ]
        return [prefix for found in self._run(jobs) for prefix in found]

    def place(self, row: int, prefix: Prefix) -> None:
        """Start `row` anew right after `prefix`."""
        part, local = self._find(row)
        part.place(local, prefix)

    def release(self, row: int) -> None:
        """Leave `row` idle."""
        part, local = self._find(row)
        part.release(local)

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone; `rows` must rise."""
        kept, first = [], 0
        for part in self._parts:
            own = [row - first for row in rows if first <= row < first + part.rows]
            first += part.rows
            if own:
                part.keep(own)
                kept.append(part)
        self._parts = kept

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Append one token to each row and draw the next."""
        cuts = np.cumsum([part.rows for part in self._parts])[:-1]
        pieces = zip(*(np.split(whole, cuts) for whole in (tokens, uniforms, temperatures)), strict=True)
        drawn = self._run([(part.step, piece) for part, piece in zip(self._parts, pieces, strict=True)])
        ids, own, sampling = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        return ids, own, sampling

    def _find(self, row: int) -> tuple[NumpyDecoder, int]:
        for part in self._parts:
            if row < part.rows:
                return part, row
            row -= part.rows
        raise IndexError(row)

    def _run(self, jobs: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
        # Threads inside the BLAS would fight with these for the same cores.
        with numpy_blas_threads(1):
            if self._pool is None or len(jobs) == 1:
                return [function(*arguments) for function, arguments in jobs]
            return [future.result() for future in [self._pool.submit(f, *arguments) for f, arguments in jobs]]
