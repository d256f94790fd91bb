"""LoRA adapters, for all backends: shape, optimizer settings, initial values and config file.

The layout is mlx-lm's: PATH.lora_a of (inputs, rank) and PATH.lora_b of (rank, outputs), added to PATH's output as
scale x (inputs @ lora_a @ lora_b). Equal seeds give equal initial adapters in every backend. Independent of vendors.

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
    """Blocks to adapt, 0-based from the input. Empty: none until `attach`."""
    dropout: float = field(default=0.0, validator=[validators.ge(0.0), validators.lt(1.0)])
    """Dropout rate of the adapter's inputs, during updates only."""
    keys: tuple[str, ...] | None = None
    """Linears to adapt in each block, by path inside the block, such as `self_attn.q_proj`; None for all of them."""


@frozen
class OptimizerSettings:
    """AdamW with bias correction, gradient clipping and gradient accumulation."""

    learning_rate: float = field(default=1e-3, validator=validators.gt(0.0))
    weight_decay: float = field(default=0.0, validator=validators.ge(0.0))
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    max_gradient_norm: float | None = field(default=1.0, validator=_positive_or_none)
    """Gradients are clipped to this global norm; None: no clipping."""
    tokens_per_pass: int = field(default=512, validator=validators.ge(1))
    """Tokens whose activations a thread holds at once: with padding in mlx, on average in numpy. Gradients accumulate
    over as many passes as a batch needs."""


def first_values(seed: int, path: str, shape: tuple[int, ...]) -> Array:
    """Return initial values of `lora_a` for the linear at `path`, uniform within inputs^-0.5 of 0.

    `lora_b` starts at 0. The values depend only on the seed and the path.
    """
    generator = np.random.Generator(np.random.Philox([seed, crc32(path.encode())]))
    bound = shape[0] ** -0.5
    return generator.uniform(-bound, bound, shape).astype(np.float32)


def adapter_config(lora: LoraSettings, layers: Sequence[int], modules: Sequence[str]) -> dict[str, Any]:
    """Return what mlx-lm reads from `adapter_config.json`; with full paths as keys it ignores `num_layers`."""
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
    """Raise ModelError unless these are distinct blocks of a model with `blocks` blocks."""
    if len(set(layers)) != len(layers) or not all(0 <= layer < blocks for layer in layers):
        raise ModelError(f"expected different blocks from 0 to {blocks - 1}, got {list(layers)!r}")


def check_same_shapes(expected: Mapping[str, Array], state: ModelState, layers: Sequence[int]) -> None:
    """Raise ValueError unless `state` holds arrays of the names, shapes and types of this adapter."""
    if expected.keys() != state.arrays.keys():
        odd = sorted(expected.keys() ^ state.arrays.keys())
        raise ValueError(f"expected a state of blocks {list(layers)}, got one that differs in {odd[0]!r}")
    for name, array in expected.items():
        got = state.arrays[name]
        if (array.shape, array.dtype) != (got.shape, got.dtype):
            raise ValueError(f"expected {name} as {array.dtype}{array.shape}, got {got.dtype}{got.shape}")
