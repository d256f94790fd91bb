"""The committed digests of the portable items, and the versions with which they were made."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path

from .canonical import digest
from .items import NOT_IMPORTED, Outputs

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.json"
CONSTRAINTS = HERE / "constraints.txt"
PINNED = (
    *("attrs", "cattrs", "gguf", "matplotlib", "mlx", "mlx-lm", "numpy", "ortools", "peft", "safetensors"),
    *("scipy-openblas32", "tokenizers", "torch", "transformers"),
)
_HEAD = "# The versions with which digests.json was made; `python -m tests.golden write` writes this file.\n"


def read_digests() -> dict[str, dict[str, str]]:
    """Digests of each item's outputs."""
    found: dict[str, dict[str, str]] = json.loads(DIGESTS.read_text(encoding="utf-8")) if DIGESTS.exists() else {}
    return found


def digests_of(outputs: Outputs) -> dict[str, str]:
    """The digests to commit."""
    return {name: digest(value) for name, value in outputs.items() if not name.startswith(NOT_IMPORTED)}


def write_digests(digests: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the committed digests."""
    DIGESTS.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def changed(outputs: Outputs, committed: Mapping[str, str]) -> list[str]:
    """Names of outputs that are not as committed. Records of modules that need a missing extra are not asked for."""
    found = digests_of(outputs)
    asked = {**committed, **found}.keys() - not_made(outputs, committed)
    return sorted(name for name in asked if found.get(name) != committed.get(name))


def not_made(outputs: Outputs, committed: Mapping[str, str]) -> set[str]:
    """Names of committed records whose modules need an extra that is missing here."""
    modules = {name.removeprefix(NOT_IMPORTED) for name in outputs if name.startswith(NOT_IMPORTED)}
    return {name for name in committed if name.rpartition(".")[0] in modules}


def read_constraints() -> dict[str, str]:
    """The pinned version of each package."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines() if CONSTRAINTS.exists() else []
    return dict(line.split("==", 1) for line in lines if line and not line.startswith("#"))


def write_constraints() -> None:
    """Pin what is installed; packages that are not keep their pin."""
    pins = read_constraints() | {name: version for name in PINNED if (version := _installed(name))}
    CONSTRAINTS.write_text(_HEAD + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins)), encoding="utf-8")


def other_versions() -> list[str]:
    """What is installed in another version than the pinned one, or not at all."""
    pairs = ((name, pinned, _installed(name)) for name, pinned in read_constraints().items())
    return [f"{name} {found or 'not installed'} (pinned: {pinned})" for name, pinned, found in pairs if found != pinned]


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
