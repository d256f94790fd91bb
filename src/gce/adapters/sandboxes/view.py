"""The user that a sandbox runs as, and the part of the machine's files that it sees.

It sees, read-only, the interpreter, its standard library and the shared libraries that they link to. It sees no
installed packages (one of them may hold the solutions) and no shell unless they are to be shown, no home directory and
no `/proc`.
"""

from __future__ import annotations

import glob
import os
import secrets
import sys
import sysconfig
from functools import lru_cache
from pathlib import PurePath

from attrs import frozen

from gce.adapters.sandboxes.process import Shown

__all__ = ["ROOM", "View", "throw_away_uid", "view"]

ROOM = 16 * 2**20
"""Size in bytes of `/tmp`, the only writable place, which is in memory."""

_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
_PACKAGES = ("site-packages", "dist-packages")


@frozen
class View:
    """Paths visible inside."""

    read_only: Shown
    """Files and directories, none of them inside another."""
    links: tuple[tuple[str, str], ...]
    """Symbolic links: (path, target)."""
    directories: tuple[str, ...]
    """Parent directories of those, from the top down."""
    hidden: tuple[str, ...]
    """Directories among those that are empty inside."""


@lru_cache(maxsize=64)
def view(shown: Shown = ()) -> View:
    """Return what this interpreter needs, and what is `shown`."""
    links = tuple((path, os.readlink(path)) for path in _LIBRARIES if os.path.islink(path))
    linked = {path for path, _ in links}
    links += tuple((inside, f"/tmp{inside}") for outside, inside in shown if not outside)
    python = os.path.realpath(sys.executable)
    # An interpreter not installed by the system keeps its shared libraries beside its standard library.
    own = [os.path.join(sys.base_prefix, "lib")] if sys.base_prefix not in ("/", "/usr") else []
    standard = [sysconfig.get_path(name, vars=_base()) for name in ("stdlib", "platstdlib")]
    wanted = [path for path in (*_LIBRARIES, *own, *map(os.path.realpath, standard)) if path not in linked]
    wanted = [path for path in dict.fromkeys(wanted) if os.path.isdir(path)] + [python]
    outside = {path: path for path in wanted} | {inside: path for path, inside in shown if path}
    tops = [path for path in outside if not any(path.startswith(other + "/") for other in outside)]
    unmoved = [path for path in tops if outside[path] == path]
    hidden = {path for top in unmoved for name in _PACKAGES for path in glob.glob(f"{top}/python*/{name}")}
    hidden |= {path for top in standard for name in _PACKAGES if os.path.isdir(path := os.path.join(top, name))}
    hidden = {path for path in map(os.path.realpath, hidden) if path not in outside}
    above = {str(parent) for path in tops for parent in PurePath(path).parents} - {"/"}
    read_only = tuple((outside[path], path) for path in tops)
    return View(read_only, links, tuple(sorted(above)), tuple(sorted(hidden)))


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
