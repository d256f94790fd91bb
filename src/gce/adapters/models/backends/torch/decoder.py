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
from gce.errors import ModelError, one_line

__all__ = ["BatchDecoder", "SequenceDecoder", "decoder_maker", "draw"]

_GROWTH = 256
"""Number of columns by which key-value buffers grow."""
_GRAPH_GROWTH = 64
"""The same for steps that are recorded as CUDA graphs."""


def decoder_maker(model: Any) -> DecoderMaker:
    """Return a maker of decoders for this model, whose weights must not change while a decoder is in use."""
    config = model.config.get_text_config()
    kinds = getattr(config, "layer_types", None) or ["full_attention"]
    plain = all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)
    # Other attention implementations read a boolean mask differently, or make their own.
    if plain and set(kinds) == {"full_attention"} and config._attn_implementation == "sdpa":
        return lambda rows, _: BatchDecoder(model, rows)
    _check_cache(model)
    return lambda rows, _: SequenceDecoder(model)


def _check_cache(model: Any) -> None:
    """Raise ModelError unless the model continues from its cache as it computes the whole sequence."""
    name, cold = type(model).__name__, np.zeros(1)
    decoder = SequenceDecoder(model)
    try:
        decoder.place(0, decoder.prefill([(0, 1)])[0])
        _, continued, _ = decoder.step(np.array([1]), cold, cold)
        with torch.no_grad():
            whole = model(torch.tensor([[0, 1, 1]], device=model.device), use_cache=False).logits[:, -1]
    except Exception as error:  # The vendor may raise anything for a cache of another kind.
        raise ModelError(f"{name} can be scored, but not sampled with its cache: {one_line(error)}") from error
    _, alone, _ = draw(whole, cold, cold)
    if not abs(continued - alone).max() < (1e-3 if model.dtype == torch.float32 else 0.1):
        raise ModelError(f"{name} can be scored, but not sampled: with its cache it computes other log-probabilities")


def draw(logits: Tensor, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Do the same as `gce.adapters.models.local.token_sampling.draw`, on the model's device."""
    given = torch.from_numpy(np.stack([uniforms, temperatures]).astype(np.float32)).to(logits.device)
    return _arrays(_drawn(logits, *given, warm=bool(temperatures.any())))


def _drawn(logits: Tensor, uniforms: Tensor, temperatures: Tensor, *, warm: bool) -> Tensor:
    """Return tokens and their two log-probabilities as the rows of one float32 array; without `warm`, all are greedy.

    Tokens are below 2^24, so that float32 holds them exactly, and one copy brings all to the CPU.
    """
    logits = logits.float()
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    normal = shifted.exp().sum(dim=-1).log()
    tokens = logits.argmax(dim=-1)
    sampling = torch.zeros_like(normal)
    if warm:
        heated = temperatures > 0
        weights = (shifted / torch.where(heated, temperatures, 1.0)[:, None]).exp()
        cumulative = weights.cumsum(dim=-1)
        total = cumulative[:, -1]
        # Strictly below the total, so that the drawn token has positive probability.
        point = uniforms.clamp(max=1 - 2**-24) * total
        drawn = (cumulative > point[:, None]).float().argmax(dim=-1)
        share = weights.gather(1, drawn[:, None])[:, 0] / total
        tokens = torch.where(heated, drawn, tokens)
        sampling = torch.where(heated, share.log(), sampling)
    log_probabilities = shifted.gather(1, tokens[:, None])[:, 0] - normal
    return torch.stack([tokens.float(), log_probabilities, sampling])


def _arrays(drawn: Tensor) -> tuple[Array, Array, Array]:
    tokens, log_probabilities, sampling = drawn.cpu().numpy()
    return tokens.astype(np.int64), log_probabilities, sampling


class _RowLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values of one block, written in place at each row's own position."""

    keys: Any
    values: Any
    is_initialized: bool

    def __init__(self, positions: _Positions) -> None:
        super().__init__()
        self._positions = positions

    @property
    def held(self) -> int:
        """Number of columns that there is room for."""
        return self.keys.shape[2] if self.is_initialized else 0

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
        held = self.held
        if columns <= held:
            return
        more = _rounded(columns - held, self._positions.growth)
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

    offset: Tensor

    def __init__(self, rows: int, growth: int) -> None:
        self.next = np.zeros(rows, np.int64)
        self.growth = growth
        self.columns = 0
        """Number of columns that a step attends to."""


def _rounded(columns: int, growth: int) -> int:
    return -(-columns // growth) * growth


def _recordable(model: Any) -> bool:
    """Whether steps can be recorded as CUDA graphs; kernels of quantized linears may not allow it."""
    return bool(model.device.type == "cuda" and not getattr(model, "is_quantized", False))


class BatchDecoder:
    """Rows in one batch, for models whose blocks all attend to all earlier positions.

    On CUDA, the kernels of a step are recorded as a CUDA graph and replayed: launching them one by one takes several
    times as long as a small model's step. A graph holds for fixed shapes, so buffers grow by few columns, all of which
    a step attends to, and the first step of each shape is not recorded.
    """

    def __init__(self, model: Any, rows: int) -> None:
        self.rows = rows
        self.graphs = _recordable(model)
        """Whether steps are recorded."""
        self._model = model
        self._positions = _Positions(rows, _GRAPH_GROWTH if self.graphs else _GROWTH)
        layers = DynamicCache(config=model.config).layers
        self._cache = DynamicCache(config=model.config)
        self._cache.layers = [_RowLayer(self._positions) for _ in layers]
        self._placed: dict[int, tuple[Any, list[int]]] = {}
        """Prefixes that are still to be copied, by identity, each with its rows."""
        self._shape: tuple[int, ...] = ()
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs = self._outputs = torch.empty(0)

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
        """Start `row` after the prefix, whose keys and values are copied before the next step."""
        self._positions.next[row] = prefix[0]
        self._placed.setdefault(id(prefix), (prefix, []))[1].append(row)

    def release(self, row: int) -> None:
        """Restart `row` at the beginning; its output is not read."""
        self._positions.next[row] = 0

    def keep(self, rows: Sequence[int]) -> None:
        """Copy the remaining rows into smaller buffers."""
        self._copy_prefixes()
        self.rows = len(rows)
        self._positions.next = self._positions.next[list(rows)]
        chosen = torch.tensor(list(rows), device=self._model.device)
        with torch.inference_mode():
            for layer in self._cache.layers:
                layer.keep(chosen)

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Decode one token in all rows."""
        self._copy_prefixes()
        positions = self._positions
        columns = int(positions.next.max()) + 1
        positions.columns = _rounded(columns, positions.growth) if self.graphs else columns
        # Integers below 2^24 are exact in float32, and one copy brings all to the device.
        given = torch.from_numpy(np.stack([tokens, positions.next, uniforms, temperatures]).astype(np.float32))
        with torch.inference_mode():
            drawn = _arrays(self._run(given, warm=bool(temperatures.any())))
        positions.next += 1
        return drawn

    def _copy_prefixes(self) -> None:
        """Copy each prefix's keys and values into all of its rows at once."""
        with torch.inference_mode():
            for (length, pairs), rows in self._placed.values():
                chosen = torch.tensor(rows, device=self._model.device)
                for layer, (keys, values) in zip(self._cache.layers, pairs, strict=bool(pairs)):
                    layer.grow(keys[None], values[None], length)
                    layer.keys[chosen, :, :length] = keys
                    layer.values[chosen, :, :length] = values
        self._placed = {}

    def _run(self, given: Tensor, *, warm: bool) -> Tensor:
        """Compute the step, by replaying its graph if there is one or can be one."""
        if not self.graphs:
            return self._compute(given.to(self._model.device), warm=warm)
        for layer in self._cache.layers:
            if layer.is_initialized:
                layer.grow(layer.keys, layer.values, self._positions.columns)
        shape = (self.rows, self._positions.columns, self._cache.layers[0].held, warm)
        if shape != self._shape:
            self._graph, self._shape = None, shape
            return self._compute(given.to(self._model.device), warm=warm)
        self._inputs = given.to(self._model.device) if self._graph is None else self._inputs.copy_(given)
        try:
            self._graph = self._graph or self._recorded(warm=warm)
        except RuntimeError:  # The model's code asks the device for a value.
            self.graphs = False
            return self._compute(self._inputs, warm=warm)
        self._graph.replay()
        return self._outputs

    def _recorded(self, *, warm: bool) -> torch.cuda.CUDAGraph:
        """Record the step from `_inputs` to `_outputs`."""
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                self._outputs = self._compute(self._inputs, warm=warm)
            finally:
                graph.capture_end()
        return graph

    def _compute(self, given: Tensor, *, warm: bool) -> Tensor:
        """Decode one token in all rows; `given` has a row each of tokens, positions, uniforms and temperatures."""
        positions = self._positions
        tokens, positions.offset = given[0].long(), given[1].long()
        allowed = torch.arange(positions.columns, device=given.device)[None] <= positions.offset[:, None]
        found = self._model(
            tokens[:, None],
            attention_mask=allowed[:, None, None],
            position_ids=positions.offset[:, None],
            past_key_values=self._cache,
            use_cache=True,
        )
        return _drawn(found.logits[:, -1], given[2], given[3], warm=warm)


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
