"""Read a LoRA adapter from a checkpoint, and write it in PEFT's format.

A checkpoint has mlx-lm's layout: `adapters.safetensors` with PATH.lora_a (inputs, rank) and PATH.lora_b (rank,
outputs), and `adapter_config.json` with rank, scale and paths. Independent of models and of the disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from gce.errors import BadInput, DamagedStore, MissingExtra, one_line

__all__ = ["MLX_FILES", "LowRank", "peft_files", "read_adapter"]

MLX_FILES = ("adapter_config.json", "adapters.safetensors")
"""The files that `mlx_lm.load(base, adapter_path=...)` reads."""


@frozen(eq=False)
class LowRank:
    """A LoRA adapter: `scale` times the product of two arrays of this rank is added to each adapted linear."""

    rank: int
    scale: float
    dropout: float
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]]
    """(inputs, rank) and (rank, outputs), by the linear's full path."""


def read_adapter(files: Mapping[str, bytes], where: str) -> LowRank:
    """Return the adapter in a checkpoint's files.

    Raises:
        BadInput: the checkpoint holds no LoRA adapter.
        DamagedStore: the files are inconsistent.
    """
    if "adapter_config.json" not in files:
        raise BadInput(f"{where} holds no LoRA adapter: its model stores its training in another form")
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load
    except ImportError as exc:
        raise MissingExtra("safetensors", "mlx") from exc
    try:
        shape = json.loads(files["adapter_config.json"])["lora_parameters"]
        arrays = load(files["adapters.safetensors"])
        pairs = {path: (arrays.pop(f"{path}.lora_a"), arrays.pop(f"{path}.lora_b")) for path in shape["keys"]}
        adapter = LowRank(int(shape["rank"]), float(shape["scale"]), float(shape.get("dropout", 0.0)), pairs)
    except KeyError as exc:
        raise DamagedStore(f"{where} is damaged: it lacks {exc.args[0]!r}") from exc
    except (SafetensorError, TypeError, ValueError) as exc:
        raise DamagedStore(f"{where} is damaged: {one_line(exc)}") from exc
    if arrays:
        raise DamagedStore(f"{where} is damaged: its config does not name {min(arrays)}")
    for path, (a, b) in pairs.items():
        if a.ndim != 2 or b.ndim != 2 or (a.shape[1], b.shape[0]) != (adapter.rank, adapter.rank):
            raise DamagedStore(f"{where} is damaged: {path} has shapes {a.shape}, {b.shape} at rank {adapter.rank}")
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise DamagedStore(f"{where} is damaged: {path} holds numbers that are not finite")
    return adapter


def peft_files(adapter: LowRank, base: str) -> dict[str, bytes]:
    """Return the contents of the files that `peft.PeftModel.from_pretrained` reads, for the base of this name.

    Source: PEFT's checkpoint format, https://huggingface.co/docs/peft/developer_guides/checkpoint.
    """
    from safetensors.numpy import save

    arrays = {}
    for path, (a, b) in adapter.pairs.items():
        # safetensors writes the memory as it is, so a transposed view must be copied.
        arrays[f"base_model.model.{path}.lora_A.weight"] = np.ascontiguousarray(a.T)
        arrays[f"base_model.model.{path}.lora_B.weight"] = np.ascontiguousarray(b.T)
    alpha = adapter.scale * adapter.rank
    config: dict[str, Any] = {
        "base_model_name_or_path": base,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "init_lora_weights": True,
        "lora_alpha": int(alpha) if alpha.is_integer() else alpha,
        "lora_dropout": adapter.dropout,
        "peft_type": "LORA",
        "r": adapter.rank,
        "target_modules": list(adapter.pairs),
        "task_type": "CAUSAL_LM",
    }
    return {
        "adapter_config.json": (json.dumps(config, indent=2) + "\n").encode(),
        "adapter_model.safetensors": save(dict(sorted(arrays.items())), metadata={"format": "pt"}),
    }
