"""An LRU cache of arrays that are expensive to compute and never change, keyed by tokens. Independent of models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from gce.adapters.models.local.token_sampling import Array

__all__ = ["HiddenStates"]


class HiddenStates:
    """An LRU cache of at most `most_bytes` bytes of arrays."""

    def __init__(self, *, most_bytes: int = 1 << 30) -> None:
        self._kept: OrderedDict[bytes, Array] = OrderedDict()
        self._room = most_bytes

    def get(self, tokens: Sequence[int]) -> Array | None:
        """Return the array cached for these tokens; None if there is none."""
        key = _key(tokens)
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, tokens: Sequence[int], states: Array) -> None:
        """Cache an array for tokens that have none; it is dropped again if it exceeds the whole cache."""
        self._kept[_key(tokens)] = states
        self._room -= states.nbytes
        while self._room < 0:
            _, oldest = self._kept.popitem(last=False)
            self._room += oldest.nbytes


def _key(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, np.int32).tobytes()
