"""A run's checkpoint, read while another process may be writing the run, and checked against its hashes.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from gce.adapters.checkpoint_folder import DamagedFileError, checkpoint_name, read_checkpoint
from gce.adapters.run_database import CommitRow, RunDatabase, reading_failed
from gce.errors import BadInput, DamagedStore

__all__ = ["read_committed", "run_of"]

_TRIES = 3


def run_of(checkpoint: Path) -> tuple[Path, int] | None:
    """The run that a checkpoint's directory lies in, and its iteration; None where it lies elsewhere."""
    folder = checkpoint.resolve()
    named = re.fullmatch(r"iteration-(\d+)", folder.name)
    root = folder.parent.parent
    if named is None or folder.parent.name != "checkpoints" or not (root / "run.sqlite").is_file():
        return None
    return root, int(named[1])


def read_committed(run: Path, iteration: int | None = None) -> tuple[int, dict[str, bytes]]:
    """An iteration's checkpoint, by default the newest: its iteration and its files by name.

    Raises BadInput where the run keeps no such checkpoint, DamagedStore where it is not as it was written.
    """
    commits, problem = _commits(run)
    home = run / "checkpoints"
    having = [each for each in commits if each.hashes is not None]
    chosen = having[-1:] if iteration is None else [each for each in having if each.iteration == iteration]
    if problem is not None and (iteration is None or not chosen):
        raise DamagedStore(f"{run}: {problem}: put back a copy of it")
    if not chosen or not (home / checkpoint_name(chosen[0].iteration)).is_dir():
        wanted = "checkpoint" if iteration is None else f"checkpoint of iteration {iteration}"
        raise BadInput(f"{run} has no {wanted} (any more)")
    (commit,) = chosen
    try:
        return commit.iteration, read_checkpoint(home, commit.iteration, commit.hashes or {})
    except DamagedFileError as exc:
        raise DamagedStore(f"{run}: {exc}: put back a copy of it, or export another checkpoint") from exc


def _commits(run: Path) -> tuple[Sequence[CommitRow], str | None]:
    """The run's commits, and what is wrong with them, if anything."""
    file = run / "run.sqlite"
    try:
        with contextlib.closing(RunDatabase(file, read_only=True)) as database:
            for _ in range(_TRIES):
                commits, problem = database.chain()
                if problem is None:  # What is committed during the look seems damaged, and no more at the next.
                    break
            return commits, problem
    except sqlite3.Error as exc:
        raise reading_failed(file, exc) from exc
