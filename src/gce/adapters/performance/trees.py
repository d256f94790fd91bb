"""Source trees in directories: read as data, written, copied for an agent or for measuring.

A directory may be hostile, as what an agent leaves: links are not followed, and numbers and sizes of files are bounded.
Repositories, caches and compiled files are left out: compiled files need not be those of their sources, and of what an
agent did in a repository only files count.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from gce.domain.performance.patches import Tree
from gce.errors import BadInput

__all__ = [
    "MOST_BYTES",
    "MOST_FILES",
    "BadTree",
    "prepare_tree",
    "read_regular",
    "read_tree",
    "read_working_copy",
    "write_files",
    "write_working_copy",
]

MOST_FILES, MOST_BYTES = 20_000, 500 * 2**20
_MOST_FILE = 20 * 2**20
"""Bytes of one file; a larger one is not read."""
_IGNORED = {".git", "__pycache__", ".pytest_cache"}
_GIT_SECONDS = 120
_COMPILE = """\
import compileall, py_compile, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir(sys.argv[1], quiet=2, stripdir=sys.argv[1], prependdir=sys.argv[2], invalidation_mode=mode)
"""
_SECONDS = 300


class BadTree(BadInput):
    """A tree of sources that cannot be used."""

    def __init__(self, tree: Path, what: str) -> None:
        self.what = what
        """What goes on after the tree's name."""
        super().__init__(f"{tree} {what}")


def write_files(tree: Tree, target: Path) -> None:
    """Write the files of a tree whose paths are safe into a directory, which is made."""
    target.mkdir(parents=True, exist_ok=True)
    for path, content in tree.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def write_working_copy(tree: Tree, target: Path) -> None:
    """Write a tree as a git repository of one commit; without a repository where git is not installed."""
    write_files(tree, target)
    git = shutil.which("git")
    if git is None:
        return
    person = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _AUTHOR.items()}
    nowhere = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.defpath}
    for words in (["init", "-q", "-b", "main"], ["add", "-A", "-f"], ["commit", "-q", "--allow-empty", "-m", "base"]):
        command = [git, "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", *words]
        subprocess.run(command, cwd=target, env=person | nowhere, check=True, capture_output=True, timeout=_GIT_SECONDS)


_AUTHOR = {"NAME": "base", "EMAIL": "base@localhost", "DATE": "2000-01-01T00:00:00+0000"}


def read_tree(directory: Path) -> dict[str, bytes]:
    """Return the files of a tree.

    Raises:
        BadTree: it has anything but regular files and directories, or too much of them.
    """
    tree, odd = read_working_copy(directory)
    if odd:
        raise BadTree(directory, f"has no regular file of at most {_MOST_FILE:,} bytes at {odd[0]!r:.200}")
    return tree


def read_working_copy(directory: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the regular files of a directory, and the paths of what is none, is too large, or cannot be read.

    Raises:
        BadTree: it is a link or no directory, or there is too much in it.
    """
    if directory.is_symlink() or not directory.is_dir():
        raise BadTree(directory, "is no directory")
    tree: dict[str, bytes] = {}
    odd: list[str] = []
    size = 0
    folders = [directory]
    while folders:  # Without recursion, which hostile nesting would exhaust.
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            odd.append(folder.relative_to(directory).as_posix())
            entries = []
        for entry in entries:
            if entry.name in _IGNORED or entry.name.endswith((".pyc", ".pyo")):
                continue
            file = folder / entry.name
            path = file.relative_to(directory).as_posix()
            if entry.is_dir(follow_symlinks=False):
                folders.append(file)
                continue
            content = read_regular(file, _MOST_FILE)
            if content is None:
                odd.append(path)
            else:
                tree[path] = content
                size += len(content)
            if len(tree) + len(odd) > MOST_FILES or size > MOST_BYTES:
                raise BadTree(directory, f"has more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes")
    return tree, tuple(sorted(odd))


def read_regular(file: Path, most: int) -> bytes | None:
    """Return the contents of a regular file of at most `most` bytes; None for anything else, as for a link."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        with open(descriptor, "rb", closefd=False) as opened:
            return opened.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def prepare_tree(tree: Path, target: Path, shown_at: str) -> None:
    """Copy a tree to `target`, which must not exist, and compile its modules as those of the path `shown_at`.

    Raises:
        BadTree: as `read_tree`.
    """
    write_files(read_tree(tree), target)
    command = [sys.executable, "-I", "-S", "-c", _COMPILE, str(target), shown_at]
    try:
        # A module that is not Python is left for its import to fail.
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BadTree(tree, f"has modules that were not compiled within {_SECONDS} s") from None
    if done.returncode:
        raise BadTree(tree, "has modules that end the compiler")
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
