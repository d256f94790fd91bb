"""Decoding with a plain Llama's matrices in bfloat16: whether it is faster on this processor, and what it costs.

Embeddings, norms, attention, the head and log-probabilities stay float32, and so does learning. (bfloat16 would round
logits between 8 and 16 to multiples of 1/16.) torch, which multiplies, is imported only where bfloat16 is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from attrs import evolve, field, frozen

from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread
from gce.adapters.models.backends.numpy.decoder import NumpyDecoder
from gce.adapters.models.backends.numpy.llama import LlamaWeights
from gce.adapters.models.backends.numpy.shared_prefixes import Openings
from gce.adapters.models.local.token_sampling import Array, draw
from gce.domain.models import AUTO_PRECISION, FLOAT32, Precision
from gce.errors import MissingExtra, ModelError

__all__ = ["Comparison", "Lowered", "chosen_precision", "compare", "lower"]

FASTER = 1.2
"""How many times as fast decoding has to be for `auto` to take bfloat16."""
MOST_DIFFERENCE = 0.02
"""Maximum mean absolute difference of log-probabilities from float32 with which `auto` takes bfloat16, nats."""
REFUSED_DIFFERENCE = 0.05
"""A model that differs more is refused."""
_HINT = "use {model.precision} float32"
_MATRICES = ("queries_keys_values", "output", "gate_up", "down")
_ROWS = 16
_STEPS = 24


@frozen(eq=False)
class Lowered:
    """The matrices of a base's blocks in bfloat16."""

    base: LlamaWeights
    begin_thread: Callable[[], None]
    """To be called in each thread that decodes, before it does."""
    _convert: Callable[[Array], Any]
    _known: dict[int, Any] = field(factory=dict, init=False)
    """By the `id` of the base's matrix, which lives as long as this."""

    def __attrs_post_init__(self) -> None:
        for matrix in _matrices(self.base):
            self._known[id(matrix)] = self._convert(matrix)

    def like(self, weights: LlamaWeights) -> LlamaWeights:
        """Return `weights` with their blocks in bfloat16; matrices of the base are not converted again."""

        def lowered(matrix: Array) -> Any:
            return self._known.get(id(matrix)) or self._convert(matrix)

        blocks = tuple(
            evolve(block, **{name: lowered(getattr(block, name)) for name in _MATRICES}) for block in weights.blocks
        )
        return evolve(weights, blocks=blocks)


@frozen
class Comparison:
    """Decoding in bfloat16 against decoding in float32, on the same tokens."""

    speed: float
    """Median of the CPU time of a step in float32 over that in bfloat16, one thread."""
    agreement: float
    """Share of positions where both have the same most probable token."""
    difference: float
    """Mean absolute difference of the log-probability of the token drawn, nats."""


def lower(weights: LlamaWeights) -> Lowered:
    """Convert a base.

    Raises:
        MissingExtra: torch is not installed.
    """
    from gce.adapters.models.backends.torch.bfloat16 import Bfloat16Matrix, one_torch_thread

    return Lowered(weights, one_torch_thread, Bfloat16Matrix)


def chosen_precision(weights: LlamaWeights | None, precision: Precision) -> tuple[Lowered | None, str]:
    """Return the matrices to sample with, None for float32, and what the user should know of them.

    `weights` are None for a model that numpy does not decode.

    Raises:
        ModelError: bfloat16 is asked for, and this model cannot use it, or is too sensitive to it.
        MissingExtra: bfloat16 is asked for, and torch is not installed.
    """
    if precision == FLOAT32:
        return None, ""
    auto = precision == AUTO_PRECISION
    if weights is None:
        if auto:
            return None, ""
        raise ModelError("this model cannot sample in bfloat16: a plain Llama on a CPU under Linux can", hint=_HINT)
    try:
        lowered = lower(weights)
    except MissingExtra:
        if auto:
            return None, ""
        raise
    found = compare(lowered)
    if auto and (found.speed < FASTER or found.difference > MOST_DIFFERENCE):
        return None, ""
    if found.difference > REFUSED_DIFFERENCE:
        raise ModelError(
            f"bfloat16 changes this model's log-probabilities by {found.difference:.2g} nats on average, more than "
            f"{REFUSED_DIFFERENCE}",
            hint=_HINT,
        )
    return lowered, (
        f"samples in bfloat16 (against float32, {_ROWS * _STEPS} tokens: greedy agreement "
        f"{100 * found.agreement:.1f} %, mean absolute log-probability difference {found.difference:.4f} nats)"
    )


def compare(lowered: Lowered) -> Comparison:
    """Decode 16 sequences of 24 tokens that float32 draws at temperature 1, always the same, in both precisions."""
    lowered.begin_thread()
    weights = lowered.base
    random = np.random.Generator(np.random.Philox(0))
    starts = random.integers(len(weights.embedding), size=(_ROWS, 1)).tolist()
    decoders = [NumpyDecoder(Openings(each), _ROWS, starts) for each in (weights, lowered.like(weights))]
    for decoder in decoders:
        for row, prefix in enumerate(decoder.prefill(starts)):
            decoder.place(row, prefix)
    tokens = np.array(starts)[:, 0]
    ratios, same, apart = [], [], []
    for _ in range(_STEPS):
        (exact, slow), (rounded, fast) = (_step(decoder, tokens) for decoder in decoders)
        tokens = draw(exact, random.random(_ROWS, np.float32), np.ones(_ROWS, np.float32))[0]
        ratios.append(slow / fast)
        same.append(exact.argmax(axis=1) == rounded.argmax(axis=1))
        apart.append(np.abs(exact - rounded)[np.arange(_ROWS), tokens])
    return Comparison(median(ratios), float(np.mean(same)), float(np.mean(apart)))


def _step(decoder: NumpyDecoder, tokens: Array) -> tuple[Array, float]:
    """Return the log-probabilities of the next tokens, (rows, vocabulary), and the seconds of CPU time."""
    with one_numpy_blas_thread():
        began = time.thread_time()
        logits = decoder.logits(tokens)
        seconds = time.thread_time() - began
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), max(seconds, 1e-9)


def _matrices(weights: LlamaWeights) -> list[Array]:
    return [getattr(block, name) for block in weights.blocks for name in _MATRICES]
