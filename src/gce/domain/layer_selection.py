"""Choose the transformer blocks that get LoRA, from their activations on real prompts.

Works on activation statistics alone; it does not depend on weights, modules or how an adapter is attached.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from gce.domain import randomness
from gce.domain.learning import LayerActivation

__all__ = ["ALL_LINEAR", "Strategy", "choose_layers", "normalised_activation"]

Strategy = Literal["probe", "last", "random", "all"]
ALL_LINEAR = "all-linear"
"""The target modules that are all linears of the chosen blocks."""


def normalised_activation(activation: LayerActivation) -> float:
    """How much a block changes the residual stream: mean square of its update over mean square of its output.

    The Frobenius norm of the output is not used. It grows with the number of positions, so the ranking would depend on
    the prompt lengths. It also grows with depth, because the residual stream accumulates the updates of all earlier
    blocks, so its top K are nearly always the last K. The ratio of mean squares does not depend on length, width or
    scale. 0 if the output is all zero.
    """
    if activation.mean_square == 0.0:
        return 0.0
    return activation.update_mean_square / activation.mean_square


def choose_layers(
    activations: Sequence[LayerActivation], count: int, *, strategy: Strategy = "probe", key: int = 0
) -> tuple[int, ...]:
    """Return the indices of the blocks to adapt, in ascending order.

    Strategies:

    - `probe`: the `count` blocks with the largest normalised activation; ties go to the lower index.
    - `last`: the `count` blocks nearest the output.
    - `random`: a choice that depends only on `key` and the block indices.
    - `all`: every block; `count` is ignored.

    Raises:
        ValueError: an unknown strategy, a count out of range, no blocks, a duplicate block, or a statistic that is
            negative or not finite.
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
