"""Checkpoints: load one into a model, read its LoRA settings, and compute its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from gce.domain.learning import ModelState
from gce.errors import BadInput, GceError
from gce.ports.model import Adaptable

__all__ = ["arrays_digest", "restore", "shape_of"]


def restore(model: Adaptable, learned: ModelState, where: Path | str, name: str) -> None:
    """Load a checkpoint into the model of this name; BadInput if it was made for another model."""
    try:
        model.restore(learned)
    except (ValueError, GceError) as error:
        raise BadInput(f"{where} was made for another model than {name}: {error}") from error


def shape_of(learned: ModelState | None) -> dict[str, Any]:
    """Return the adapter settings `rank`, `scale` and `target_modules`, those that the checkpoint has."""
    found = {} if learned is None else learned.settings.get("adapter_config", {}).get("lora_parameters", {})
    return {name: found[name] for name in ("rank", "scale", "target_modules") if name in found}


def arrays_digest(state: ModelState) -> str:
    """Return the SHA-256 of the checkpoint's names and arrays."""
    found = hashlib.sha256()
    for name, array in sorted(state.arrays.items()):
        found.update(name.encode())
        found.update(array.tobytes())
    return found.hexdigest()
