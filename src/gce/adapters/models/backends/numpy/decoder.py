"""Decode a Llama with numpy alone: several times faster than mlx on Linux, whose CPU kernels are scalar there.

Rows that share a prompt share its keys and values, so memory is read once for up to eight of them. Common prompt
prefixes are read once for all rows. Works on weights, positions and uniform numbers; independent of requests,
tokenizers and mlx.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import ref

import numpy as np

from gce.adapters.models.backends.numpy.llama import normed, run_blocks
from gce.adapters.models.backends.numpy.row_buffer import RowBuffer
from gce.adapters.models.backends.numpy.shared_prefixes import Openings, Prefix, opening_lengths, prefill
from gce.adapters.models.local.token_sampling import Array, draw

__all__ = ["NumpyDecoder"]

_SHARE = 8
"""Maximum number of rows that read one copy of a prompt."""
_ROOM = 256
"""Initial room for generated tokens, and the amount by which it grows."""


class NumpyDecoder:
    """Rows of growing sequences over one set of weights. A new row is idle until it is placed."""

    def __init__(self, openings: Openings, rows: int, prompts: Sequence[Sequence[int]]) -> None:
        """Make room for `rows` sequences after these prompts, with the weights of `openings`."""
        self.rows = rows
        self._weights = weights = openings.weights
        self._openings = openings
        self._opening_lengths = opening_lengths(map(tuple, prompts))
        longest = max(len(prompt) - self._opening_lengths.get(tuple(prompt), 0) for prompt in prompts)
        blocks = range(len(weights.blocks))
        shape = rows, weights.kv_heads, longest, weights.head_size
        self._prompt_keys = [RowBuffer(*shape) for _ in blocks]
        self._prompt_values = [RowBuffer(*shape) for _ in blocks]
        shape = rows, weights.kv_heads, _ROOM, weights.head_size
        self._keys = [RowBuffer(*shape) for _ in blocks]
        self._values = [RowBuffer(*shape) for _ in blocks]
        self._prefixes: list[ref[Prefix] | None] = [None] * rows  # Weak: their arrays are copied.
        self._slot = np.full(rows, -1)  # The prefix slot that a row reads; -1 for an idle row.
        self._prompt_length = np.zeros(rows, np.int64)
        self._opening = np.full(rows, None)  # The shared opening before a row's prefix.
        self._written = np.zeros(rows, np.int64)
        self._sharing: Array | None = None

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Prefix]:
        """Return keys and values of each prompt, in one pass over all prompts, reusing cached openings."""
        cuts = [self._opening_lengths.get(tuple(prompt), 0) for prompt in prompts]
        openings = {
            place: self._openings.find(tuple(prompt[:cut]))
            for place, (prompt, cut) in enumerate(zip(prompts, cuts, strict=True))
            if cut
        }
        return prefill(self._weights, [prompt[cut:] for prompt, cut in zip(prompts, cuts, strict=True)], openings)

    def place(self, row: int, prefix: Prefix) -> None:
        """Start `row` anew right after `prefix`."""
        self.release(row)
        same = (i for i, other in enumerate(self._prefixes) if other is not None and other() is prefix)
        slot = next((i for i in same if np.sum(self._slot == i) < _SHARE), None)
        if slot is None:
            slot = self._prefixes.index(None)
            self._prefixes[slot] = ref(prefix)
            for block in range(len(self._weights.blocks)):
                self._prompt_keys[block].array[slot, :, : prefix.length] = prefix.keys[block]
                self._prompt_values[block].array[slot, :, : prefix.length] = prefix.values[block]
        self._slot[row], self._prompt_length[row] = slot, prefix.length
        self._opening[row] = prefix.opening

    def release(self, row: int) -> None:
        """Mark `row` as idle: it costs time until `keep` drops it, and its output is meaningless."""
        slot = self._slot[row]
        self._slot[row], self._prompt_length[row], self._opening[row], self._written[row] = -1, 0, None, 0
        _clear(row, self._keys, self._values)
        if slot >= 0 and slot not in self._slot:
            self._prefixes[slot] = None
            _clear(slot, self._prompt_keys, self._prompt_values)
        self._sharing = None

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only; they become rows 0, 1, ... in this order."""
        self.rows = len(rows)
        chosen = np.asarray(rows, np.int64)
        _move(rows, self._written[chosen].tolist(), self._keys, self._values)
        self._slot, self._prompt_length, self._opening, self._written = (
            part[chosen] for part in (self._slot, self._prompt_length, self._opening, self._written)
        )
        used = sorted(set(self._slot[self._slot >= 0].tolist()))
        self._prefixes = [self._prefixes[slot] for slot in used]
        lengths = dict(zip(self._slot.tolist(), self._prompt_length.tolist(), strict=True))
        _move(used, [lengths[slot] for slot in used], self._prompt_keys, self._prompt_values)
        self._slot = np.asarray([used.index(slot) if slot >= 0 else -1 for slot in self._slot.tolist()], np.int64)
        self._sharing = None

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Append one token to each row and draw the next, as `draw` does."""
        return draw(self.logits(tokens), uniforms, temperatures)

    def logits(self, tokens: Array) -> Array:
        """Append one token to each row; return the logits of the next, (rows, vocabulary)."""
        weights = self._weights
        if self._written.max() == self._keys[0].array.shape[2]:
            _move(range(self.rows), self._written.tolist(), self._keys, self._values, more=_ROOM)
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

        opened = [(opening, np.flatnonzero(self._opening == opening)) for opening in set(self._opening) - {None}]

        def attend(block: int, queries: Array, keys: Array, values: Array) -> Array:
            return self._attend(block, queries, keys, values, mask, width, opened)

        before = np.array([opening.length if opening else 0 for opening in self._opening])
        positions = before + self._prompt_length + self._written
        hidden = run_blocks(weights, weights.embedding[tokens], positions, attend)
        assert hidden is not None
        self._written[self._slot >= 0] += 1
        logits: Array = normed(hidden, weights.epsilon)[0] @ weights.head
        return logits

    def _find_sharing(self) -> Array:
        """Return row numbers by slot, (slots, maximum rows per slot), padded with `rows`."""
        members: list[list[int]] = [[] for _ in range(int(self._slot.max()) + 1)]
        for row, slot in enumerate(self._slot.tolist()):
            if slot >= 0:
                members[slot].append(row)
        sharing = np.full((len(members), max(map(len, members), default=0)), self.rows)
        for line, rows in zip(sharing, members, strict=True):
            line[: len(rows)] = rows
        return sharing

    def _attend(
        self,
        block: int,
        queries: Array,
        keys: Array,
        values: Array,
        mask: Array,
        width: int,
        opened: Sequence[tuple[Prefix, Array]],
    ) -> Array:
        """Compute attention of one new position per row over its prompt (at most `width` columns) and what follows.

        `opened` holds the shared openings, each with the rows that it precedes.
        """
        rows, kv_heads, size = keys.shape
        repeats = queries.shape[1] // kv_heads
        sharing = self._sharing
        assert sharing is not None
        slots, share = sharing.shape
        own_keys, own_values = self._keys[block].array, self._values[block].array
        own_keys[np.arange(rows), :, self._written] = keys
        own_values[np.arange(rows), :, self._written] = values
        columns = mask.shape[-1] - width

        # One extra row for the unused places of a slot.
        padded = np.zeros((rows + 1, kv_heads, repeats, size), np.float32)
        padded[:rows] = queries.reshape(rows, kv_heads, repeats, size)
        scores = np.zeros((rows + 1, kv_heads, repeats, mask.shape[-1]), np.float32)
        together = padded[sharing].swapaxes(1, 2).reshape(slots, kv_heads, share * repeats, size)
        shared = together @ self._prompt_keys[block].array[:slots, :, :width].swapaxes(2, 3)
        scores[sharing, :, :, :width] = shared.reshape(slots, kv_heads, share, repeats, width).swapaxes(1, 2)
        own = scores[:rows]
        np.matmul(padded[:rows], own_keys[:, :, :columns].swapaxes(2, 3), out=own[..., width:])

        own += mask
        highest = own.max(axis=-1, keepdims=True)
        own -= highest
        np.exp(own, out=own)
        total = own.sum(axis=-1, keepdims=True)

        together = scores[..., :width][sharing].swapaxes(1, 2).reshape(slots, kv_heads, share * repeats, width)
        shared = together @ self._prompt_values[block].array[:slots, :, :width]
        result = np.zeros_like(padded)
        result[sharing] = shared.reshape(slots, kv_heads, share, repeats, size).swapaxes(1, 2)
        attended = result[:rows]
        attended += own[..., width:] @ own_values[:, :, :columns]
        attended /= total
        for opening, members in opened:
            # Merge two softmaxes, weighting each by its normalizer.
            gathered, normalizer = _over_opening(opening, block, padded[members])
            with np.errstate(over="ignore"):  # Overflows if all weight is on the other side.
                weight = 1 / (1 + np.exp(highest[members] + np.log(total[members]) - normalizer))
            attended[members] += weight * (gathered - attended[members])
        return attended.reshape(rows, -1)


def _clear(row: int, *parts: list[RowBuffer]) -> None:
    for buffers in parts:
        for buffer in buffers:
            buffer.clear(row)


def _move(rows: Sequence[int], lengths: Sequence[int], *parts: list[RowBuffer], more: int = 0) -> None:
    """Keep the first `lengths` places of these rows, with room for `more`."""
    for buffers in parts:
        for block, buffer in enumerate(buffers):  # One by one, so that few buffers exist twice.
            buffers[block] = buffer.moved(rows, lengths, room=buffer.array.shape[2] + more)


def _over_opening(opening: Prefix, block: int, queries: Array) -> tuple[Array, Array]:
    """Return attention over one opening, (rows, kv heads, heads per kv head, size), and its log-normalizers."""
    rows, kv_heads, repeats, size = queries.shape
    together = queries.swapaxes(0, 1).reshape(kv_heads, rows * repeats, size)
    scores = together @ opening.keys[block].swapaxes(1, 2)
    highest = scores.max(axis=-1, keepdims=True)
    scores -= highest
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    gathered = (scores @ opening.values[block]) / total
    gathered, normalizers = (
        part.reshape(kv_heads, rows, repeats, -1).swapaxes(0, 1) for part in (gathered, highest + np.log(total))
    )
    return gathered, normalizers
