"""Where a command may write: never over a file of a run, nor over anything that the same command did not write.

A file of a kind that is replaced carries a mark at its beginning, by which it is known again. Knows the names that a
run uses, and no format.
"""

from __future__ import annotations

import os
import re
import stat
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory

from gce.adapters.system.durable_files import sync_directory, write_synced
from gce.adapters.system.input_files import kind_of_file
from gce.errors import BadInput

__all__ = ["check_apart", "check_appended", "check_output", "write_output"]

_OF_A_RUN = ("run.sqlite*", "checkpoints", "lock", "head.json*", "summary.json*", "validity.json*", "test-*.jsonl*")
"""Names in a run directory that the run itself uses, or may come to use."""
_MARK_WITHIN = 1024
"""Bytes."""


def check_apart(path: Path) -> None:
    """BadInput where a run keeps, or may come to keep, a file of its own at this path or around it."""
    named = path.name not in ("", "..")
    place = Path(os.path.realpath(path.parent), path.name) if named else Path(os.path.realpath(path))
    for root in place.parents:
        if (root / "run.sqlite").exists():
            name = place.relative_to(root).parts[0]
            if any(fnmatch(name.lower(), pattern) for pattern in _OF_A_RUN):
                raise BadInput(f"{path} belongs to the run {root}: choose another place")


def check_output(
    path: Path, *, mark: re.Pattern[bytes] | None = None, replace: bool = False, instead: str = "give another --out"
) -> None:
    """BadInput where a file must not be written to `path`; asked before what takes long, and again by `write_output`.

    Where nothing is there, it may be written. With `replace`, a regular file that begins with `mark` is replaced; any
    other file, a link, a device, a pipe or a directory never is. `instead` says what the user can do.
    """
    try:
        check_apart(path)
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            found = kind_of_file(mode)
            raise BadInput(f"cannot write {path}: expected a regular file, or none, found {found}: {instead}")
        if mark is None:
            raise BadInput(f"{path} exists already: {instead}")
        with path.open("rb") as file:
            if not mark.match(file.read(_MARK_WITHIN)):
                raise BadInput(f"{path} exists already, and this command did not write it: {instead}")
        if not replace:
            raise BadInput(f"{path} exists already: give --force to replace it, or {instead}")
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _failed(path, error, instead) from error


def write_output(
    path: Path,
    content: bytes,
    *,
    mark: re.Pattern[bytes] | None = None,
    replace: bool = False,
    instead: str = "give another --out",
) -> None:
    """Write a file, its directory too, atomically and durably, where `check_output` allows it.

    Raises:
        BadInput: it does not, or nothing can be written.
    """
    check_output(path, mark=mark, replace=replace, instead=instead)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".gce-", dir=path.parent, ignore_cleanup_errors=True) as half:
            write_synced(Path(half, "whole"), content)
            os.replace(Path(half, "whole"), path)
        sync_directory(path.parent)
    except OSError as error:
        raise _failed(path, error, instead) from error


def check_appended(path: Path, *, instead: str) -> None:
    """BadInput where nothing may be appended to `path`: it is no regular file, or belongs to a run.

    What a link leads to is looked at: it is what would be written.
    """
    try:
        check_apart(Path(os.path.realpath(path)))
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _failed(path, error, instead) from error
    if not stat.S_ISREG(mode):
        raise BadInput(f"cannot write {path}: expected a regular file, got {kind_of_file(mode)}: {instead}")


def _failed(path: Path, error: Exception, instead: str) -> BadInput:
    return BadInput(f"cannot write {path}: {getattr(error, 'strerror', None) or error}: {instead}")
