"""Decoding of rows of sequences with any mlx-lm model, for the sampler.

`decoder_maker` batches rows if the model uses plain key-value caches, and decodes one sequence at a time otherwise.
Works on tokens and positions, not requests.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import KVCache, make_prompt_cache

from gce.adapters.models.local.continuous_batching import DecoderMaker
from gce.adapters.models.local.token_sampling import Array

__all__ = ["BatchDecoder", "SequenceDecoder", "decoder_maker", "draw"]

_GROWTH = 256
"""Number of columns by which key-value buffers grow."""


def decoder_maker(model: nn.Module) -> DecoderMaker:
    """Return a maker of decoders for this model, whose weights must not change while a decoder is in use."""
    if all(type(cache) is KVCache for cache in make_prompt_cache(model)) and _decodes_rows(model):
        return lambda rows, _: BatchDecoder(model, rows)
    return lambda rows, _: SequenceDecoder(model)


def _decodes_rows(model: nn.Module) -> bool:
    """Return whether rows at different positions give what the model computes for each sequence alone.

    Some families take only masks and positions that all rows share.
    """
    prompts, last, cold = [(0, 1), (2,)], np.array([1, 0]), np.zeros(2)
    decoder = BatchDecoder(model, len(prompts))
    try:
        for row, prefix in enumerate(decoder.prefill(prompts)):
            decoder.place(row, prefix)
        _, scores, _ = decoder.step(last, cold, cold)
    except (ValueError, TypeError, AttributeError):
        return False
    logits = [model(mx.array([[*prompt, int(token)]]))[:, -1] for prompt, token in zip(prompts, last, strict=True)]
    alone = np.concatenate([draw(row, cold[:1], cold[:1])[1] for row in logits])
    return bool(np.abs(scores - alone).max() < (1e-3 if logits[0].dtype == mx.float32 else 0.1))


def draw(logits: mx.array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Do the same as `gce.adapters.models.local.token_sampling.draw`, on mlx's device, with one synchronisation."""
    logits = logits.astype(mx.float32)
    shifted = logits - mx.max(logits, axis=-1, keepdims=True)
    normal = mx.log(mx.sum(mx.exp(shifted), axis=-1))
    tokens = mx.argmax(logits, axis=-1)
    sampling = mx.zeros_like(normal)
    if temperatures.any():
        warm = mx.array(temperatures > 0)
        heat = mx.array(np.where(temperatures > 0, temperatures, 1).astype(np.float32))
        weights = mx.exp(shifted / heat[:, None])
        cumulative = mx.cumsum(weights, axis=-1)
        total = cumulative[:, -1]
        point = mx.array(np.minimum(uniforms, np.float32(1 - 2**-24))) * total
        drawn = mx.argmax(cumulative > point[:, None], axis=-1)
        share = mx.take_along_axis(weights, drawn[:, None], axis=-1)[:, 0] / total
        tokens = mx.where(warm, drawn, tokens)
        sampling = mx.where(warm, mx.log(share), sampling)
    log_probabilities = mx.take_along_axis(shifted, tokens[:, None], axis=-1)[:, 0] - normal
    mx.eval(tokens, log_probabilities, sampling)
    return np.array(tokens).astype(np.int64), np.array(log_probabilities), np.array(sampling)


class _RowPositions:
    """The position at which each row writes next; shared by the caches of all blocks during a step."""

    def __init__(self, rows: int) -> None:
        self.next = np.zeros(rows, np.int64)
        self.refresh()

    def refresh(self) -> None:
        self.offset = mx.array(self.next.astype(np.int32))
        self.columns = int(self.next.max()) + 1


class _RowCache:
    """Keys and values of one block, written in place at each row's own position.

    Has the cache interface that mlx-lm's models expect: `offset` (one per row, for correct RoPE), `update_and_fetch`
    and `make_mask`.
    """

    def __init__(self, positions: _RowPositions) -> None:
        self._positions = positions
        # (rows, heads, columns, head size); allocated when the first keys show the number of heads and their size.
        self.keys: Any = None
        self.values: Any = None

    @property
    def offset(self) -> mx.array:
        return self._positions.offset

    def make_mask(self, length: int, return_array: bool = False, window_size: int | None = None) -> mx.array:
        assert length == 1, length
        columns = mx.arange(self._positions.columns)[None]
        last = self._positions.offset[:, None]
        allowed = columns <= last
        if window_size is not None:
            allowed = allowed & (columns > last - window_size)
        return allowed[:, None, None]

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        columns = self._positions.columns
        self.grow(keys, values, columns)
        index = self._positions.offset[:, None, None, None]
        self.keys = mx.put_along_axis(self.keys, mx.broadcast_to(index, keys.shape), keys, axis=2)
        self.values = mx.put_along_axis(self.values, mx.broadcast_to(index, values.shape), values, axis=2)
        return self.keys[:, :, :columns], self.values[:, :, :columns]

    def grow(self, keys: mx.array, values: mx.array, columns: int) -> None:
        """Make room for `columns` columns of heads like these."""
        rows = len(self._positions.next)
        held = 0 if self.keys is None else self.keys.shape[2]
        if columns <= held:
            return
        more = -(-(columns - held) // _GROWTH) * _GROWTH
        for name, like in (("keys", keys), ("values", values)):
            room = mx.zeros((rows, like.shape[1], more, like.shape[3]), like.dtype)
            old = getattr(self, name)
            setattr(self, name, room if old is None else mx.concatenate([old, room], axis=2))


class BatchDecoder:
    """Rows in one batch, for models whose caches are all plain `KVCache`s."""

    def __init__(self, model: nn.Module, rows: int) -> None:
        self.rows = rows
        self._model = model
        self._positions = _RowPositions(rows)
        self._caches = [_RowCache(self._positions) for _ in make_prompt_cache(model)]

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return each prompt's prefix: the number of tokens, and the keys and values of each block."""
        width = max(len(prompt) for prompt in prompts)
        if width == 0:
            return [(0, []) for _ in prompts]
        # Right padding needs no mask: attention is causal, and positions after the prompt are cut off.
        padded = mx.array([list(prompt) + [0] * (width - len(prompt)) for prompt in prompts])
        caches = make_prompt_cache(self._model)
        self._model(padded, cache=caches)
        found = []
        for row, prompt in enumerate(prompts):
            cut = [(c.keys[row : row + 1, :, : len(prompt)], c.values[row : row + 1, :, : len(prompt)]) for c in caches]
            found.append((len(prompt), [tuple(map(mx.contiguous, pair)) for pair in cut]))
        # mlx is lazy: the logits are never evaluated, so the head and the last block's output cost nothing.
        mx.eval([pairs for _, pairs in found])
        return found

    def place(self, row: int, prefix: Any) -> None:
        """Copy the prefix's keys and values into `row`."""
        length, pairs = prefix
        self._positions.next[row] = length
        for cache, (keys, values) in zip(self._caches, pairs, strict=bool(pairs)):
            cache.grow(keys, values, length)
            cache.keys[row : row + 1, :, :length] = keys
            cache.values[row : row + 1, :, :length] = values

    def release(self, row: int) -> None:
        """Restart `row` at the beginning; its output is not read."""
        self._positions.next[row] = -1

    def keep(self, rows: Sequence[int]) -> None:
        """Copy the remaining rows into smaller buffers."""
        self.rows = len(rows)
        chosen = mx.array(list(rows))
        self._positions.next = self._positions.next[list(rows)]
        for cache in self._caches:
            if cache.keys is not None:
                cache.keys, cache.values = cache.keys[chosen], cache.values[chosen]
        mx.eval([(cache.keys, cache.values) for cache in self._caches if cache.keys is not None])

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token in all rows."""
        self._positions.next = np.maximum(self._positions.next, 0)
        self._positions.refresh()
        logits = self._model(mx.array(tokens.astype(np.int32))[:, None], cache=self._caches)[:, -1]
        drawn = draw(logits, uniforms, temperatures)
        self._positions.next += 1
        return drawn


class SequenceDecoder:
    """One sequence at a time, with any kind of cache."""

    def __init__(self, model: nn.Module) -> None:
        self.rows = 1
        self._model = model
        self._cache = make_prompt_cache(model)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return each prompt's prefix: the model's own caches after the prompt."""
        found = []
        for prompt in prompts:
            caches = make_prompt_cache(self._model)
            if prompt:
                self._model(mx.array([list(prompt)]), cache=caches)
                mx.eval([cache.state for cache in caches])
            found.append(caches)
        return found

    def place(self, row: int, prefix: Any) -> None:
        """Continue from a copy of the prefix's caches."""
        self._cache = copy.deepcopy(prefix)

    def release(self, row: int) -> None:
        """Nothing to do: the next `place` replaces the caches."""

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing to do: there is one row."""

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token."""
        logits = self._model(mx.array(tokens.astype(np.int32))[:, None], cache=self._cache)[:, -1]
        return draw(logits, uniforms, temperatures)
