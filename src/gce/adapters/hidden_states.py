"""Arrays that are costly to compute and never change, kept by the tokens they belong to. Knows no models."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from typing import IO

import numpy as np

from gce.adapters.draws import Array

__all__ = ["HiddenStates"]


class HiddenStates:
    """The first arrays stay in memory, later ones in a temporary file that goes with the process; then none is kept."""

    def __init__(self, *, memory_bytes: int = 1 << 30, disk_bytes: int = 16 << 30) -> None:
        self._memory: dict[bytes, Array] = {}
        self._disk: dict[bytes, tuple[int, tuple[int, ...]]] = {}
        self._memory_left = memory_bytes
        self._disk_left = disk_bytes
        self._file: IO[bytes] | None = None

    def get(self, tokens: Sequence[int]) -> Array | None:
        """What was kept for these tokens."""
        key = _key(tokens)
        if self._file is not None and key in self._disk:
            place, shape = self._disk[key]
            content = os.pread(self._file.fileno(), 4 * int(np.prod(shape)), place)
            return np.frombuffer(content, np.float32).reshape(shape)
        return self._memory.get(key)

    def put(self, tokens: Sequence[int], states: Array) -> None:
        """Keep a float32 array, if there is room."""
        if states.nbytes <= self._memory_left:
            self._memory[_key(tokens)] = states
            self._memory_left -= states.nbytes
        elif states.nbytes <= self._disk_left:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with this object)
                weakref.finalize(self, self._file.close)
            try:
                place = self._file.seek(0, os.SEEK_END)
                self._file.write(np.ascontiguousarray(states).tobytes())
                self._file.flush()
            except OSError:  # A full disk costs time, not the run.
                self._disk_left = 0
                return
            self._disk[_key(tokens)] = place, states.shape
            self._disk_left -= states.nbytes


def _key(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, np.int32).tobytes()
