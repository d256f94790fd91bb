"""Runs in directories: a run's name is the path of its directory, a study's that of the directory around its runs."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from gce.adapters.runs.checkpoint_folder import checkpoint_name
from gce.adapters.runs.integrity import checkpoint_of, look, wrong_checkpoints
from gce.adapters.runs.reader import CARD, DirectoryReader, sealed
from gce.adapters.runs.run_directory import RunDirectory, check_free
from gce.adapters.system.durable_files import write_file
from gce.domain.verified_runs import Verified
from gce.errors import BadInput, DamagedStore

__all__ = ["DirectoryRuns", "run_of"]

_DATABASE = "run.sqlite"


class DirectoryRuns:
    """The port `Runs` on a disk."""

    def check_free(self, name: str) -> None:
        """See `gce.ports.runs.Runs.check_free`."""
        check_free(Path(name))

    def create(self, name: str, config: Mapping[str, Any]) -> RunDirectory:
        """See `gce.ports.runs.Runs.create`."""
        return RunDirectory.create(name, config)

    def open(self, name: str, *, discard_after: int | None = None) -> RunDirectory:
        """See `gce.ports.runs.Runs.open`."""
        return RunDirectory.open(name, discard_after=discard_after)

    def read(self, name: str, *, verify: bool = True) -> DirectoryReader:
        """See `gce.ports.runs.Runs.read`."""
        return DirectoryReader(name, verify=verify)

    def find(self, within: str) -> dict[str, bool]:
        """See `gce.ports.runs.Runs.find`."""
        patterns = (_DATABASE, f"*/{_DATABASE}", f"*/*/{_DATABASE}")
        runs = [file.parent for pattern in patterns for file in sorted(Path(within).glob(pattern)) if file.is_file()]
        return {str(run): (run / "summary.json").is_file() for run in runs}

    def write_card(self, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
        """See `gce.ports.runs.Runs.write_card`; it is `validity.json`."""
        path, kept = Path(name) / CARD, sealed(card)
        try:
            write_file(path, (json.dumps(kept, indent=1) + "\n").encode())
        except OSError as error:
            raise BadInput(f"cannot write {path}: {error.strerror}") from error
        return kept

    def verify(self, name: str) -> Verified:
        """See `gce.ports.runs.Runs.verify`. A link `last` that a copy lacks is no damage: `open` makes it again."""
        root = Path(name)
        if not (root / _DATABASE).is_file():
            raise BadInput(f"expected a run directory, found no {_DATABASE} in {root}")
        try:
            found = look(root)
        except DamagedStore as error:
            return Verified(None, "", (), (str(error).removeprefix(f"{root}/"),))
        commits = found.commits
        with contextlib.closing(found.database) as database:
            tip = commits[-1].digest if commits else database.first_digest()
            problems = [found.problem or database.loose_ends(tip)]
            written = database.written_after(-1)
        kept = {each.iteration for each in commits if _has_checkpoint(root, each.iteration)}
        problems += wrong_checkpoints(commits, kept, partial(checkpoint_of, root))
        with DirectoryReader(root, verify=False) as reader:
            problems += [_wrong(reader, file) for file in (*written, CARD)]
        last = commits[-1].iteration if commits else None
        return Verified(last, tip, tuple(sorted(kept)), tuple(each for each in problems if each is not None))


def _has_checkpoint(root: Path, iteration: int) -> bool:
    return (root / "checkpoints" / checkpoint_name(iteration)).is_dir()


def _wrong(reader: DirectoryReader, file: str) -> str | None:
    """What is wrong, in words, with a file beside the database, if anything."""
    if file != CARD and not (reader.path / file).exists():
        return f"{file} is missing"
    try:
        if file == CARD:
            reader.card()
        elif file.endswith(".jsonl"):
            next(reader.each_answer(file.removesuffix(".jsonl")), None)
        else:
            reader.summary()
    except DamagedStore as error:
        return str(error).removeprefix(f"{reader.path}/")
    return None


def run_of(checkpoint: Path) -> tuple[str, int | None] | None:
    """The name of the run that a checkpoint's directory lies in, and its iteration; None where it lies elsewhere.

    The iteration is None for `last`: which one is the newest, the run says, and not where the link points. Other names
    inside a run count before what they link to.
    """
    for folder in (checkpoint.parent.resolve() / checkpoint.name, checkpoint.resolve()):
        named = re.fullmatch(r"iteration-(\d+)|last", folder.name)
        root = folder.parent.parent
        if named is not None and folder.parent.name == "checkpoints" and (root / _DATABASE).is_file():
            return str(root), None if named[1] is None else int(named[1])
    return None
