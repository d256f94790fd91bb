"""A LoRA adapter in words and numbers: its shape, how it learns, where it starts, and its description on disk.

The layout is mlx-lm's, whatever the backend: PATH.lora_a of (inputs, rank), PATH.lora_b of (rank, outputs), added to
PATH's output as scale x (inputs @ lora_a @ lora_b). Equal seeds start equal adapters in every backend. Knows no vendor.

Source: Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from attrs import field, frozen, validators

from gce.adapters.models.local.token_sampling import Array
from gce.domain.learning import ModelState
from gce.errors import ModelError

__all__ = [
    "LoraSettings",
    "OptimizerSettings",
    "adapter_config",
    "check_layers",
    "check_same_shapes",
    "first_values",
]


def _positive_or_none(_record: Any, attribute: Any, value: float | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(f"expected {attribute.name} above 0 or None, got {value!r}")


@frozen
class LoraSettings:
    """The shape of the adapter."""

    rank: int = field(default=16, validator=validators.ge(1))
    scale: float = 2.0
    """Factor on the low-rank product (alpha / rank elsewhere)."""
    layers: tuple[int, ...] = ()
    """Blocks to adapt, from the input, 0-based. Empty: none until `attach`."""
    dropout: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])
    """Of the adapter's inputs, during updates only."""
    keys: tuple[str, ...] | None = None
    """Linears of each block by path inside it, such as `self_attn.q_proj`; None for all of them."""


@frozen
class OptimizerSettings:
    """AdamW with bias correction, and how gradients are gathered."""

    learning_rate: float = field(default=1e-3, validator=validators.gt(0.0))
    weight_decay: float = field(default=0.0, validator=validators.ge(0.0))
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    max_gradient_norm: float | None = field(default=1.0, validator=_positive_or_none)
    """Gradients are scaled down to this global norm; None leaves them."""
    tokens_per_pass: int = field(default=512, validator=validators.ge(1))
    """Tokens whose activations a thread holds at once, padding included in mlx, on average in numpy; a batch takes as
    many passes as it needs."""


def first_values(seed: int, path: str, shape: tuple[int, ...]) -> Array:
    """What `lora_a` of the linear at `path` starts with, uniform within inputs^-0.5 of 0; `lora_b` starts with zeros.

    They depend on the seed and the path alone.
    """
    generator = np.random.Generator(np.random.Philox([seed, crc32(path.encode())]))
    bound = shape[0] ** -0.5
    return generator.uniform(-bound, bound, shape).astype(np.float32)


def adapter_config(lora: LoraSettings, layers: Sequence[int], modules: Sequence[str]) -> dict[str, Any]:
    """What mlx-lm reads from `adapter_config.json`; with full paths as keys it does not look at `num_layers`."""
    return {
        "fine_tune_type": "lora",
        "num_layers": len(layers),
        "lora_parameters": {
            "rank": lora.rank,
            "scale": lora.scale,
            "dropout": lora.dropout,
            "keys": list(modules),
        },
    }


def check_layers(layers: Sequence[int], blocks: int) -> None:
    """ModelError where these are not different blocks of a model that has so many."""
    if len(set(layers)) != len(layers) or not all(0 <= layer < blocks for layer in layers):
        raise ModelError(f"expected different blocks from 0 to {blocks - 1}, got {list(layers)!r}")


def check_same_shapes(expected: Mapping[str, Array], state: ModelState, layers: Sequence[int]) -> None:
    """ValueError where `state` does not hold arrays of the names, shapes and kinds that an adapter has."""
    if expected.keys() != state.arrays.keys():
        odd = sorted(expected.keys() ^ state.arrays.keys())
        raise ValueError(f"expected a state of blocks {list(layers)}, got one that differs in {odd[0]!r}")
    for name, array in expected.items():
        got = state.arrays[name]
        if (array.shape, array.dtype) != (got.shape, got.dtype):
            raise ValueError(f"expected {name} as {array.dtype}{array.shape}, got {got.dtype}{got.shape}")
