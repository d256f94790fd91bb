"""Write a folder atomically: it appears with all its contents, or not at all. Independent of the contents."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from gce.adapters.system.durable_files import sync_directory
from gce.adapters.system.output_files import check_apart
from gce.errors import BadInput

__all__ = ["whole_folder"]


@contextlib.contextmanager
def whole_folder(path: Path, *, argument: str = "out", durable: bool = True) -> Iterator[Path]:
    """A temporary folder to write in; it takes its place at `path` when the block ends, and is gone where it fails.

    Raises BadInput where there is something already, other than an empty folder, where the place belongs to a run, or
    nothing can be written. `argument` is what gives the path. `durable` waits until all is
    on the disk; many files that can be made again need not be.
    """
    check_apart(path)
    hint = f"give another {{{argument}}}"
    target = path.resolve()
    try:
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise BadInput(f"{path} exists already and is no empty folder", hint=hint)
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True) as half:
            folder = Path(half, target.name)
            folder.mkdir()
            yield folder
            if durable:
                _sync(folder)
            os.rename(folder, target)
        sync_directory(target.parent)
    except OSError as exc:
        raise BadInput(f"cannot write {path}: {exc.strerror or exc}", hint=hint) from exc


def _sync(folder: Path) -> None:
    for directory, _, names in os.walk(folder):
        for name in names:
            with open(Path(directory, name), "rb") as file:
                os.fsync(file.fileno())
        sync_directory(Path(directory))
