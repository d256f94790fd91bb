"""Read a LoRA adapter from a checkpoint or from PEFT's files, and write it in PEFT's format.

A checkpoint has mlx-lm's layout: `adapters.safetensors` with PATH.lora_a (inputs, rank) and PATH.lora_b (rank,
outputs), and `adapter_config.json` with rank, scale and paths. Independent of models and of the disk.

Source of PEFT's format: https://huggingface.co/docs/peft/developer_guides/checkpoint.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from attrs import frozen

from gce.adapters.models.local.lora import LoraSettings, adapter_config, in_block
from gce.adapters.models.local.token_sampling import Array
from gce.domain.learning import ModelState
from gce.errors import BadInput, DamagedStore, MissingExtra, one_line

__all__ = ["MLX_FILES", "PEFT_FILES", "LowRank", "peft_files", "read_adapter", "read_peft", "state_of"]

MLX_FILES = ("adapter_config.json", "adapters.safetensors")
"""The files that `mlx_lm.load(base, adapter_path=...)` reads."""
PEFT_FILES = ("adapter_config.json", "adapter_model.safetensors")
"""Those that PEFT's `save_pretrained` writes."""
_HALF = re.compile(r"base_model\.model\.(.+)\.lora_([AB])(?:\.default)?\.weight")
_TAKEN = frozenset(
    {
        *("peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "lora_dropout"),
        *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),  # Names of arrays tell them.
        *("base_model_name_or_path", "revision", "task_type", "auto_mapping", "peft_version", "inference_mode"),
        *("megatron_core", "qalora_group_size", "runtime_config", "eva_config"),  # Without effect by themselves.
    }
)
"""Fields of PEFT's config that may have any value; all others must be off, as they change the model."""
_OFF: tuple[Any, ...] = (None, False, "none", [], {})
_HARMLESS_STARTS = (True, False, "gaussian", "eva", "orthogonal")
"""Ways to initialize an adapter that leave the base's weights as they are."""
_FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}


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
    for path, pair in pairs.items():
        _check_pair(pair, adapter.rank, path, where)
    return adapter


def _check_pair(pair: tuple[Array, Array], rank: int, path: str, where: str) -> None:
    a, b = pair
    if a.ndim != 2 or b.ndim != 2 or (a.shape[1], b.shape[0]) != (rank, rank):
        raise DamagedStore(f"{where} is damaged: {path} has shapes {a.shape}, {b.shape} at rank {rank}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise DamagedStore(f"{where} is damaged: {path} holds numbers that are not finite")


def read_peft(files: Mapping[str, bytes], where: str) -> LowRank:
    """Return the LoRA adapter in PEFT's files, in float32.

    Linears of other ranks or scales than the config's `r` and `lora_alpha` are written at the largest rank and the
    config's scale, with zeros and factors that keep their products.

    Raises:
        BadInput: it does more than add low-rank products to linears; the message names the field.
        DamagedStore: the files are inconsistent.
    """
    try:
        import safetensors
    except ImportError as exc:
        raise MissingExtra("safetensors", "mlx") from exc
    try:
        config = json.loads(files[PEFT_FILES[0]])
        _check_config(config, where)
        if not config["lora_alpha"] > 0:
            raise BadInput(f"{where} has lora_alpha {config['lora_alpha']!r}, expected a number above 0")
        halves: dict[str, dict[str, Array]] = defaultdict(dict)
        read: Any = safetensors.deserialize
        for name, tensor in read(files[PEFT_FILES[1]]):
            if (half := _HALF.fullmatch(name)) is None:
                raise BadInput(f"{where} holds {name}, and gce reads only LoRA weights of linears")
            halves[half[1]][half[2]] = _float32(tensor).T
        if not halves:
            raise BadInput(f"{where} holds no LoRA weights")
        pairs, scales = {}, {}
        for path, sides in halves.items():
            rank = _of_pattern(config.get("rank_pattern"), path, config["r"])
            alpha = _of_pattern(config.get("alpha_pattern"), path, config["lora_alpha"])
            scales[path] = _scale(alpha, rank, config)
            pairs[path] = sides["A"], sides["B"]
            _check_pair(pairs[path], rank, path, where)
        rank = max(a.shape[1] for a, _ in pairs.values())
        scale = _scale(config["lora_alpha"], config["r"], config)
        pairs = {path: _padded(pair, rank, scales[path] / scale) for path, pair in pairs.items()}
        return LowRank(rank, scale, float(config.get("lora_dropout") or 0.0), dict(sorted(pairs.items())))
    except KeyError as exc:
        raise DamagedStore(f"{where} is damaged: it lacks {exc.args[0]!r}") from exc
    except (safetensors.SafetensorError, AttributeError, TypeError, ValueError, ZeroDivisionError, re.error) as exc:
        raise DamagedStore(f"{where} is damaged: {one_line(exc)}") from exc


def _check_config(config: Mapping[str, Any], where: str) -> None:
    """Raise BadInput if an adapter of this config changes more than the outputs of linears."""
    if (kind := config["peft_type"]) != "LORA":
        raise BadInput(f"{where} has peft_type {kind!r}, and gce reads LORA alone")
    if (start := config.get("init_lora_weights", True)) not in _HARMLESS_STARTS:
        raise BadInput(f"{where} has init_lora_weights {start!r}, which changes the base's weights")
    for name, value in config.items():
        if name not in _TAKEN and name != "init_lora_weights" and value not in _OFF:
            raise BadInput(f"{where} has {name} {value!r:.60}, which gce does not read: it reads plain LoRA of linears")


def _float32(tensor: Mapping[str, Any]) -> Array:
    """Return a tensor as safetensors describes it, as float32."""
    if (kind := tensor["dtype"]) not in _FLOATS:
        raise ValueError(f"it has weights of type {kind}")
    array: Array = np.frombuffer(tensor["data"], _FLOATS[kind]).reshape(tensor["shape"])
    return (array.astype("<u4") << 16).view("<f4") if kind == "BF16" else array.astype(np.float32)


def _of_pattern(pattern: Mapping[str, Any] | None, path: str, default: Any) -> Any:
    """Return the value of the first key that the end of a path matches, as PEFT does."""
    values = (value for key, value in (pattern or {}).items() if re.match(rf"(.*\.)?({key})$", path))
    return next(values, default)


def _scale(alpha: float, rank: int, config: Mapping[str, Any]) -> float:
    return float(alpha / (rank**0.5 if config.get("use_rslora") else rank))


def _padded(pair: tuple[Array, Array], rank: int, factor: float) -> tuple[Array, Array]:
    """Return a pair at a larger rank, and with a factor on its product."""
    more = rank - pair[0].shape[1]
    a, b = np.pad(pair[0], ((0, 0), (0, more))), np.pad(pair[1], ((0, more), (0, 0)))
    return np.ascontiguousarray(a), np.ascontiguousarray(b * np.float32(factor))


def state_of(adapter: LowRank) -> ModelState:
    """Return the state of a model that has this adapter and an optimizer that has not begun.

    Raises:
        ModelError: the adapter adapts a linear outside of the model's blocks.
    """
    places = [in_block(path) for path in adapter.pairs]
    layers, modules = sorted({layer for layer, _ in places}), sorted({path for _, path in places})
    if len(layers) * len(modules) != len(places):  # Not the same in all blocks.
        modules = list(adapter.pairs)
    arrays = {"optimizer.step": np.array(0, np.uint64)}
    for path, pair in adapter.pairs.items():
        for side, array in zip(("lora_a", "lora_b"), pair, strict=True):
            arrays[f"adapter.{path}.{side}"] = array
            arrays |= {f"optimizer.{path}.{side}.{moment}": np.zeros_like(array) for moment in "mv"}
    lora = LoraSettings(rank=adapter.rank, scale=adapter.scale, target_modules=tuple(modules))
    return ModelState(arrays, {"layers": layers, "adapter_config": adapter_config(lora, layers, list(adapter.pairs))})


def peft_files(adapter: LowRank, base: str) -> dict[str, bytes]:
    """Return the contents of the files that `peft.PeftModel.from_pretrained` reads, for the base of this name."""
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
