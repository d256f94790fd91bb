"""Runs that were deleted on a page: moved into a folder beside the served runs, from which they come back."""

from __future__ import annotations

import time
from pathlib import Path

from attrs import frozen

from gce.app.web.served import Served, run_id
from gce.app.wiring.runs import writer_of
from gce.errors import BadInput, RunInUse

__all__ = ["Trashed", "restore", "throw_away", "trashed"]

FOLDER = "trash"


@frozen
class Trashed:
    """A run in the trash."""

    id: str
    path: Path
    within: Path
    """Its path within the served folder, as it was."""


def trashed(served: Served) -> dict[str, Trashed]:
    """All runs in the trash by id, the last deleted one first."""
    folder = served.own / FOLDER
    found = {}
    for stamp in sorted(folder.glob("*"), reverse=True):
        # Links are none of this folder's, so nothing of them is shown or moved.
        for database in (each for depth in ("*/", "*/*/", "*/*/*/") for each in stamp.glob(f"{depth}run.sqlite")):
            path = database.parent
            if path.resolve() == path:
                within = path.relative_to(stamp)
                found[f"{stamp.name}-{run_id(within)}"] = Trashed(f"{stamp.name}-{run_id(within)}", path, within)
    return found


def throw_away(served: Served, run: Path) -> Trashed:
    """Move a run into the trash. RunInUse where a process writes it."""
    if (process := writer_of(run)) is not None:
        raise RunInUse(f"the run {run} is in use by process {process}: stop it first")
    within = run.relative_to(served.folder)
    target = served.own / FOLDER / str(time.time_ns()) / within
    target.parent.mkdir(parents=True)
    run.rename(target)
    served.changed()
    stamp = target.relative_to(served.own / FOLDER).parts[0]
    return Trashed(f"{stamp}-{run_id(within)}", target, within)


def restore(served: Served, found: Trashed) -> Path:
    """Move a run back to where it was. BadInput where something else is there now."""
    target = served.folder / found.within
    if target.exists() or target.is_symlink():
        raise BadInput(f"{target} is there already: rename it, then restore the run")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.parent.resolve() != target.parent:
        raise BadInput(f"expected {target.parent} to be a folder, got a link")
    found.path.rename(target)
    served.changed()
    return target
