"""A run directory, read while another process may be writing it: nothing is locked, nothing is changed.

What is read are the records that were committed when it was opened; a run that goes on has more of them a moment
later. All of them are verified before the first is handed out, and the files beside the database when they are read.
While a run is written SQLite may leave its own `-shm` and `-wal` files behind.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from gce.adapters.runs.checkpoint_files import state_of_files
from gce.adapters.runs.checkpoint_folder import DamagedFileError, checkpoint_name
from gce.adapters.runs.integrity import Look, checkpoint_of, look, way_out
from gce.adapters.runs.sqlite_file import RunDatabase, reading_failed
from gce.adapters.runs.values import summary_at_end
from gce.adapters.system.input_files import parse_json, read_input
from gce.domain.learning import ModelState
from gce.errors import BadInput, DamagedStore

__all__ = ["CARD", "DirectoryReader", "sealed"]

CARD = "validity.json"
MOST_OF_A_CARD = 16 * 2**20
"""Bytes."""
SEAL = "sha256"


def sealed(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card with the hash of what else it holds, for the run's own hashes know only what its writer wrote."""
    bare = {name: value for name, value in card.items() if name != SEAL}
    return {**bare, SEAL: hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()}


class DirectoryReader:
    """The reader of a run in a directory."""

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True) -> None:
        """With `verify`, everything that was committed is read and held against its digests first.

        Raises BadInput where there is no run, DamagedStore where it cannot be read or is not as it was written.
        """
        self.path = Path(path)
        file = self.path / "run.sqlite"
        if not file.is_file():
            raise BadInput(f"expected a run directory, found no run.sqlite in {self.path}")
        self._verified: Look | None = None
        if verify:
            self._verified = self._whole(look(self.path))
            self._database, self._lengths = self._verified.database, self._verified.lengths
            return
        try:
            self._database = RunDatabase(file, read_only=True)
            self._lengths = self._database.lengths()
        except sqlite3.Error as exc:
            raise reading_failed(file, exc) from exc

    def __enter__(self) -> DirectoryReader:
        """The reader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._database.close()

    @property
    def name(self) -> str:
        """The directory's path."""
        return str(self.path)

    @property
    def config(self) -> dict[str, Any]:
        """The config that the run was created with."""
        try:
            return self._database.config()
        except sqlite3.Error as exc:
            raise reading_failed(self._database.path, exc) from exc

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.read`."""
        return self._database.records(stream, self._lengths.get(stream, 0))

    def summary(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.summary`; what `summary.json` holds."""
        return summary_at_end(self._parsed("summary.json", json.loads), self.read("iterations"))

    def answers(self, name: str) -> list[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.answers`; what `NAME.jsonl` holds."""
        return self._parsed(f"{name}.jsonl", _lines) or []

    def card(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.card`; what `validity.json` holds. One of an older version has no seal."""
        path = self.path / CARD
        if not path.exists():
            return None
        try:
            card = parse_json(read_input(path, MOST_OF_A_CARD), str(path))
        except BadInput as exc:
            raise DamagedStore(f"{exc}: run gce validity again") from exc
        if not isinstance(card, dict) or (SEAL in card and card != sealed(card)):
            raise DamagedStore(f"{path} is not as it was written: run gce validity again")
        return card

    def checkpoint(self, iteration: int | None = None) -> tuple[int, ModelState]:
        """See `gce.ports.runs.RunReader.checkpoint`.

        In a run that was opened without being verified, what was committed after the iteration may be damaged.
        """
        found = self._verified or look(self.path)
        if found is not self._verified:
            found.database.close()
        having = [each for each in found.commits if each.hashes is not None]
        chosen = having[-1:] if iteration is None else [each for each in having if each.iteration == iteration]
        if iteration is None or not chosen:
            self._whole(found)
        if not chosen or not (self.path / "checkpoints" / checkpoint_name(chosen[0].iteration)).is_dir():
            wanted = "checkpoint" if iteration is None else f"checkpoint of iteration {iteration}"
            raise BadInput(f"{self.path} has no {wanted} (any more)")
        (commit,) = chosen
        try:
            return commit.iteration, state_of_files(checkpoint_of(self.path, commit) or {})
        except DamagedFileError as exc:
            raise DamagedStore(f"{self.path}: {exc}: put back a copy of it, or take another checkpoint") from exc

    def _whole(self, found: Look) -> Look:
        """The same; DamagedStore where something is wrong with it, and then its database is closed."""
        if found.problem is not None:
            found.database.close()
            raise DamagedStore(f"{self.path}: {found.problem}: {way_out(self.path, found.commits)}")
        return found

    def _parsed(self, name: str, parse: Callable[[str], Any]) -> Any:
        """A file beside the database, which must be as it was written; None where there is none."""
        path = self.path / name
        seen: object = None
        while True:
            try:
                content = path.read_bytes()
                known = self._database.hashes(name)
            except FileNotFoundError:
                return None
            except OSError as exc:
                raise DamagedStore(f"cannot read {path}: {exc}") from exc
            except sqlite3.Error as exc:
                raise reading_failed(self._database.path, exc) from exc
            if known is None or hashlib.sha256(content).hexdigest() in known:
                break
            if seen == (content, known):  # Twice the same: it was not being replaced just then.
                raise DamagedStore(
                    f"{path} is not as it was written: put back a copy of it, or delete it to do without"
                )
            seen = content, known
        try:
            return parse(content.decode())
        except ValueError as exc:
            raise DamagedStore(f"cannot read {path}: {exc}") from exc


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]
