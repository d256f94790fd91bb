"""Private copies of source trees for measuring: regular files alone, compiled, and readable to a sandbox's user."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

from gce.errors import BadInput

__all__ = ["MOST_BYTES", "MOST_FILES", "BadTree", "files_of", "prepare_tree"]

MOST_FILES, MOST_BYTES = 20_000, 500 * 2**20
_COMPILE = """\
import compileall, py_compile, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir(sys.argv[1], quiet=2, stripdir=sys.argv[1], prependdir=sys.argv[2], invalidation_mode=mode)
"""
_SECONDS = 300


class BadTree(BadInput):
    """A tree of sources that cannot be measured; the message goes on after the tree's name."""


def files_of(tree: Path) -> list[str]:
    """Return the paths of the files in a tree, relative to it, sorted; compiled files are left out.

    Raises:
        BadTree: it has anything but regular files and directories, or too much of them.
    """
    found: list[str] = []
    size = 0
    if not tree.is_dir() or tree.is_symlink():
        raise BadTree(f"is no directory of sources: {tree}")
    for folder, names, files in os.walk(tree):
        names[:] = sorted(set(names) - {"__pycache__"})
        for name in (*names, *files):
            path = Path(folder, name)
            place = path.relative_to(tree).as_posix()
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                raise BadTree(f"has a symbolic link at {place}")
            if name in names:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise BadTree(f"has something other than a regular file at {place}")
            if name.endswith((".pyc", ".pyo")):
                continue
            found.append(place)
            size += status.st_size
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise BadTree(f"has more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes")
    return sorted(found)


def prepare_tree(tree: Path, target: Path, shown_at: str) -> None:
    """Copy a tree to `target`, which must not exist, and compile its modules as those of the path `shown_at`.

    Compiled files of the tree itself are not used: they need not be those of its sources.

    Raises:
        BadTree: as `files_of`.
    """
    places = files_of(tree)
    target.mkdir(mode=0o755)
    for place in places:
        copy = target / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((tree / place).read_bytes())
    command = [sys.executable, "-I", "-S", "-c", _COMPILE, str(target), shown_at]
    try:
        # A module that is not Python is left for its import to fail.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BadTree(f"has modules that were not compiled within {_SECONDS} s") from None
    if done.returncode:
        raise BadTree("has modules that end the compiler")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
