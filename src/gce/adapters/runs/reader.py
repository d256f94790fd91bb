"""A run directory, read while another process may be writing it: nothing is locked, nothing is changed.

What is read are the records that were committed when it was opened; a run that goes on has more of them a moment
later. All of them are verified before the first is handed out, and the files beside the database when they are read.
While a run is written SQLite may leave its own `-shm` and `-wal` files behind.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from gce.adapters.runs.checkpoint_files import state_of_files
from gce.adapters.runs.checkpoint_folder import DamagedFileError, checkpoint_name
from gce.adapters.runs.integrity import Look, checkpoint_of, is_whole, look, way_out
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
        self.close()

    def close(self) -> None:
        """The same."""
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

    def records_from(self, stream: str, start: int, most: int) -> Iterator[dict[str, Any]]:
        """At most so many committed records of a stream, from this one on; quick wherever it begins."""
        return self._database.records(stream, min(start + most, self._lengths.get(stream, 0)), begin=start)

    def answers_from(self, name: str, start: int, most: int) -> Iterator[dict[str, Any]]:
        """The same for answers; from the database, where it repeats them."""
        kept = self._database.kept_answers(name, start, most)
        return islice(self.each_answer(name), start, start + most) if kept is None else iter(kept)

    def state_of(self, name: str) -> str:
        """What the database says of a file beside it: another text whenever the file was replaced."""
        try:
            return " ".join(sorted(self._database.hashes(name) or ()))
        except sqlite3.Error as exc:
            raise reading_failed(self._database.path, exc) from exc

    def length(self, stream: str) -> int:
        """How many committed records a stream has."""
        return self._lengths.get(stream, 0)

    def summary(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.summary`; what `summary.json` holds."""
        with self._verified_file("summary.json") as file:
            found = _parsed(self.path / "summary.json", file.read()) if file else None
        return summary_at_end(found, self.read("iterations"))

    def answers(self, name: str) -> list[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.answers`; what `NAME.jsonl` holds."""
        return list(self.each_answer(name))

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.each_answer`."""
        with self._verified_file(f"{name}.jsonl") as file:
            for line in filter(bytes.strip, file or ()):
                yield _parsed(self.path / f"{name}.jsonl", line)

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
            raise DamagedStore(
                f"{self.path}: {found.problem}", hint=way_out(found.commits, partial(is_whole, self.path))
            )
        return found

    @contextlib.contextmanager
    def _verified_file(self, name: str) -> Iterator[BinaryIO | None]:
        """A file beside the database, which must be as it was written, at its beginning; None where there is none.

        It is replaced and never changed, so what is read of it later is what was verified.
        """
        path = self.path / name
        seen: object = None
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    file = stack.enter_context(path.open("rb"))
                    hashed = hashlib.file_digest(file, "sha256").hexdigest()
                    known = self._database.hashes(name)
                except FileNotFoundError:
                    yield None
                    return
                except OSError as exc:
                    raise DamagedStore(f"cannot read {path}: {exc}") from exc
                except sqlite3.Error as exc:
                    raise reading_failed(self._database.path, exc) from exc
                if known is None or hashed in known:
                    break
                if seen == (hashed, known):  # Twice the same: it was not being replaced just then.
                    raise DamagedStore(
                        f"{path} is not as it was written: put back a copy of it, or delete it to do without"
                    )
                seen = hashed, known
                stack.pop_all().close()
            file.seek(0)
            yield file


def _parsed(path: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as exc:
        raise DamagedStore(f"cannot read {path}: {exc}") from exc
