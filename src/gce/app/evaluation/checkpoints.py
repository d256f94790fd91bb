"""What was learned, as a checkpoint holds it: put on a model, its shape, and a digest that names it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from gce.domain.learning import ModelState
from gce.errors import BadInput, GceError
from gce.ports.model import Learner

__all__ = ["arrays_digest", "restore", "shape_of"]


def restore(model: Learner, learned: ModelState, where: Path | str, name: str) -> None:
    """Put what was learned on the model of this name; BadInput where it was made for another."""
    try:
        model.restore(learned)
    except (ValueError, GceError) as error:
        raise BadInput(f"{where} was made for another model than {name}: {error}") from error


def shape_of(learned: ModelState | None) -> dict[str, Any]:
    """The settings `rank` and `scale` of an adapter, where it says them."""
    found = {} if learned is None else learned.settings.get("adapter_config", {}).get("lora_parameters", {})
    return {name: found[name] for name in ("rank", "scale") if name in found}


def arrays_digest(state: ModelState) -> str:
    """SHA-256 over what was learned: names and arrays."""
    found = hashlib.sha256()
    for name, array in sorted(state.arrays.items()):
        found.update(name.encode())
        found.update(array.tobytes())
    return found.hexdigest()
