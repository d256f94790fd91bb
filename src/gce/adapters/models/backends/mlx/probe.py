"""Activation statistics of a model's blocks on token sequences. Independent of text and adapters."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from gce.domain.learning import LayerActivation

__all__ = ["block_statistics"]

Seen = list[tuple[mx.array, mx.array]]


def block_statistics(model: nn.Module, sequences: Iterable[Sequence[int]]) -> tuple[LayerActivation, ...]:
    """Return one record per block, over all positions of all sequences; all zero if there are none."""
    blocks = _blocks(model)
    sums = np.zeros((len(blocks), 2))
    numbers = 0
    with _watched(blocks) as seen:
        for tokens in sequences:
            seen.clear()
            model(mx.array([list(tokens)]))
            squares = [(mx.sum(mx.square(out)), mx.sum(mx.square(out - into))) for into, out in seen]
            mx.eval(squares)
            sums += np.array([[float(square) for square in pair] for pair in squares])
            numbers += seen[0][1].size
    means = sums / max(numbers, 1)
    return tuple(
        LayerActivation(layer=layer, mean_square=float(mean), update_mean_square=float(update))
        for layer, (mean, update) in enumerate(means)
    )


def _blocks(model: nn.Module) -> list[Any]:
    """Return the list in which the model keeps its blocks: `model.layers` of some families is a copy."""
    first = model.layers[0]
    lists = (value for _, module in model.named_modules() for value in module.values() if isinstance(value, list))
    return next(value for value in lists if value and value[0] is first)


@contextlib.contextmanager
def _watched(blocks: list[Any]) -> Iterator[Seen]:
    """Record input and output of each block in the yielded list, within the context."""
    seen: Seen = []
    originals = list(blocks)
    blocks[:] = [_Watched(block, seen) for block in originals]
    try:
        yield seen
    finally:
        blocks[:] = originals


class _Watched:
    """A block that records its calls in `seen` and otherwise behaves like the original."""

    def __init__(self, block: nn.Module, seen: Seen) -> None:
        self._block = block
        self._seen = seen

    def __call__(self, x: mx.array, *arguments: Any, **options: Any) -> mx.array:
        out: mx.array = self._block(x, *arguments, **options)
        self._seen.append((x, out))
        return out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)
