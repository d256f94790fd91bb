"""Find a model's files, and hash their contents. Loads no weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gce.adapters.system.input_files import open_input, parse_json, read_input
from gce.errors import BadInput, ModelError, one_line

__all__ = ["check_name", "directory_digest", "end_tokens", "file_digest", "find_directory", "read_settings"]


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


def read_settings(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file such as config.json; empty if there is no file.

    Raises:
        BadInput: it cannot be read, or is not JSON.
        ModelError: it is another value than an object.
    """
    found = parse_json(read_input(path, 1 << 20), str(path)) if path.is_file() else {}
    if not isinstance(found, dict):
        raise ModelError(f"expected a JSON object in {path}, got {found!r:.60}")
    return found


def end_tokens(directory: Path) -> set[int]:
    """Return the end tokens that config.json and generation_config.json name."""
    configs = [read_settings(directory / name) for name in ("config.json", "generation_config.json")]
    named = [each.get("eos_token_id") for each in (*configs, configs[0].get("text_config") or {})]
    several = [each for some in named for each in (some if isinstance(some, list) else [some])]
    return {each for each in several if isinstance(each, int)}


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
