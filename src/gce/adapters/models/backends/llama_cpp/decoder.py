"""Decoding of rows of sequences in a context of llama.cpp, for the sampler. Independent of requests and text.

Each row is a sequence of the context. One more sequence holds the prompt that was placed last, so that a prompt is
computed once and copied to all of its rows, which `roll_out` places one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gce.adapters.models.backends.llama_cpp.library import MAX_TOKENS, Context
from gce.adapters.models.local.token_sampling import Array, draw

__all__ = ["LlamaDecoder"]

_IDLE = -1


class LlamaDecoder:
    """See `gce.adapters.models.local.continuous_batching.Decoder`."""

    def __init__(self, context: Context, rows: int) -> None:
        """Decode in a context of `rows` + 1 sequences."""
        self.rows = rows
        self._context = context
        self._spare = rows
        self._held: tuple[int, ...] | None = None
        """The prompt in the spare sequence."""
        self._lengths = np.full(rows, _IDLE)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Return the prompts: `place` computes them, one at a time."""
        return [tuple(prompt) for prompt in prompts]

    def place(self, row: int, prefix: tuple[int, ...]) -> None:
        """Copy the prompt's keys and values into `row`, after computing them if another prompt was placed last."""
        if prefix != self._held:
            self._held = None
            self._context.clear(self._spare)
            for start in range(0, len(prefix), MAX_TOKENS):
                tokens = np.asarray(prefix[start : start + MAX_TOKENS])
                zeros = np.zeros_like(tokens)
                self._context.decode(tokens, start + np.arange(len(tokens)), zeros + self._spare, zeros)
            self._held = prefix
        self._context.copy(self._spare, row)
        self._lengths[row] = len(prefix)

    def release(self, row: int) -> None:
        """Mark `row` as idle. Until `keep` drops it, it decodes one token anew in each step.

        Without it, llama.cpp would split each step in two: it decodes only adjacent sequences together.
        """
        self._lengths[row] = _IDLE

    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows to the first places."""
        for target, source in enumerate(rows):
            if source != target:
                self._context.copy(source, target)
        self._lengths = self._lengths[list(rows)]
        self.rows = len(rows)

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token in all rows."""
        live = self._lengths != _IDLE
        for row in np.flatnonzero(~live).tolist():
            self._context.clear(row)
        positions = np.where(live, self._lengths, 0)
        logits = self._context.decode(tokens, positions, np.arange(self.rows), live)
        drawn = draw(logits, uniforms[live], temperatures[live])
        self._lengths[live] += 1
        chosen, own, sampling = (np.zeros(self.rows, part.dtype) for part in drawn)
        chosen[live], own[live], sampling[live] = drawn
        return chosen, own, sampling
