"""Whether a run is as it was written: the chain of digests in its database, and `head.json`, which says where it ends.

Whoever opens a run asks here before anything in it is used, to write as to read. The digests guard against accidents
and edits, not against someone who recomputes them all.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from attrs import frozen

from gce.adapters.runs.chain import CommitRow
from gce.adapters.runs.checkpoint_folder import DamagedFileError, read_checkpoint
from gce.adapters.runs.sqlite_file import RunDatabase, reading_failed
from gce.errors import DamagedStore

__all__ = ["Look", "checkpoint_of", "head_content", "head_problem", "is_whole", "look", "read_head", "way_out"]

_TRIES = 3


@frozen
class Look:
    """What a run held at one moment, while another process may be writing it."""

    database: RunDatabase
    """Open, for reading alone."""
    commits: Sequence[CommitRow]
    """Those that match their digests, from the first on."""
    lengths: Mapping[str, int]
    """How many records each stream had."""
    problem: str | None
    """What is wrong behind them, in words."""


def look(root: Path) -> Look:
    """Read and check everything that was committed; GceError where it cannot be read at all.

    What is committed during the look is not part of it. Where a run goes back or on just then, what was read of its
    files does not fit together, and does so at the next look.
    """
    for _ in range(_TRIES - 1):
        with contextlib.suppress(sqlite3.Error):
            found = _look(root)
            if found.problem is None:
                return found
            found.database.close()
    try:
        return _look(root)
    except sqlite3.Error as exc:
        raise reading_failed(root / "run.sqlite", exc) from exc


def _look(root: Path) -> Look:
    head = read_head(root)  # Before the commits, which only go on from there.
    database = RunDatabase(root / "run.sqlite", read_only=True)
    try:
        with database.snapshot():
            commits, problem = database.chain()
            problem = problem or head_problem(head, commits, database.first_digest())
            return Look(database, commits, database.lengths(), problem)
    except BaseException:
        database.close()
        raise


def read_head(root: Path) -> bytes | None:
    """What `head.json` holds; None where there is none."""
    try:
        return (root / "head.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise DamagedStore(f"{root}: head.json cannot be read: {exc.strerror}: put back a copy of it") from exc


def head_content(tip: CommitRow | None, digest: str) -> bytes:
    """What `head.json` holds after this commit."""
    return (json.dumps({"iteration": tip and tip.iteration, "digest": digest}) + "\n").encode()


def head_problem(content: bytes | None, commits: Sequence[CommitRow], first_digest: str) -> str | None:
    """Whether `head.json` is one that a commit of this chain wrote; the chain may go on, as after a crash."""
    if content is None:
        return "head.json is missing"
    if content in {head_content(None, first_digest), *(head_content(each, each.digest) for each in commits)}:
        return None
    try:
        seen = json.loads(content)["iteration"]
    except (ValueError, TypeError, KeyError):
        return "head.json is damaged"
    ends = commits[-1].iteration if commits else None
    if isinstance(seen, int) and (ends is None or seen > ends):
        return f"run.sqlite ends with iteration {ends}, but head.json says that {seen} was committed: one is damaged"
    return "head.json does not match run.sqlite"


def checkpoint_of(root: Path, commit: CommitRow) -> dict[str, bytes] | None:
    """A commit's checkpoint, None where it has none; DamagedFileError where it is not as it was written."""
    return None if commit.hashes is None else read_checkpoint(root / "checkpoints", commit.iteration, commit.hashes)


def is_whole(root: Path, commit: CommitRow) -> bool:
    """Whether a commit's checkpoint, if it has one, is kept and as it was written."""
    try:
        checkpoint_of(root, commit)
    except DamagedFileError:
        return False
    return True


def wrong_checkpoints(
    commits: Sequence[CommitRow], kept: Iterable[int], read: Callable[[CommitRow], object]
) -> list[str]:
    """What is wrong, in words, with checkpoints that are kept or should be: the newest, and those pinned last.

    `read` raises DamagedFileError where a commit's checkpoint is not as it was written.
    """
    newest = [each.iteration for each in commits if each.hashes is not None][-1:]
    needed = {*kept, *newest, *(commits[-1].pinned if commits else ())}
    problems = []
    for commit in commits:
        if commit.iteration in needed:
            try:
                read(commit)
            except DamagedFileError as exc:
                problems.append(str(exc))
    return problems


def way_out(commits: Sequence[CommitRow], whole: Callable[[CommitRow], bool]) -> str:
    """What to do where something is wrong behind these commits; `whole` says whether one's checkpoint is intact."""
    for commit in reversed(commits):
        if whole(commit):
            return (
                f"put back a copy of it, or resume the run with {{discard_after}} {commit.iteration}, the last "
                "iteration that is intact"
            )
    return "put back a copy of it, or start a new run elsewhere: no iteration is intact"
