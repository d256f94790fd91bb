"""Splits a decoder's rows over threads, in lockstep, so that what comes out does not depend on their timing.

Knows rows and threads only. It pays where the work releases the interpreter's lock, as numpy's does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from gce.adapters.blas import numpy_blas_threads
from gce.adapters.numpy_llama import Array, NumpyLlama, Prefix

__all__ = ["RowThreads"]

_FEWEST = 8
"""Rows for which another thread is not worth its overhead."""


class RowThreads:
    """Rows 0, 1, ... dealt in blocks to several decoders, each stepped by a thread of its own."""

    def __init__(self, make: Callable[[int], NumpyLlama], rows: int, *, threads: int) -> None:
        """`make` gives a decoder with that many rows."""
        count = max(1, min(threads, rows // _FEWEST))
        self._parts = [make(len(block)) for block in np.array_split(np.arange(rows), count)]
        self._threads = threads
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

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

    def _find(self, row: int) -> tuple[NumpyLlama, int]:
        for part in self._parts:
            if row < part.rows:
                return part, row
            row -= part.rows
        raise IndexError(row)

    def _run(self, jobs: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
        # Threads of this kind and threads inside the BLAS would fight for the same cores.
        with numpy_blas_threads(max(1, self._threads // len(jobs))):
            if self._pool is None or len(jobs) == 1:
                return [function(*arguments) for function, arguments in jobs]
            return [future.result() for future in [self._pool.submit(f, *arguments) for f, arguments in jobs]]
