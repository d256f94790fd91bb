"""A checkpoint's LoRA adapter as a GGUF file that llama.cpp reads. Needs the package gguf, not llama.cpp itself.

Format: `convert_lora_to_gguf.py` of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gce.adapters.models.formats.adapter_files import LowRank
from gce.adapters.models.local.token_sampling import Array
from gce.domain.learning import ModelState
from gce.errors import MissingExtra, ModelError

__all__ = ["adapter_of", "write_adapter"]

_INTERLEAVED = "llama"
"""Of this architecture, GGUF files interleave the two halves of each head in the query and key projections."""
_ARCHITECTURES = (_INTERLEAVED, "qwen2", "qwen3")
"""Those whose linears a GGUF file holds as the Hugging Face layout does, but for that."""


def adapter_of(state: ModelState) -> LowRank:
    """Return the adapter in a checkpoint; ValueError if it holds none."""
    try:
        shape = state.settings["adapter_config"]["lora_parameters"]
        pairs = {
            str(path): (state.arrays[f"adapter.{path}.lora_a"], state.arrays[f"adapter.{path}.lora_b"])
            for path in shape["keys"]
        }
        return LowRank(int(shape["rank"]), float(shape["scale"]), 0.0, pairs)
    except (KeyError, TypeError) as error:
        raise ValueError(f"expected a state with a LoRA adapter, it lacks {error}") from error


def write_adapter(path: Path, adapter: LowRank, *, architecture: str, blocks: int, heads: Mapping[str, int]) -> None:
    """Write an adapter for a model of this architecture with this many blocks.

    `heads` are the heads of `attn_q` and `attn_k`.

    Raises:
        ModelError: the architecture is none whose layout is known here.
        ValueError: the model has no linear of an adapted path.
    """
    try:
        import gguf
    except ImportError as error:
        raise MissingExtra("gguf", "llama-cpp") from error
    if architecture not in _ARCHITECTURES:
        raise ModelError(f"adapters fit the architectures {', '.join(_ARCHITECTURES)}, got {architecture!r}")
    kind = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, blocks)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", adapter.scale * adapter.rank)
    for linear, (a, b) in adapter.pairs.items():
        name = names.get_name(linear)
        if name is None:
            raise ValueError(f"a model of architecture {architecture} with {blocks} blocks has no {linear}")
        rows = np.asarray(b.T, np.float32)
        if architecture == _INTERLEAVED and (count := heads.get(name.rpartition(".")[2])):
            rows = _interleaved(rows, count)
        writer.add_tensor(f"{name}.weight.lora_a", np.ascontiguousarray(a.T, np.float32))
        writer.add_tensor(f"{name}.weight.lora_b", np.ascontiguousarray(rows))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(rows: Array, heads: int) -> Array:
    """Put each row of a head's first half before its partner in the second half."""
    if len(rows) % (2 * heads):
        raise ValueError(f"expected rows for {heads} heads of even size, got {len(rows)}")
    swapped: Array = rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)
    return swapped
