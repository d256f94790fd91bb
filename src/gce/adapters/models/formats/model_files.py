"""Find a model's files, and hash their contents. Loads no weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from gce.adapters.system.input_files import open_input
from gce.errors import BadInput, ModelError, one_line

__all__ = ["check_name", "check_speaks", "directory_digest", "file_digest", "find_directory"]


def find_directory(path_or_repo: str | Path) -> Path:
    """Return a local directory with the model's files, downloaded from the Hugging Face hub if necessary.

    Raises:
        ModelError: neither a directory with a model nor a model on the hub, or the hub cannot be reached.
    """
    path, name = Path(path_or_repo), str(path_or_repo)
    check_name(name)
    if path.is_dir():
        return path
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["*.json", "model*.safetensors", "*.jinja", "*.model"]))
    except (OSError, ValueError) as error:
        raise ModelError(f"no directory {name!r} here, and no such model fetched: {one_line(error)}") from error


def check_name(name: str) -> None:
    """Raise ModelError if a name is neither a directory with a model's files nor one that the hub may have."""
    path = Path(name)
    if not path.is_dir() and (path.is_absolute() or name.count("/") != 1):
        raise ModelError(f"expected a model's directory or a name like 'owner/model', got {name!r}")
    checkpoint = path / "checkpoints" / "last"
    if checkpoint.is_dir():
        raise ModelError(
            f"{name!r} is a run, whose model is its base with an adapter: give the base, and {checkpoint} as adapter"
        )
    for wanted in ("config.json", "model*.safetensors") if path.is_dir() else ():
        if not any(path.glob(wanted)):
            raise ModelError(f"expected a model in the Hugging Face layout in {name!r}, found no {wanted} there")


def check_speaks(name: str, *, template: bool, end: int | None) -> None:
    """Raise ModelError if a model cannot hold a conversation: it has no chat template, or no end-of-turn token."""
    if not template:
        raise ModelError(f"expected a model with a chat template, {name!r} has none")
    if end is None:
        raise ModelError(f"expected a tokenizer with an end token, that of {name!r} has none")


def directory_digest(directory: Path, weights: Iterable[Path] = ()) -> str:
    """Return the SHA-256 of the names and contents of config.json and the weight files, by default model*.safetensors.

    BadInput if one cannot be read.
    """
    found = hashlib.sha256()
    for path in sorted([directory / "config.json", *(weights or directory.glob("model*.safetensors"))]):
        found.update(f"{path.name} {path.stat().st_size} ".encode())
        with open_input(path) as file:
            while block := file.read(1 << 20):
                found.update(block)
    return found.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's contents; ModelError if it cannot be read."""
    found = hashlib.sha256()
    try:
        with open_input(path) as file:
            while block := file.read(1 << 20):
                found.update(block)
    except BadInput as error:
        raise ModelError(str(error)) from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from error
    return found.hexdigest()
