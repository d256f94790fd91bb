"""Copies of a tree that an agent may change: one commit without history, and read back as data.

What an agent leaves is hostile: links are not followed, and numbers and sizes of files are bounded. The repository that
it worked in is ignored: only files count.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from gce.domain.performance.patches import Tree, is_safe
from gce.errors import BadInput, one_line

__all__ = ["read_commit", "read_tree", "read_working_copy", "write_files", "write_working_copy"]

MOST_FILES, MOST_BYTES = 20_000, 500 * 2**20
_MOST_FILE = 20 * 2**20
"""Bytes of one file; a larger one is odd."""
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
    """Return the regular files of a directory, and the paths of what is none, or too large.

    Repositories, caches and compiled files are left out.

    Raises:
        BadInput: there is too much, or it cannot be read.
    """
    tree: dict[str, bytes] = {}
    odd: list[str] = []
    size = 0
    for folder, names, files in os.walk(directory, onerror=_refuse):
        links = [name for name in names if Path(folder, name).is_symlink()]
        names[:] = sorted(set(names) - _IGNORED - set(links))
        for name in sorted([*links, *files]):
            file = Path(folder, name)
            path = file.relative_to(directory).as_posix()
            if name in _IGNORED or name.endswith((".pyc", ".pyo")):
                continue
            content = _content(file)
            if content is None:
                odd.append(path)
            else:
                tree[path] = content
                size += len(content)
            if len(tree) + len(odd) > MOST_FILES or size > MOST_BYTES:
                raise BadInput(f"expected at most {MOST_FILES:,} files and {MOST_BYTES:,} bytes in {directory}")
    return tree, tuple(odd)


def read_commit(repository: Path, commit: str) -> dict[str, bytes]:
    """Return the regular files of a commit of a local git repository.

    Raises:
        BadInput: git is not installed, or there is no such commit.
    """
    git = shutil.which("git")
    if git is None:
        raise BadInput("git is not installed")
    if not re.fullmatch(r"[0-9a-f]{7,64}", commit):
        raise BadInput(f"expected the hash of a commit, got {commit!r:.60}")
    command = [git, "-C", str(repository), "archive", "--format=tar", commit]
    found = subprocess.run(command, capture_output=True, check=False, timeout=_GIT_SECONDS)
    if found.returncode:
        raise BadInput(
            f"cannot read commit {commit} of {repository}: {one_line(found.stderr.decode(errors='replace'))}"
        )
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        files = [(each.name, archive.extractfile(each)) for each in archive.getmembers() if each.isreg()]
        return {name: file.read() for name, file in files if file is not None and is_safe(name)}


def _content(file: Path) -> bytes | None:
    """Return the contents of a regular file; None for anything else, and for what cannot be read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with open(descriptor, "rb") as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_FILE:
            return None
        return opened.read(_MOST_FILE)


def _refuse(error: OSError) -> None:
    raise BadInput(f"cannot read {error.filename}: {error.strerror}") from error
