"""The folder `checkpoints/` of a run: one directory for each checkpoint kept, and the link `last` to the newest.

A checkpoint appears whole under its name, or not at all, and loses its name before it is deleted. `last` is a relative
symbolic link, because a link can be swapped in one step and a directory cannot. Knows nothing of what was committed:
it is told.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from gce.adapters.runs.checkpoint_files import file_hashes
from gce.adapters.system.durable_files import remove, sync_directory, write_synced

__all__ = [
    "DamagedFileError",
    "checkpoint_name",
    "delete_checkpoint",
    "link_last",
    "read_checkpoint",
    "remove_leftovers",
    "write_checkpoint",
]

_OURS = re.compile(r"iteration-\d{4,}(\.tmp|\.old)?|last\.tmp")


class DamagedFileError(Exception):
    """In words, which file is not as it was written."""


def checkpoint_name(iteration: int) -> str:
    """Name of a checkpoint's directory."""
    return f"iteration-{iteration:04d}"


def write_checkpoint(
    home: Path, iteration: int, files: Mapping[str, bytes], *, on_step: Callable[[str], None] = lambda _: None
) -> None:
    """Write a checkpoint durably. Raises OSError, and then what it wrote of it is gone."""
    path = home / checkpoint_name(iteration)
    temporary = path.with_name(path.name + ".tmp")
    try:
        remove(temporary)
        temporary.mkdir()
        for name, content in files.items():
            on_step("file")
            write_synced(temporary / name, content)
        sync_directory(temporary)
        on_step("rename")
        delete_checkpoint(home, iteration)  # one that a failed commit left under this name
        os.rename(temporary, path)
        sync_directory(home)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def read_checkpoint(home: Path, iteration: int, hashes: Mapping[str, str]) -> dict[str, bytes]:
    """A checkpoint's files. DamagedFileError names the first that is missing or does not match its hash."""
    files = {}
    folder = Path(home.name) / checkpoint_name(iteration)
    for name in hashes:
        try:
            files[name] = (home.parent / folder / name).read_bytes()
        except OSError as exc:
            raise DamagedFileError(f"{folder / name}: {exc.strerror}") from exc
    for name, found in file_hashes(files).items():
        if found != hashes[name]:
            raise DamagedFileError(f"{folder / name} does not match its hash")
    return files


def link_last(home: Path, iteration: int | None) -> None:
    """Let `last` point to this checkpoint, or to none; does nothing where it does already."""
    last = home / "last"
    target = None if iteration is None else checkpoint_name(iteration)
    if last.is_symlink() and os.readlink(last) == target:
        return
    if target is None or not last.is_symlink():  # a copy that followed links has a directory here
        remove(last)
    if target is not None:
        temporary = last.with_name("last.tmp")
        remove(temporary)
        os.symlink(target, temporary)
        os.replace(temporary, last)
    sync_directory(home)


def delete_checkpoint(home: Path, iteration: int) -> None:
    """Delete a checkpoint, if there."""
    path = home / checkpoint_name(iteration)
    doomed = path.with_name(path.name + ".old")
    remove(doomed)
    if path.is_dir():
        os.rename(path, doomed)
        remove(doomed)


def remove_leftovers(home: Path, kept: Collection[int]) -> None:
    """Delete what interrupted commits left: all names of our making but the checkpoints of `kept`."""
    home.mkdir(exist_ok=True)
    names = {checkpoint_name(iteration) for iteration in kept}
    for path in list(home.iterdir()):
        if _OURS.fullmatch(path.name) and path.name not in names:
            remove(path)
