"""Durable files: a crash leaves the old version or the new one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["remove", "sync_directory", "write_file", "write_synced"]


def write_file(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, atomically and durably: a crash leaves the old file or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        write_synced(temporary, content)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Delete a file, a link or a directory with its contents; a missing path is ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
