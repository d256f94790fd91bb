"""The user that a sandbox runs as, and the part of the machine's files that it sees.

It sees, read-only, the interpreter, its standard library and the shared libraries that they link to. It sees no
installed packages (one of them may hold the solutions) unless they are named, no home directory, no shell and no
`/proc`.
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
"""Size in bytes of `/tmp`, the only writable place, which is in memory."""

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_PACKAGES = ("site-packages", "dist-packages")


@frozen
class View:
    """Paths visible inside; they are the same inside and outside."""

    read_only: tuple[str, ...]
    """Files and directories, none of them inside another."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links: (path, target)."""
    directories: tuple[str, ...]
    """Parent directories of those, from the top down."""
    hidden: tuple[str, ...]
    """Directories among those that are empty inside."""


@cache
def view(more: tuple[str, ...] = ()) -> View:
    """Return what this interpreter needs, and the existing files and directories `more`."""
    links = tuple((path, os.readlink(path)) for path in _LIBRARIES if os.path.islink(path))
    linked = {path for path, _ in links}
    python = os.path.realpath(sys.executable)
    # An interpreter not installed by the system keeps its shared libraries beside its standard library.
    own = [os.path.join(sys.base_prefix, "lib")] if sys.base_prefix not in ("/", "/usr") else []
    standard = [sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")]
    wanted = [path for path in (*_LIBRARIES, *own, *map(os.path.realpath, standard)) if path not in linked]
    further = [os.path.realpath(path) for path in more]
    wanted = [path for path in dict.fromkeys(wanted) if os.path.isdir(path)] + [python, *dict.fromkeys(further)]
    shown = tuple(
        path for path in wanted if not any(path != other and path.startswith(other + "/") for other in wanted)
    )
    hidden = {path for top in shown for name in _PACKAGES for path in glob.glob(f"{top}/python*/{name}")}
    hidden |= {path for top in standard for name in _PACKAGES if os.path.isdir(path := os.path.join(top, name))}
    hidden = {path for path in map(os.path.realpath, hidden) if path not in further}
    above = {str(parent) for path in shown for parent in PurePath(path).parents} - {"/"}
    return View(shown, links, tuple(sorted(above)), tuple(sorted(hidden)))


def _base() -> dict[str, str]:
    return {"installed_base": sys.base_prefix, "base": sys.base_prefix, "platbase": sys.base_exec_prefix}


def throw_away_uid() -> int:
    """Return a user id that no one else has, for root, whose processes have no limit; 0 for any other user."""
    if os.geteuid() != 0:
        return 0
    with open("/proc/self/uid_map", encoding="ascii") as ranges:
        known = max(int(first) + int(count) for first, _, count in map(str.split, ranges))
    # A container may have few user ids; the last ones are unused.
    return min(0x7FFF_FFFF, known) - 1 - secrets.randbelow(min(2**24, max(1, known // 2)))
