"""LoRA adapters, for all backends: shape, optimizer settings, initial values and config file.

The layout is mlx-lm's: PATH.lora_a of (inputs, rank) and PATH.lora_b of (rank, outputs), added to PATH's output as
scale x (inputs @ lora_a @ lora_b). Equal seeds give equal initial adapters in every backend. Independent of vendors.

Source: Hu et al. (2021), LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from attrs import field, frozen, validators

from gce.adapters.models.local.token_sampling import Array
from gce.domain.layer_selection import ALL_LINEAR
from gce.domain.learning import ModelState
from gce.errors import ModelError

__all__ = [
    "LoraSettings",
    "OptimizerSettings",
    "adapter_config",
    "check_layers",
    "check_same_shapes",
    "first_values",
    "in_block",
    "placement",
    "targeted",
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
    target_modules: tuple[str, ...] = (ALL_LINEAR,)
    """Linears to adapt in these blocks; see `targeted`."""


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


def targeted(linears: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the full paths of the linears that are meant by their names, in the order of `linears`.

    As in PEFT, a name is a whole path, or the end of one after a dot, such as `q_proj` or `self_attn.q_proj`.

    Raises:
        ModelError: a name matches none of them.
    """
    linears = list(linears)
    if not linears or ALL_LINEAR in names:
        return linears
    for name in names:
        if not any(f".{path}".endswith(f".{name}") for path in linears):
            known = ", ".join(sorted({path.rpartition(".")[2] for path in linears}))
            raise ModelError(f"expected target modules among {known}, or {ALL_LINEAR}, got {name!r}")
    return [path for path in linears if f".{path}".endswith(tuple(f".{name}" for name in names))]


def in_block(path: str) -> tuple[int, str]:
    """Return the number of the block that a linear's full path lies in, and its path there; ModelError if in none."""
    found = re.search(r"(?:^|\.)(\d+)\.(.+)", path)
    if found is None:
        raise ModelError(f"expected a linear in a numbered block, got {path!r}")
    return int(found[1]), found[2]


def placement(state: ModelState) -> tuple[list[int], list[str] | None]:
    """Return the blocks that a state adapts, and the full paths of their adapted linears, None if it does not say."""
    paths = state.settings.get("adapter_config", {}).get("lora_parameters", {}).get("keys")
    return [int(layer) for layer in state.settings["layers"]], paths


def adapter_config(lora: LoraSettings, layers: Sequence[int], modules: Sequence[str]) -> dict[str, Any]:
    """Return what mlx-lm reads from `adapter_config.json`; with full paths as keys it ignores `num_layers`."""
    chosen = {} if ALL_LINEAR in lora.target_modules else {"target_modules": list(lora.target_modules)}
    return {
        "fine_tune_type": "lora",
        "num_layers": len(layers),
        "lora_parameters": {
            "rank": lora.rank,
            "scale": lora.scale,
            "dropout": lora.dropout,
            "keys": list(modules),
            **chosen,
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
