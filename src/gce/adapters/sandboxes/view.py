"""Whom a sandbox runs as, and what it sees of this machine's files.

That is the interpreter, its standard library and what they link to, read-only: no installed packages (one of them may
hold the solutions), no home, no shell, no `/proc`.
"""

from __future__ import annotations

import glob
import os
import secrets
import sys
import sysconfig
from functools import cache
from pathlib import PurePath

from attrs import frozen

__all__ = ["ROOM", "View", "throw_away_uid", "view"]

ROOM = 16 * 2**20
"""Bytes of the one place where files can be written, `/tmp`, which is memory."""

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_PACKAGES = ("site-packages", "dist-packages")


@frozen
class View:
    """Paths are the same inside and outside."""

    read_only: tuple[str, ...]
    """Files and directories, none in another."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links: where, and to what."""
    directories: tuple[str, ...]
    """Above those, from the top down."""
    hidden: tuple[str, ...]
    """Directories in those that are empty inside."""


@cache
def view() -> View:
    """What this interpreter needs."""
    links = tuple((path, os.readlink(path)) for path in _LIBRARIES if os.path.islink(path))
    linked = {path for path, _ in links}
    python = os.path.realpath(sys.executable)
    # Shared libraries of an interpreter that was not installed by the system lie beside its standard library.
    own = [os.path.join(sys.base_prefix, "lib")] if sys.base_prefix not in ("/", "/usr") else []
    standard = [sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")]
    wanted = [path for path in (*_LIBRARIES, *own, *map(os.path.realpath, standard)) if path not in linked]
    wanted = [path for path in dict.fromkeys(wanted) if os.path.isdir(path)] + [python]
    shown = tuple(
        path for path in wanted if not any(path != other and path.startswith(other + "/") for other in wanted)
    )
    hidden = {path for top in shown for name in _PACKAGES for path in glob.glob(f"{top}/python*/{name}")}
    hidden |= {path for top in standard for name in _PACKAGES if os.path.isdir(path := os.path.join(top, name))}
    above = {str(parent) for path in shown for parent in PurePath(path).parents} - {"/"}
    return View(shown, links, tuple(sorted(above)), tuple(sorted(map(os.path.realpath, hidden))))


def _base() -> dict[str, str]:
    return {"installed_base": sys.base_prefix, "base": sys.base_prefix, "platbase": sys.base_exec_prefix}


def throw_away_uid() -> int:
    """For root, whom no limit on processes holds: a user that is nobody else; 0 for anyone else."""
    if os.geteuid() != 0:
        return 0
    with open("/proc/self/uid_map", encoding="ascii") as ranges:
        known = max(int(first) + int(count) for first, _, count in map(str.split, ranges))
    # In a container there may be few; the last ones are nobody's.
    return min(0x7FFF_FFFF, known) - 1 - secrets.randbelow(min(2**24, max(1, known // 2)))
