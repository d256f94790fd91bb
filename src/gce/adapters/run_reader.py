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

from gce.adapters.input_files import parse_json, read_input
from gce.adapters.run_database import RunDatabase, reading_failed
from gce.adapters.run_integrity import look, way_out
from gce.errors import BadInput, DamagedStore

__all__ = ["CARD", "RunReader", "sealed"]

CARD = "validity.json"
MOST_OF_A_CARD = 16 * 2**20
"""Bytes."""
SEAL = "sha256"


def sealed(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card with the hash of what else it holds, for the run's own hashes know only what its writer wrote."""
    bare = {name: value for name, value in card.items() if name != SEAL}
    return {**bare, SEAL: hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()}


class RunReader:
    """A run's records, summary and answers."""

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True) -> None:
        """With `verify`, everything that was committed is read and held against its digests first.

        Raises BadInput where there is no run, DamagedStore where it cannot be read or is not as it was written.
        """
        self.path = Path(path)
        file = self.path / "run.sqlite"
        if not file.is_file():
            raise BadInput(f"expected a run directory, found no run.sqlite in {self.path}")
        if verify:
            found = look(self.path)
            self._database, self._lengths = found.database, found.lengths
            if found.problem is not None:
                self._database.close()
                raise DamagedStore(f"{self.path}: {found.problem}: {way_out(self.path, found.commits)}")
            return
        try:
            self._database = RunDatabase(file, read_only=True)
            self._lengths = self._database.lengths()
        except sqlite3.Error as exc:
            raise reading_failed(file, exc) from exc

    def __enter__(self) -> RunReader:
        """The reader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._database.close()

    @property
    def config(self) -> dict[str, Any]:
        """The config that the run was created with."""
        try:
            return self._database.config()
        except sqlite3.Error as exc:
            raise reading_failed(self._database.path, exc) from exc

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of `gce train`. BadInput where another program made the run."""
        settings = self.config.get("settings")
        if not isinstance(settings, dict):
            raise BadInput(f"expected a run that gce train made in {self.path}, got another program's")
        return settings

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """Committed records of a stream, oldest first."""
        return self._database.records(stream, self._lengths.get(stream, 0))

    def summary(self) -> dict[str, Any] | None:
        """What `summary.json` holds; None while the run goes on, also where it went on after it had ended once."""
        found = self._parsed("summary.json", json.loads)
        if not isinstance(found, dict):
            return None
        done = max((record["iteration"] for record in self.read("iterations")), default=0)
        return found if found.get("iterations") == done else None

    def answers(self, name: str) -> list[dict[str, Any]]:
        """What `NAME.jsonl` holds; nothing where there is none."""
        return self._parsed(f"{name}.jsonl", _lines) or []

    def card(self) -> dict[str, Any] | None:
        """What `gce validity` kept beside the run; None where there is none. One of an older version has no seal."""
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
