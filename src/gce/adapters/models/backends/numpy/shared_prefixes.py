"""Prefix caching: a prefix that many prompts share, such as few-shot examples or long instructions.

It is computed once and read once per step for all rows. The shared prefixes (openings) of a call depend on its prompts
alone, and their keys and values stay cached as long as the weights. Works on tokens and weights, not rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

import numpy as np
from attrs import field, frozen

from gce.adapters.models.backends.numpy.llama import LlamaWeights, causal_attention, run_blocks
from gce.adapters.models.local.token_sampling import Array

__all__ = ["Openings", "Prefix", "opening_lengths"]

_LEAST = 256
"""Minimum length in tokens for which a shared prefix gets its own pass."""
_STEP = 64
"""Openings are cut to a multiple of this many tokens, so that the shares of one call tend to have the same one."""
_KEPT_BYTES = 2**30
"""Maximum bytes of keys and values cached for later calls; the newest opening is always kept."""

Tokens = tuple[int, ...]


@frozen(eq=False)
class Prefix:
    """Keys and values of a prompt's tokens after its opening, in every block, each (kv heads, tokens, head size)."""

    length: int
    keys: tuple[Array, ...]
    values: tuple[Array, ...]
    opening: Prefix | None = None
    """The shared prefix before these tokens; it has no opening of its own."""

    @property
    def nbytes(self) -> int:
        """Size in bytes of its own keys and values."""
        return sum(array.nbytes for array in (*self.keys, *self.values))


def opening_lengths(prompts: Iterable[Tokens]) -> dict[Tokens, int]:
    """Return the length of the prefix that each prompt shares with others; prompts that share too little are left out.

    At least one token of each prompt is not part of its opening.
    """
    found: dict[Tokens, int] = {}
    group: list[Tokens] = []
    shared = 0
    for prompt in (*sorted(set(prompts)), None):
        if prompt is not None and group:
            # Prompts are sorted, so what a prompt shares with the last one of a group, it shares with the whole group.
            with_last = min(_shared(group[-1], prompt), len(group[0]) - 1, len(prompt) - 1) // _STEP * _STEP
            # A prompt that would cut the group's shared prefix to less than half starts a new group.
            if with_last >= max(_LEAST, shared // 2):
                shared = min(shared or with_last, with_last)
                group.append(prompt)
                continue
        if len(group) > 1:
            found.update(dict.fromkeys(group, shared))
        group, shared = [prompt] if prompt is not None else [], 0
    return found


def _shared(one: Tokens, other: Tokens) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@frozen(eq=False)
class Openings:
    """A cache of openings over one set of weights, shared by threads and calls."""

    weights: LlamaWeights
    _kept: dict[Tokens, Prefix] = field(factory=dict, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def find(self, tokens: Tokens) -> Prefix:
        """Return the opening with these tokens; concurrent requests for one opening wait for the first of them."""
        with self._lock:
            found = self._kept.pop(tokens, None) or prefill(self.weights, [tokens])[0]
            self._kept[tokens] = found
            while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > _KEPT_BYTES:
                del self._kept[next(iter(self._kept))]
            return found


def prefill(
    weights: LlamaWeights, prompts: Sequence[Sequence[int]], openings: Mapping[int, Prefix] | None = None
) -> list[Prefix]:
    """Return keys and values of each prompt, in one pass; `openings` maps prompt indices to their shared prefixes."""
    before = [(openings or {}).get(place) for place in range(len(prompts))]
    cuts = np.cumsum([len(prompt) for prompt in prompts])[:-1]
    tokens = np.concatenate([np.asarray(prompt, np.int64) for prompt in prompts])
    starts = [opening.length if opening else 0 for opening in before]
    positions = np.concatenate([start + np.arange(len(prompt)) for start, prompt in zip(starts, prompts, strict=True)])
    kept: list[tuple[list[Array], list[Array]]] = []

    def attend(block: int, queries: Array, keys: Array, values: Array) -> Array | None:
        of_keys, of_values = np.split(keys, cuts), np.split(values, cuts)
        kept.append((of_keys, of_values))
        if len(kept) == len(weights.blocks):
            return None  # The output of the last block is not needed here.
        after = zip(before, np.split(queries, cuts), of_keys, of_values, strict=True)
        return np.concatenate(
            [
                causal_attention(asked, *_after(opening, block, own_keys, own_values))[0]
                for opening, asked, own_keys, own_values in after
            ]
        )

    run_blocks(weights, weights.embedding[tokens], positions, attend)
    return [
        Prefix(
            len(prompt),
            tuple(keys[row].swapaxes(0, 1).copy() for keys, _ in kept),
            tuple(values[row].swapaxes(0, 1).copy() for _, values in kept),
            before[row],
        )
        for row, prompt in enumerate(prompts)
    ]


def _after(opening: Prefix | None, block: int, keys: Array, values: Array) -> tuple[Array, Array]:
    if opening is None:
        return keys, values
    return (
        np.concatenate([opening.keys[block].swapaxes(0, 1), keys]),
        np.concatenate([opening.values[block].swapaxes(0, 1), values]),
    )
