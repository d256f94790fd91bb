"""Read files that a user names, within bounds: regular files of a limited size, or standard input.

Devices and pipes, which may have no end, are rejected, and the size is checked before reading. Independent of file
formats other than JSON and TOML.
"""

from __future__ import annotations

import json
import math
import os
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from gce.errors import BadInput, one_line

__all__ = [
    "kind_of_file",
    "open_input",
    "parse_json",
    "parse_toml",
    "read_input",
    "read_standard_input",
    "standard_input_lines",
]

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFREG: "a regular file",
}


def kind_of_file(mode: int) -> str:
    """Describe in words the file type in `mode`, as `os.stat` returns it."""
    return _KINDS.get(stat.S_IFMT(mode), "a special file")


def open_input(path: str | os.PathLike[str], most: int | None = None) -> BinaryIO:
    """Open a regular file of at most `most` bytes for reading.

    Raises:
        BadInput: it cannot be read, is a directory, a device or a pipe, or is too large.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise BadInput(f"cannot read {path}: expected a regular file, got {kind_of_file(found.st_mode)}")
        if most is not None and found.st_size > most:
            raise BadInput(f"{path} has {found.st_size:,} bytes: expected at most {most:,}")
        return Path(path).open("rb")
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def read_input(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the contents of a regular file.

    Raises:
        BadInput: as `open_input`, or the file has grown beyond `most` bytes since it was opened.
    """
    with open_input(path, most) as file:
        try:
            return _bounded(file, str(path), most)
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror or error}") from error


def read_standard_input(most: int) -> bytes:
    """Return the contents of standard input; BadInput if it is closed or has more than `most` bytes."""
    if sys.stdin is None:
        raise BadInput("cannot read standard input: it is closed")
    try:
        return _bounded(sys.stdin.buffer, "standard input", most)
    except OSError as error:
        raise BadInput(f"cannot read standard input: {error.strerror or error}") from error


def standard_input_lines(most: int) -> Iterator[bytes | None]:
    """The lines of standard input, one at a time, without their ends; None for one of more than `most` bytes."""
    if sys.stdin is None:
        raise BadInput("cannot read standard input: it is closed")
    file = sys.stdin.buffer
    while line := file.readline(most + 1):
        whole = len(line) <= most or line.endswith(b"\n")
        yield line.rstrip(b"\r\n") if whole else None
        while not whole and not line.endswith(b"\n") and line:
            line = file.readline(most)


def _bounded(file: BinaryIO, name: str, most: int) -> bytes:
    # Some files of /proc report a size of 0 although they have contents.
    data = file.read(most + 1)
    if len(data) > most:
        raise BadInput(f"{name} has more than {most:,} bytes")
    return data


def parse_json(text: str | bytes, name: str) -> Any:
    """Parse a JSON text; all its numbers must be finite.

    Raises:
        BadInput: `name` is not JSON, has NaN, an infinity or a number beyond floats, or is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_not_finite, parse_float=_finite)
    except RecursionError as error:
        raise BadInput(f"{name} is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise BadInput(f"{name} is not JSON: {error}") from error


def parse_toml(content: bytes, name: str) -> dict[str, Any]:
    """Parse TOML in UTF-8; BadInput if `name` is none, or is nested too deeply."""
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors.
        raise BadInput(f"{name} is not TOML: {one_line(error)}") from error


def _not_finite(text: str) -> float:
    raise ValueError(f"expected a finite number, got {text[:40]}")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _not_finite(text)
