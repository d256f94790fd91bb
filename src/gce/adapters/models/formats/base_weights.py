"""The weight files of a base model: check that an adapter fits them, and write a copy with the adapter merged.

The base is a directory in the Hugging Face layout. Runs no model.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from gce.adapters.models.backends.mlx.config import read_config
from gce.adapters.models.backends.mlx.files import load_weights
from gce.adapters.models.formats.adapter_files import LowRank
from gce.errors import BadInput, one_line

__all__ = ["check_fits", "in_float32", "write_merged"]

WEIGHTS = "model*.safetensors"
COMPANIONS = (
    *("config.json", "generation_config.json", "model.safetensors.index.json", "*.py", "LICENSE*", "NOTICE*"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template*", "vocab.*", "merges.txt"),
    *("*.model", "*.tiktoken"),
)
"""File names that make a complete model besides its weights; the model card describes the base, so it is not copied."""
_QUANTIZED = "give {model} with the model in full precision"


def check_fits(base: Path, adapter: LowRank, *, by_mlx: bool = True) -> None:
    """Raise BadInput unless the base's files hold every adapted weight, not quantized, in the adapter's shape.

    With `by_mlx`, mlx-lm must load each of these weights unchanged. It renames, transposes or scales some models'
    weights; an adapter merged into those would mean something else to other programs.
    """
    if _quantized(base):
        raise BadInput(f"the base {base} is quantized", hint=_QUANTIZED)
    if not any(base.glob(WEIGHTS)):
        raise BadInput(f"the base {base} has no {WEIGHTS}")
    try:
        stored = {name: array for path in base.glob(WEIGHTS) for name, array in _read(path)[0].items()}
        stored = {name: _checked(base, name, stored, shape) for name, shape in _shapes(adapter).items()}
        if not by_mlx:
            return
        taken = dict(tree_flatten(load_weights(base, read_config(base).arguments)[0].parameters()))
        for name in list(stored):
            loaded = taken.pop(name, None)
            if loaded is None or not mx.array_equal(stored.pop(name), loaded):
                raise BadInput(f"mlx-lm does not load {name} of {base} as stored", hint="use {to} mlx")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as exc:
        raise BadInput(f"cannot read the base {base}: {one_line(exc)}") from exc


def in_float32(base: Path) -> bool:
    """Return whether all weights are stored in float32."""
    return all(array.dtype == mx.float32 for path in base.glob(WEIGHTS) for array in _read(path)[0].values())


def write_merged(base: Path, adapter: LowRank, folder: Path) -> None:
    """Write the base's files to `folder`, shard by shard, with the adapter merged into the weights.

    Sums are computed in float32 and rounded to the weight's own type. Raises OSError if writing fails.
    """
    for path in _companions(base):
        shutil.copyfile(path, folder / path.name)
    for path in sorted(base.glob(WEIGHTS)):
        arrays, metadata = _read(path)
        adapted = [linear for linear in adapter.pairs if f"{linear}.weight" in arrays]
        if not adapted:
            shutil.copyfile(path, folder / path.name)
            continue
        with mx.stream(mx.cpu):
            for linear in adapted:
                name = f"{linear}.weight"
                a, b = (mx.array(array, dtype=mx.float32) for array in adapter.pairs[linear])
                merged = arrays[name].astype(mx.float32) + adapter.scale * (a @ b).T
                arrays[name] = merged.astype(arrays[name].dtype)
            try:
                mx.save_safetensors(str(folder / path.name), arrays, {"format": "pt", **metadata})
            except RuntimeError as exc:
                raise OSError(str(exc)) from exc


def _shapes(adapter: LowRank) -> dict[str, tuple[int, int]]:
    """Return the required shape of each adapted weight, by name."""
    return {f"{path}.weight": (b.shape[1], a.shape[0]) for path, (a, b) in adapter.pairs.items()}


def _checked(base: Path, name: str, stored: Mapping[str, mx.array], shape: tuple[int, int]) -> mx.array:
    if name not in stored:
        raise BadInput(f"the base {base} has no {name}: it is another model, or its files use another name")
    found = stored[name]
    if not mx.issubdtype(found.dtype, mx.floating):
        raise BadInput(f"the base {base} is quantized", hint=_QUANTIZED)
    if found.shape != shape:
        raise BadInput(f"the adapter was made for another base than {base}: {name} is {found.shape}, expected {shape}")
    return found


def _read(path: Path) -> tuple[dict[str, mx.array], dict[str, str]]:
    """Return a weight file's arrays, which are read lazily, and its metadata."""
    found: Any = mx.load(str(path), return_metadata=True)
    arrays, metadata = found
    return arrays, metadata


def _companions(base: Path) -> Iterator[Path]:
    for path in sorted({path for pattern in COMPANIONS for path in base.glob(pattern)}):
        if path.is_file():
            yield path


def _quantized(base: Path) -> bool:
    try:
        config = json.loads((base / "config.json").read_text(encoding="utf-8"))
        parts = [config, config.get("text_config") or {}]
        named = any(part.get(name) for part in parts for name in ("quantization", "quantization_config"))
    except (OSError, ValueError, AttributeError) as exc:
        raise BadInput(f"expected a model in the Hugging Face layout, cannot read {base / 'config.json'}") from exc
    return named or (base / "hf_quant_config.json").exists()
