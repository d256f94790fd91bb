"""Which blocks get LoRA, from what they do with real prompts.

Knows activation statistics, and nothing of weights, modules or how an adapter is attached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gce.domain import randomness
from gce.domain.learning import LayerActivation

__all__ = ["Strategy", "choose_layers", "normalised_activation"]

Strategy = Literal["probe", "last", "random", "all"]


def normalised_activation(activation: LayerActivation) -> float:
    """How much a block changes the residual stream: mean square of what it adds over that of its output.

    The plain Frobenius norm of the output says something else. It grows with the number of positions, so prompts of
    other lengths rank blocks differently, and it grows with depth, because the residual stream adds up what all earlier
    blocks wrote: its top K are nearly always the last K, whatever those blocks do. A ratio of mean squares is free of
    length, width and scale. 0 where the output is all zero.
    """
    if activation.mean_square == 0.0:
        return 0.0
    return activation.update_mean_square / activation.mean_square


def choose_layers(
    activations: Sequence[LayerActivation], count: int, *, strategy: Strategy = "probe", key: int = 0
) -> tuple[int, ...]:
    """The blocks to adapt, as indices in ascending order.

    `probe` takes the `count` blocks of largest normalised activation, ties to the lower index; `last` those nearest
    the output; `random` a choice that depends on `key` and the block indices alone; `all` takes every block and does
    not look at `count`.

    Raises:
        ValueError: an unknown strategy, a count that the blocks do not allow, no block, one given twice, or a
            statistic that is negative or not finite.
    """
    if strategy not in ("probe", "last", "random", "all"):
        raise ValueError(f"expected strategy probe, last, random or all, got {strategy!r}")
    layers = [activation.layer for activation in activations]
    if not layers or len(set(layers)) != len(layers):
        raise ValueError(f"expected statistics of every block once, got blocks {layers!r}")
    if strategy == "all":
        return tuple(sorted(layers))
    if not 1 <= count <= len(layers):
        raise ValueError(f"expected a count from 1 to the model's {len(layers)} blocks, got {count!r}")
    if strategy == "last":
        return tuple(sorted(layers)[-count:])
    if strategy == "random":
        chosen = sorted(layers, key=lambda layer: randomness.key(key, "layer", layer))[:count]
    else:
        for activation in activations:
            _check_statistics(activation)
        by_activation = sorted(activations, key=lambda one: (-normalised_activation(one), one.layer))
        chosen = [activation.layer for activation in by_activation[:count]]
    return tuple(sorted(chosen))


def _check_statistics(activation: LayerActivation) -> None:
    for name in ("mean_square", "update_mean_square"):
        value = getattr(activation, name)
        if not (math.isfinite(value) and value >= 0.0):
            raise ValueError(f"block {activation.layer}: expected a finite {name} from 0, got {value!r}")
