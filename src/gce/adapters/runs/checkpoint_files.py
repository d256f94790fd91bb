"""A model's state as the contents of a checkpoint's files.

They are those that `mlx_lm.load(base, adapter_path=...)` reads, plus what it takes to go on training:

    adapters.safetensors     arrays `adapter.NAME`, as NAME
    adapter_config.json      `settings["adapter_config"]`, where there is one
    optimizer.safetensors    arrays `optimizer.NAME`, as NAME
    state.json               the iteration and all settings

Knows nothing of disks, runs and databases.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gce.adapters.runs.values import ADAPTER, OPTIMIZER, check_state, copied, encode
from gce.domain.learning import ModelState
from gce.errors import MissingExtra

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "content_hash",
    "file_hashes",
    "files_of_state",
    "state_of_files",
]

_ARRAY_FILES = {"adapters.safetensors": ADAPTER, "optimizer.safetensors": OPTIMIZER}


def files_of_state(iteration: int, state: ModelState) -> dict[str, bytes]:
    """Contents of a checkpoint's files by name; equal states give equal bytes.

    Raises ValueError or TypeError for a state that cannot be kept, MissingExtra without safetensors.
    """
    check_state(state)
    files = {name: _packed(state.arrays, prefix) for name, prefix in _ARRAY_FILES.items()}
    if "adapter_config" in state.settings:
        files["adapter_config.json"] = (encode(state.settings["adapter_config"], indent=2) + "\n").encode()
    kept = {"iteration": iteration, "settings": dict(state.settings)}
    files["state.json"] = (encode(kept, indent=2) + "\n").encode()
    return dict(sorted(files.items()))


def state_of_files(files: Mapping[str, bytes]) -> ModelState:
    """The state that `files_of_state` packed: the same bytes in every array."""
    arrays: dict[str, np.ndarray] = {}
    for name, prefix in _ARRAY_FILES.items():
        arrays |= {prefix + bare: array for bare, array in _unpacked(files[name]).items()}
    settings: dict[str, Any] = json.loads(files["state.json"])["settings"]
    return ModelState(arrays=dict(sorted(arrays.items())), settings=settings)


def file_hashes(files: Mapping[str, bytes]) -> dict[str, str]:
    """SHA-256 of each file, in hexadecimal, sorted by name."""
    return {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}


def content_hash(hashes: Mapping[str, str]) -> str:
    """SHA-256 over the files' hashes: what `LC_ALL=C; sha256sum * | sha256sum` prints in the checkpoint's directory."""
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def _packed(arrays: Mapping[str, np.ndarray], prefix: str) -> bytes:
    # safetensors reads an array's memory as it lies, so a view that is not in C order would be scrambled silently.
    chosen = {name.removeprefix(prefix): copied(arrays[name]) for name in sorted(arrays) if name.startswith(prefix)}
    try:
        from safetensors.numpy import save
    except ImportError as exc:
        raise MissingExtra("safetensors", "mlx") from exc
    return save(chosen)


def _unpacked(content: bytes) -> dict[str, np.ndarray]:
    try:
        from safetensors.numpy import load
    except ImportError as exc:
        raise MissingExtra("safetensors", "mlx") from exc
    return {name: copied(array) for name, array in load(content).items()}
