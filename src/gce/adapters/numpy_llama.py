"""Decodes a Llama with numpy alone: several times faster than mlx on Linux, whose CPU kernels are scalar there.

Rows that share a prompt share its keys and values too, so that memory is read once for up to eight of them. Knows
weights, positions and uniform numbers; it does not know requests, tokenizers, mlx, or where weights come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen

from gce.adapters.draws import Array, draw

__all__ = ["BlockWeights", "LlamaWeights", "NumpyLlama", "Prefix"]

Attend = Callable[[int, Array, Array, Array], Array | None]

_SHARE = 8
"""Rows at most that read one copy of a prompt."""
_QUERY_BLOCK = 256
"""Prompt positions at most that attend at once; bounds the memory of their scores."""
_ROOM = 256
"""Generated tokens for which there is room at first; it doubles when it is full."""


@frozen(eq=False)
class BlockWeights:
    """One transformer block in float32, matrices as (inputs, outputs).

    The weights of each norm are multiplied into the rows of the matrix that follows it, and the scale of attention
    into the columns that make queries.
    """

    queries_keys_values: Array
    output: Array
    gate_up: Array
    down: Array


@frozen(eq=False)
class LlamaWeights:
    """A Llama in float32: no biases, RoPE over halves without scaling."""

    embedding: Array
    blocks: tuple[BlockWeights, ...]
    head: Array
    """(hidden, vocabulary), the last norm's weights multiplied into its rows."""
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    rope_base: float


@frozen(eq=False)
class Prefix:
    """Keys and values of a prompt's tokens in every block, each (kv heads, tokens, head size)."""

    length: int
    keys: tuple[Array, ...]
    values: tuple[Array, ...]


class NumpyLlama:
    """Rows of growing sequences over one set of weights. A new row is idle until it is placed."""

    def __init__(self, weights: LlamaWeights, rows: int, longest: int) -> None:
        """Room for `rows` sequences after prompts of at most `longest` tokens."""
        self.rows = rows
        self._weights = weights
        blocks = range(len(weights.blocks))
        # Zeros, not empty: what a mask hides must still be finite. Pages that nothing touches cost nothing.
        shape = (rows, weights.kv_heads, longest, weights.head_size)
        self._prompt_keys = [np.zeros(shape, np.float32) for _ in blocks]
        self._prompt_values = [np.zeros(shape, np.float32) for _ in blocks]
        shape = (rows, weights.kv_heads, _ROOM, weights.head_size)
        self._keys = [np.zeros(shape, np.float32) for _ in blocks]
        self._values = [np.zeros(shape, np.float32) for _ in blocks]
        self._prefixes: list[Prefix | None] = [None] * rows
        self._slot = np.full(rows, -1)  # Which prefix a row reads; -1 where it is idle.
        self._prompt_length = np.zeros(rows, np.int64)
        self._written = np.zeros(rows, np.int64)
        self._sharing: Array | None = None

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Keys and values of each prompt, in one pass over all of them."""
        lengths = [len(prompt) for prompt in prompts]
        count, width = len(prompts), max(lengths)
        wide = self._weights.heads * self._weights.head_size
        tokens = np.zeros((count, width), np.int64)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = prompt
        kept: list[tuple[Array, Array]] = []

        def attend(_: int, queries: Array, keys: Array, values: Array) -> Array | None:
            queries, keys, values = (part.reshape(count, width, *part.shape[1:]) for part in (queries, keys, values))
            kept.append((keys, values))
            if len(kept) == len(self._weights.blocks):
                return None  # Nobody asks for what the last block puts out here.
            return _causal_attention(queries, keys, values).reshape(count * width, wide)

        self._forward(tokens.reshape(-1), np.tile(np.arange(width), count), attend)
        return [
            Prefix(
                length,
                tuple(keys[row, :length].swapaxes(0, 1).copy() for keys, _ in kept),
                tuple(values[row, :length].swapaxes(0, 1).copy() for _, values in kept),
            )
            for row, length in enumerate(lengths)
        ]

    def place(self, row: int, prefix: Prefix) -> None:
        """Start `row` anew right after `prefix`."""
        self.release(row)
        slot = next((i for i, p in enumerate(self._prefixes) if p is prefix and np.sum(self._slot == i) < _SHARE), None)
        if slot is None:
            slot = self._prefixes.index(None)
            self._prefixes[slot] = prefix
            for block in range(len(self._weights.blocks)):
                self._prompt_keys[block][slot, :, : prefix.length] = prefix.keys[block]
                self._prompt_values[block][slot, :, : prefix.length] = prefix.values[block]
        self._slot[row], self._prompt_length[row] = slot, prefix.length

    def release(self, row: int) -> None:
        """Leave `row` idle: it costs time until `keep` drops it, and what it draws means nothing."""
        slot = self._slot[row]
        self._slot[row], self._prompt_length[row], self._written[row] = -1, 0, 0
        if slot >= 0 and slot not in self._slot:
            self._prefixes[slot] = None
        self._sharing = None

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone; they become rows 0, 1, ... in this order."""
        self.rows = len(rows)
        chosen = np.asarray(rows, np.int64)
        for old in (self._keys, self._values):
            old[:] = [buffer[chosen] for buffer in old]
        self._slot, self._prompt_length, self._written = (
            part[chosen] for part in (self._slot, self._prompt_length, self._written)
        )
        used = sorted(set(self._slot[self._slot >= 0].tolist()))
        for old in (self._prompt_keys, self._prompt_values):
            old[:] = [buffer[used] for buffer in old]
        self._prefixes = [self._prefixes[slot] for slot in used]
        self._slot = np.asarray([used.index(slot) if slot >= 0 else -1 for slot in self._slot.tolist()], np.int64)
        self._sharing = None

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Append one token to each row and draw the next, as `draw` says."""
        return draw(self.logits(tokens), uniforms, temperatures)

    def logits(self, tokens: Array) -> Array:
        """Append one token to each row; the logits of the next, (rows, vocabulary)."""
        weights = self._weights
        room = self._keys[0].shape[2]
        if self._written.max() == room:
            for old in (self._keys, self._values):
                old[:] = [np.pad(buffer, ((0, 0), (0, 0), (0, room), (0, 0))) for buffer in old]
        if self._sharing is None:
            self._sharing = self._find_sharing()
        width, written = int(self._prompt_length.max()), int(self._written.max()) + 1
        allowed = np.concatenate(
            [
                np.arange(width) < self._prompt_length[:, None],
                np.arange(written) <= self._written[:, None],
            ],
            axis=1,
        )
        mask = np.where(allowed, np.float32(0), np.float32(-np.inf))[:, None, None]

        def attend(block: int, queries: Array, keys: Array, values: Array) -> Array:
            return self._attend(block, queries, keys, values, mask, width)

        hidden = self._forward(tokens, self._prompt_length + self._written, attend)
        assert hidden is not None
        self._written[self._slot >= 0] += 1
        return _normed(hidden, weights.epsilon) @ weights.head

    def _find_sharing(self) -> Array:
        """Row numbers by slot, (slots, rows of a slot at most); `rows` where a slot has fewer."""
        members: list[list[int]] = [[] for _ in range(int(self._slot.max()) + 1)]
        for row, slot in enumerate(self._slot.tolist()):
            if slot >= 0:
                members[slot].append(row)
        sharing = np.full((len(members), max(map(len, members), default=0)), self.rows)
        for line, rows in zip(sharing, members, strict=True):
            line[: len(rows)] = rows
        return sharing

    def _attend(self, block: int, queries: Array, keys: Array, values: Array, mask: Array, width: int) -> Array:
        """Attention of one new position in each row over its prompt (`width` columns at most) and what followed."""
        rows, kv_heads, size = keys.shape
        repeats = queries.shape[1] // kv_heads
        sharing = self._sharing
        assert sharing is not None
        slots, share = sharing.shape
        self._keys[block][np.arange(rows), :, self._written] = keys
        self._values[block][np.arange(rows), :, self._written] = values
        columns = mask.shape[-1] - width

        # One row more than there are, for the places that a slot leaves empty.
        padded = np.zeros((rows + 1, kv_heads, repeats, size), np.float32)
        padded[:rows] = queries.reshape(rows, kv_heads, repeats, size)
        scores = np.zeros((rows + 1, kv_heads, repeats, mask.shape[-1]), np.float32)
        together = padded[sharing].swapaxes(1, 2).reshape(slots, kv_heads, share * repeats, size)
        shared = together @ self._prompt_keys[block][:slots, :, :width].swapaxes(2, 3)
        scores[sharing, :, :, :width] = shared.reshape(slots, kv_heads, share, repeats, width).swapaxes(1, 2)
        own = scores[:rows]
        np.matmul(padded[:rows], self._keys[block][:, :, :columns].swapaxes(2, 3), out=own[..., width:])

        own += mask
        own -= own.max(axis=-1, keepdims=True)
        np.exp(own, out=own)
        total = own.sum(axis=-1, keepdims=True)

        together = scores[..., :width][sharing].swapaxes(1, 2).reshape(slots, kv_heads, share * repeats, width)
        shared = together @ self._prompt_values[block][:slots, :, :width]
        result = np.zeros_like(padded)
        result[sharing] = shared.reshape(slots, kv_heads, share, repeats, size).swapaxes(1, 2)
        attended = result[:rows]
        attended += own[..., width:] @ self._values[block][:, :, :columns]
        attended /= total
        return attended.reshape(rows, -1)

    def _forward(self, tokens: Array, positions: Array, attend: Attend) -> Array | None:
        """The blocks over a flat list of tokens; None where `attend` has seen enough."""
        weights = self._weights
        heads, kv_heads, size = weights.heads, weights.kv_heads, weights.head_size
        turns = positions[:, None] * weights.rope_base ** (-np.arange(0, size, 2) / size)
        cosine, sine = (wave(turns).astype(np.float32) for wave in (np.cos, np.sin))
        # As wide as all queries and keys of a position, for long inner loops.
        cosine = np.tile(cosine, 2 * (heads + kv_heads))
        sine = np.tile(np.concatenate([-sine, sine], axis=1), heads + kv_heads)
        hidden = weights.embedding[tokens]
        for index, block in enumerate(weights.blocks):
            mixed = _normed(hidden, weights.epsilon) @ block.queries_keys_values
            turned = mixed[:, : cosine.shape[1]]
            halves = turned.reshape(len(tokens), heads + kv_heads, 2, size // 2)
            turned = turned * cosine + halves[:, :, ::-1].reshape(cosine.shape) * sine
            queries, keys = np.split(turned.reshape(len(tokens), heads + kv_heads, size), [heads], axis=1)
            values = mixed[:, cosine.shape[1] :].reshape(len(tokens), kv_heads, size)
            attended = attend(index, queries, keys, values)
            if attended is None:
                return None
            hidden = hidden + attended @ block.output
            gate, up = np.split(_normed(hidden, weights.epsilon) @ block.gate_up, 2, axis=1)
            # Below -88 the exponential overflows to infinity, and the gate is rightly zero.
            with np.errstate(over="ignore"):
                opening = np.exp(-gate)
            opening += 1
            np.divide(gate, opening, out=opening)
            opening *= up
            hidden += opening @ block.down
        return hidden


def _normed(x: Array, epsilon: float) -> Array:
    """`x` over its root mean square, row by row."""
    square = np.einsum("ij,ij->i", x, x)
    scale: Array = 1 / np.sqrt(square / np.float32(x.shape[1]) + np.float32(epsilon))
    return x * scale[:, None]


def _causal_attention(queries: Array, keys: Array, values: Array) -> Array:
    """Queries, scaled, as (batch, positions, heads, size); keys and values as (batch, positions, kv heads, size)."""
    batch, positions, heads, size = queries.shape
    kv_heads = keys.shape[2]
    grouped = queries.reshape(batch, positions, kv_heads, heads // kv_heads, size).transpose(0, 2, 3, 1, 4)
    keys, values = keys.transpose(0, 2, 3, 1)[:, :, None], values.swapaxes(1, 2)[:, :, None]
    result = np.empty(queries.shape, np.float32)
    for start in range(0, positions, _QUERY_BLOCK):
        stop = min(start + _QUERY_BLOCK, positions)
        scores = grouped[..., start:stop, :] @ keys[..., :stop]
        scores[..., start:] += np.triu(np.full((stop - start, stop - start), -np.inf, np.float32), 1)
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        attended = (scores @ values[..., :stop, :]) / scores.sum(axis=-1, keepdims=True)
        result[:, start:stop] = attended.transpose(0, 3, 1, 2, 4).reshape(batch, stop - start, heads, size)
    return result
