"""Commits of a git repository that is not trusted, read without its configuration.

A repository's own configuration can name programs that git runs: hooks, external differences, filters, signature
checks, remotes that missing objects are fetched from. So git is asked only where the objects are and which commit HEAD
is; all else is read through an empty repository of ours over the same objects. Nothing is checked out. Time, memory and
output of each call are bounded.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gce.adapters.performance.trees import MOST_BYTES, MOST_FILES
from gce.adapters.system.bounded_commands import run_bounded
from gce.domain.performance.collecting import Commit
from gce.domain.performance.patches import Change, is_safe
from gce.errors import BadInput, one_line

__all__ = ["MOST_CHANGED", "History", "open_history"]

_SECONDS, _MEMORY = 120.0, 4 * 2**30
_MOST_LISTED = 64 * 2**20
"""Bytes of a list of commits or files."""
MOST_CHANGED = 4 * 2**20
"""Bytes of the changed files of one commit, before and after together."""
_MOST_SHALLOW = 2**20
_REGULAR = ("100644", "100755")
_HASH = re.compile(r"[0-9a-f]{7,64}")


class History:
    """The commits of one repository."""

    def __init__(self, repository: Path, git: str, own: Path, objects: str, head: str, until: float) -> None:
        self.head = head
        """Hash of the commit that is checked out."""
        self._repository = repository
        self._git = git
        self._until = until
        self._environment = {
            **_ANYWHERE,
            "GIT_DIR": str(own),
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
        }

    @property
    def is_over(self) -> bool:
        """Whether the time for all calls together is up."""
        return time.monotonic() >= self._until

    def commits(self, most: int) -> list[Commit]:
        """Return the last commits that have one parent, newest first, as far as time and output of one call reach.

        Raises:
            BadInput: git failed.
        """
        if self.is_over:
            return []
        words = ["log", "-z", "--no-merges", f"--max-count={most}", "--encoding=UTF-8", "--no-notes"]
        said = self._run([*words, "--format=%H%x00%P%x00%cI%x00%B", self.head], cut=True).decode("utf-8", "replace")
        *fields, _ = said.split("\0")
        found = [Commit(*fields[place : place + 4]) for place in range(0, len(fields) - 3, 4)]
        return [each for each in found if _HASH.fullmatch(each.parent)]

    def changed(self, commit: Commit) -> dict[str, tuple[str, str]]:
        """Return the regular files with safe paths that a commit changes: hashes before and after, empty for none.

        Raises:
            BadInput: git failed, or they are too many.
        """
        words = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", commit.parent, commit.hash]
        fields = self._run(words).decode("utf-8", "surrogateescape").split("\0")
        found = {}
        for about, path in zip(fields[::2], fields[1::2], strict=False):
            mode, new_mode, before, after, _ = about.removeprefix(":").split(" ")
            if is_safe(path):
                found[path] = (before if mode in _REGULAR else "", after if new_mode in _REGULAR else "")
        return found

    def changes(self, changed: Mapping[str, tuple[str, str]]) -> tuple[Change, ...]:
        """Return these files before and after.

        Raises:
            BadInput: git failed, or they have more than `MOST_CHANGED` bytes.
        """
        names = [name for hashes in changed.values() for name in hashes if name]
        blobs = self._blobs(names, MOST_CHANGED)
        return tuple(Change(path, *map(blobs.get, hashes)) for path, hashes in changed.items())

    def files(self, commit: str) -> dict[str, str]:
        """Return the hashes of the regular files of a commit with safe paths, by path.

        Raises:
            BadInput: there is no such commit, or it has too many files.
        """
        if not _HASH.fullmatch(commit.removesuffix("^")):
            raise BadInput(f"expected the hash of a commit, got {commit!r:.60}")
        found = {}
        for entry in self._run(["ls-tree", "-r", "-z", "--full-tree", commit]).split(b"\0")[:-1]:
            about, _, path = entry.decode("utf-8", "surrogateescape").partition("\t")
            mode, _, name = about.split(" ")
            if mode in _REGULAR and is_safe(path):
                found[path] = name
        if len(found) > MOST_FILES:
            raise BadInput(f"commit {commit} of {self._repository} has more than {MOST_FILES:,} files")
        return found

    def tree(self, commit: str, under: str = "") -> dict[str, bytes]:
        """Return the regular files with safe paths of a commit, as they are stored.

        Args:
            commit: hash; with ^ behind it, the commit's first parent.
            under: a directory with a slash at its end; paths are relative to it.

        Raises:
            BadInput: as `files`, or the files are too large.
        """
        names = {path: name for path, name in self.files(commit).items() if path.startswith(under)}
        blobs = self._blobs(list(names.values()), MOST_BYTES)
        return {path.removeprefix(under): blobs[name] for path, name in names.items()}

    def _blobs(self, names: Sequence[str], most: int) -> dict[str, bytes]:
        """Return contents by hash, of at most so many bytes."""
        said = self._run(["cat-file", "--batch"], given="".join(f"{name}\n" for name in names).encode(), most=most)
        found, place = {}, 0
        for name in names:
            end = said.index(b"\n", place)
            kind, _, size = said[place:end].decode("ascii", "replace").removeprefix(f"{name} ").partition(" ")
            if kind != "blob":
                raise BadInput(f"{self._repository} lacks the object {name}; a partial clone cannot be read")
            found[name] = said[end + 1 : end + 1 + int(size)]
            place = end + int(size) + 2
        return found

    def _run(self, words: Sequence[str], *, given: bytes = b"", most: int | None = None, cut: bool = False) -> bytes:
        seconds = min(_SECONDS, max(0.0, self._until - time.monotonic()))
        words, most = [self._git, *words], most or _MOST_LISTED
        return _bounded(words, self._environment, self._repository, seconds, given=given, most=most, cut=cut)


@contextmanager
def open_history(repository: Path, seconds: float = 3600.0) -> Iterator[History]:
    """The history of a local repository; all calls of git together may take so many seconds.

    Raises:
        BadInput: git is not installed, or it is no repository with a commit.
    """
    git = shutil.which("git")
    if git is None:
        raise BadInput("git is not installed")
    if not repository.is_dir():
        raise BadInput(f"there is no directory {repository}")
    until = time.monotonic() + seconds
    own = {**_ANYWHERE, "HOME": os.environ.get("HOME", "/")}  # Where a user says whose repositories to trust.
    asked = ["rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "shallow", "HEAD"]
    said = _bounded([git, "-C", str(repository), *asked], own, repository, _SECONDS, most=_MOST_LISTED)
    objects, shallow, head, *_ = [*said.decode("utf-8", "surrogateescape").split("\n"), "", ""]
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", head):
        raise BadInput(f"{repository} has no commit")
    with TemporaryDirectory(prefix="gce-git-") as home:
        place = Path(home)
        (place / "refs").mkdir()
        (place / "objects").mkdir()
        (place / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")
        of_format = f"[extensions]\nobjectFormat = {'sha1' if len(head) == 40 else 'sha256'}\n"
        core = "[core]\nrepositoryFormatVersion = 1\nbare = true\ncommitGraph = false\n"
        (place / "config").write_text(core + of_format, encoding="utf-8")
        if os.path.isfile(shallow):
            with open(shallow, "rb") as file:
                (place / "shallow").write_bytes(file.read(_MOST_SHALLOW))
        yield History(repository, git, place, objects, head, until)


_ANYWHERE = {
    "PATH": os.defpath,
    "LANG": "C.UTF-8",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}


def _bounded(
    words: Sequence[str],
    environment: dict[str, str],
    repository: Path,
    seconds: float,
    *,
    given: bytes = b"",
    most: int,
    cut: bool = False,
) -> bytes:
    """Return what git prints; where `cut`, as far as its bounds reach."""
    ended = run_bounded(words, seconds=seconds, memory=_MEMORY, most_output=most, given=given, environment=environment)
    if ended.exceeded and not cut:
        raise BadInput(
            f"cannot read {repository}: git took more than {seconds:.0f} s or printed more than {most // 2**20} MiB"
        )
    if ended.status and not ended.exceeded:
        raise BadInput(f"cannot read {repository}: {one_line(ended.complaint.decode(errors='replace'))[:300]}")
    return ended.output
