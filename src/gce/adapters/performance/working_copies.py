"""Copies of a tree that an agent may change: one commit without history, and read back as data.

What an agent leaves is hostile: links are not followed, and numbers and sizes of files are bounded. The repository that
it worked in is ignored: only files count.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

from gce.adapters.performance.trees import MOST_BYTES, MOST_FILES
from gce.domain.performance.patches import Tree
from gce.errors import BadInput

__all__ = ["read_regular", "read_tree", "read_working_copy", "write_files", "write_working_copy"]

_MOST_FILE = 20 * 2**20
"""Bytes of one file; a larger one is not read."""
_IGNORED = {".git", "__pycache__", ".pytest_cache"}
_GIT_SECONDS = 120


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
    """Return the files of a tree that is trusted.

    Raises:
        BadInput: it has anything but regular files and directories.
    """
    tree, odd = read_working_copy(directory)
    if odd:
        raise BadInput(f"expected regular files of at most {_MOST_FILE:,} bytes in {directory}, got {odd[0]!r:.200}")
    return tree


def read_working_copy(directory: Path) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the regular files of a directory, and the paths of what is none, is too large, or cannot be read.

    Repositories, caches and compiled files are left out.

    Raises:
        BadInput: it is a link or no directory, or there is too much in it.
    """
    if directory.is_symlink() or not directory.is_dir():
        raise BadInput(f"{directory} is no directory")
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
                raise BadInput(f"expected at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes in {directory}")
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
