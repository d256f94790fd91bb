"""Arrays that are costly to compute and never change, kept by the tokens they belong to. Knows no models."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from gce.adapters.models.local.token_sampling import Array

__all__ = ["HiddenStates"]


class HiddenStates:
    """Keeps up to so many bytes of arrays; those go first that nobody has asked for longest."""

    def __init__(self, *, most_bytes: int = 1 << 30) -> None:
        self._kept: OrderedDict[bytes, Array] = OrderedDict()
        self._room = most_bytes

    def get(self, tokens: Sequence[int]) -> Array | None:
        """What is kept for these tokens."""
        key = _key(tokens)
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, tokens: Sequence[int], states: Array) -> None:
        """Keep an array for tokens that have none, unless it is larger than all the room there is."""
        self._kept[_key(tokens)] = states
        self._room -= states.nbytes
        while self._room < 0:
            _, oldest = self._kept.popitem(last=False)
            self._room += oldest.nbytes


def _key(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, np.int32).tobytes()
