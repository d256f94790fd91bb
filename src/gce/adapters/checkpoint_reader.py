"""A run's checkpoint, read while another process may be writing the run, and checked against its hashes.

Knows nothing of what the files hold.
"""

from __future__ import annotations

import re
from pathlib import Path

from gce.adapters.checkpoint_folder import DamagedFileError, checkpoint_name
from gce.adapters.run_integrity import checkpoint_of, look, way_out
from gce.errors import BadInput, DamagedStore

__all__ = ["read_committed", "run_of"]


def run_of(checkpoint: Path) -> tuple[Path, int | None] | None:
    """The run that a checkpoint's directory lies in, and its iteration; None where it lies elsewhere.

    The iteration is None for `last`: which one is the newest, the run says, and not where the link points. Other names
    inside a run count before what they link to.
    """
    for folder in (checkpoint.parent.resolve() / checkpoint.name, checkpoint.resolve()):
        named = re.fullmatch(r"iteration-(\d+)|last", folder.name)
        root = folder.parent.parent
        if named is not None and folder.parent.name == "checkpoints" and (root / "run.sqlite").is_file():
            return root, None if named[1] is None else int(named[1])
    return None


def read_committed(run: Path, iteration: int | None = None) -> tuple[int, dict[str, bytes]]:
    """An iteration's checkpoint, by default the newest: its iteration and its files by name.

    Raises BadInput where the run keeps no such checkpoint, DamagedStore where it is not as it was written. What was
    committed after the iteration may be damaged.
    """
    found = look(run)
    found.database.close()
    having = [each for each in found.commits if each.hashes is not None]
    chosen = having[-1:] if iteration is None else [each for each in having if each.iteration == iteration]
    if found.problem is not None and (iteration is None or not chosen):
        raise DamagedStore(f"{run}: {found.problem}: {way_out(run, found.commits)}")
    if not chosen or not (run / "checkpoints" / checkpoint_name(chosen[0].iteration)).is_dir():
        wanted = "checkpoint" if iteration is None else f"checkpoint of iteration {iteration}"
        raise BadInput(f"{run} has no {wanted} (any more)")
    (commit,) = chosen
    try:
        return commit.iteration, checkpoint_of(run, commit) or {}
    except DamagedFileError as exc:
        raise DamagedStore(f"{run}: {exc}: put back a copy of it, or take another checkpoint") from exc
