"""Safe output files: a command never overwrites a file of a run, or any file that the same command did not write.

A replaceable kind of file is recognised by a mark at its beginning. This module knows the file names of a run, but no
file format.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from gce.adapters.system.durable_files import sync_directory
from gce.adapters.system.input_files import kind_of_file
from gce.errors import BadInput

__all__ = ["check_apart", "check_appended", "check_output", "new_output", "write_output"]

_OF_A_RUN = ("run.sqlite*", "checkpoints", "lock", "head.json*", "summary.json*", "validity.json*", "test-*.jsonl*")
"""Names in a run directory that a run uses or may use."""
_MARK_WITHIN = 1024
"""The mark must lie within this many bytes."""


def check_apart(path: Path) -> None:
    """Raise BadInput if a run keeps, or may keep, its own file at this path or around it."""
    named = path.name not in ("", "..")
    place = Path(os.path.realpath(path.parent), path.name) if named else Path(os.path.realpath(path))
    for root in place.parents:
        if (root / "run.sqlite").exists():
            name = place.relative_to(root).parts[0]
            if any(fnmatch(name.lower(), pattern) for pattern in _OF_A_RUN):
                raise BadInput(f"{path} belongs to the run {root}: choose another place")


def check_output(
    path: Path, *, mark: re.Pattern[bytes] | None = None, replace: bool = False, instead: str = "give another {out}"
) -> None:
    """Raise BadInput if a file may not be written to `path`.

    Call it before long computations; `write_output` checks again. A new file is always allowed. With `replace`, a
    regular file that begins with `mark` may be replaced; any other file, a link, a device, a pipe and a directory may
    not. `instead` is the hint that tells the user what to do.
    """
    try:
        check_apart(path)
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            found = kind_of_file(mode)
            raise BadInput(f"cannot write {path}: expected a regular file, or none, found {found}", hint=instead)
        if mark is None:
            raise BadInput(f"{path} exists already", hint=instead)
        with path.open("rb") as file:
            if not mark.match(file.read(_MARK_WITHIN)):
                raise BadInput(f"{path} exists already, and this command did not write it", hint=instead)
        if not replace:
            raise BadInput(f"{path} exists already", hint=f"give {{force}} to replace it, or {instead}")
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
    instead: str = "give another {out}",
) -> None:
    """Write a file and its directory, atomically and durably, if `check_output` allows it.

    Raises:
        BadInput: writing is not allowed, or failed.
    """
    with new_output(path, mark=mark, replace=replace, instead=instead) as file:
        file.write(content)


@contextlib.contextmanager
def new_output(
    path: Path,
    *,
    mark: re.Pattern[bytes] | None = None,
    replace: bool = False,
    instead: str = "give another {out}",
) -> Iterator[BinaryIO]:
    """The same for content that is written piece by piece: the file appears when the block ends, none where it fails.

    Raises:
        BadInput: it may not be written, or nothing can be written.
    """
    check_output(path, mark=mark, replace=replace, instead=instead)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".gce-", dir=path.parent, ignore_cleanup_errors=True) as half:
            with open(Path(half, "whole"), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            check_output(path, mark=mark, replace=replace, instead=instead)
            os.replace(Path(half, "whole"), path)
        sync_directory(path.parent)
    except OSError as error:
        raise _failed(path, error, instead) from error


def check_appended(path: Path, *, instead: str) -> None:
    """Raise BadInput if nothing may be appended to `path`: it is not a regular file, or belongs to a run.

    A link is followed, because its target is what would be written.
    """
    try:
        check_apart(Path(os.path.realpath(path)))
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise _failed(path, error, instead) from error
    if not stat.S_ISREG(mode):
        raise BadInput(f"cannot write {path}: expected a regular file, got {kind_of_file(mode)}", hint=instead)


def _failed(path: Path, error: Exception, instead: str) -> BadInput:
    return BadInput(f"cannot write {path}: {getattr(error, 'strerror', None) or error}", hint=instead)
