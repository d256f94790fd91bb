"""Decoding of rows of sequences with a causal language model of transformers, for the sampler.

`decoder_maker` batches rows if every block attends to all earlier positions with torch's own kernel, and decodes one
sequence at a time otherwise. Works on tokens and positions, not requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from gce.adapters.models.local.continuous_batching import DecoderMaker
from gce.adapters.models.local.token_sampling import Array

__all__ = ["BatchDecoder", "SequenceDecoder", "decoder_maker", "draw"]

_GROWTH = 256
"""Number of columns by which key-value buffers grow."""


def decoder_maker(model: Any) -> DecoderMaker:
    """Return a maker of decoders for this model, whose weights must not change while a decoder is in use."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
    # Other attention implementations read a boolean mask differently, or make their own.
    if plain and set(kinds) == {"full_attention"} and config._attn_implementation == "sdpa":
        return lambda rows, _: BatchDecoder(model, rows)
    return lambda rows, _: SequenceDecoder(model)


def draw(logits: Tensor, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Do the same as `gce.adapters.models.local.token_sampling.draw`, on the model's device."""
    logits = logits.float()
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    normal = shifted.exp().sum(dim=-1).log()
    tokens = logits.argmax(dim=-1)
    sampling = torch.zeros_like(normal)
    if temperatures.any():
        warm = torch.from_numpy(temperatures > 0).to(logits.device)
        heat = torch.from_numpy(np.where(temperatures > 0, temperatures, 1).astype(np.float32)).to(logits.device)
        weights = (shifted / heat[:, None]).exp()
        cumulative = weights.cumsum(dim=-1)
        total = cumulative[:, -1]
        # Strictly below the total, so that the drawn token has positive probability.
        point = torch.from_numpy(np.minimum(uniforms, np.float32(1 - 2**-24))).to(logits.device) * total
        drawn = (cumulative > point[:, None]).float().argmax(dim=-1)
        share = weights.gather(1, drawn[:, None])[:, 0] / total
        tokens = torch.where(warm, drawn, tokens)
        sampling = torch.where(warm, share.log(), sampling)
    log_probabilities = shifted.gather(1, tokens[:, None])[:, 0] - normal
    return tokens.cpu().numpy(), log_probabilities.cpu().numpy(), sampling.cpu().numpy()


class _RowLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one block, written in place at each row's own position."""

    keys: Any
    values: Any
    is_initialized: bool

    def __init__(self, positions: _Positions) -> None:
        super().__init__()
        self._positions = positions

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Implement the cache interface of transformers: take one column per row, return all columns."""
        columns = self._positions.columns
        self.grow(key_states, value_states, columns)
        rows = torch.arange(len(key_states), device=key_states.device)
        self.keys[rows, :, self._positions.offset] = key_states[:, :, 0]
        self.values[rows, :, self._positions.offset] = value_states[:, :, 0]
        return self.keys[:, :, :columns], self.values[:, :, :columns]

    def grow(self, keys: Tensor, values: Tensor, columns: int) -> None:
        """Make room for `columns` columns of heads like these."""
        held = self.keys.shape[2] if self.is_initialized else 0
        if columns <= held:
            return
        more = -(-(columns - held) // _GROWTH) * _GROWTH
        for name, like in (("keys", keys), ("values", values)):
            room = like.new_zeros(len(self._positions.next), like.shape[1], more, like.shape[3])
            setattr(self, name, torch.cat([getattr(self, name), room], dim=2) if held else room)
        self.is_initialized = True

    def keep(self, rows: Tensor) -> None:
        """Continue with these rows only."""
        if self.is_initialized:
            self.keys, self.values = self.keys[rows], self.values[rows]


class _Positions:
    """The position at which each row writes next; shared by all blocks during a step."""

    def __init__(self, rows: int, device: torch.device) -> None:
        self.next = np.zeros(rows, np.int64)
        self._device = device
        self.refresh()

    def refresh(self) -> None:
        self.offset = torch.from_numpy(self.next.copy()).to(self._device)
        self.columns = int(self.next.max()) + 1


class BatchDecoder:
    """Rows in one batch, for models whose blocks all attend to all earlier positions."""

    def __init__(self, model: Any, rows: int) -> None:
        self.rows = rows
        self._model = model
        self._positions = _Positions(rows, model.device)
        layers = DynamicCache(config=model.config).layers
        self._cache = DynamicCache(config=model.config)
        self._cache.layers = [_RowLayer(self._positions) for _ in layers]

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return each prompt's prefix: the number of tokens, and the keys and values of each block."""
        width = max(len(prompt) for prompt in prompts)
        if width == 0:
            return [(0, []) for _ in prompts]
        # Right padding needs no mask: attention is causal, and positions after the prompt are cut off.
        padded = torch.tensor([[*prompt] + [0] * (width - len(prompt)) for prompt in prompts])
        cache = DynamicCache(config=self._model.config)
        with torch.inference_mode():
            # The head computes one position only, and its output is not used.
            self._model(padded.to(self._model.device), past_key_values=cache, use_cache=True, logits_to_keep=1)
        return [
            (
                len(prompt),
                [
                    (layer.keys[row, :, : len(prompt)].clone(), layer.values[row, :, : len(prompt)].clone())
                    for layer in cache.layers
                ],
            )
            for row, prompt in enumerate(prompts)
        ]

    def place(self, row: int, prefix: Any) -> None:
        """Copy the prefix's keys and values into `row`."""
        length, pairs = prefix
        self._positions.next[row] = length
        with torch.inference_mode():
            for layer, (keys, values) in zip(self._cache.layers, pairs, strict=bool(pairs)):
                layer.grow(keys[None], values[None], length)
                layer.keys[row, :, :length] = keys
                layer.values[row, :, :length] = values

    def release(self, row: int) -> None:
        """Restart `row` at the beginning; its output is not read."""
        self._positions.next[row] = 0

    def keep(self, rows: Sequence[int]) -> None:
        """Copy the remaining rows into smaller buffers."""
        self.rows = len(rows)
        self._positions.next = self._positions.next[list(rows)]
        chosen = torch.tensor(list(rows), device=self._model.device)
        with torch.inference_mode():
            for layer in self._cache.layers:
                layer.keep(chosen)

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token in all rows."""
        positions = self._positions
        positions.refresh()
        device = self._model.device
        allowed = torch.arange(positions.columns, device=device)[None] <= positions.offset[:, None]
        with torch.inference_mode():
            found = self._model(
                torch.from_numpy(tokens.astype(np.int64)).to(device)[:, None],
                attention_mask=allowed[:, None, None],
                position_ids=positions.offset[:, None],
                past_key_values=self._cache,
                use_cache=True,
            )
            drawn = draw(found.logits[:, -1], uniforms, temperatures)
        positions.next += 1
        return drawn


class SequenceDecoder:
    """One sequence at a time, with any kind of cache."""

    def __init__(self, model: Any) -> None:
        self.rows = 1
        self._model = model
        self._cache: Any = None

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return each prompt's prefix: the model's own cache after the prompt."""
        found = []
        for prompt in prompts:
            cache = None
            if prompt:
                with torch.inference_mode():
                    row = torch.tensor([list(prompt)], device=self._model.device)
                    cache = self._model(row, use_cache=True, logits_to_keep=1).past_key_values
            found.append(cache)
        return found

    def place(self, row: int, prefix: Any) -> None:
        """Continue from a copy of the prefix's cache."""
        self._cache = deepcopy(prefix)

    def release(self, row: int) -> None:
        """Nothing to do: the next `place` replaces the cache."""

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing to do: there is one row."""

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token."""
        with torch.inference_mode():
            row = torch.from_numpy(tokens.astype(np.int64)).to(self._model.device)[:, None]
            found = self._model(row, past_key_values=self._cache, use_cache=True)
            self._cache = found.past_key_values
            return draw(found.logits[:, -1], uniforms, temperatures)
