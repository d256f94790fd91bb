"""The SQLite file of a run: its config, its records, commits whose digests form a `chain`, and what is held since.

Bits of the file that hold nothing are free to change.

`sqlite_views` are for other programs: `SELECT tier, avg(correct) FROM rollouts GROUP BY tier`. Any other stream whose
name is a plain identifier has a view of that name with `iteration`, `sequence` and `body`. `kept_answers` repeats, for
the views, test answers that have files beside the database. Knows nothing of checkpoints but their hashes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gce.adapters.runs.chain import (
    CommitRow,
    commit_values,
    config_digest,
    config_rows,
    held_digest,
    verified_commits,
    written_digest,
    wrong_held,
)
from gce.adapters.runs.sqlite_views import VIEWS
from gce.errors import DamagedStore, GceError, one_line

__all__ = ["RunDatabase", "reading_failed"]

_APPLICATION = 0x67636531
_LAYOUT = 4
_SINCE = {"held": 2, "written": 2, "kept_answers": 3}
"""The layout that brought a table; a run of an older one gets it when it is opened to go on."""
_TABLES = {
    "config": "CREATE TABLE config (name TEXT NOT NULL, value TEXT NOT NULL)",
    # Without rowid there is one tree, so what the digest is taken of is what `read` finds.
    "records": (
        "CREATE TABLE records (stream TEXT NOT NULL, sequence INTEGER NOT NULL, iteration INTEGER NOT NULL,"
        " body TEXT NOT NULL, PRIMARY KEY (stream, sequence)) WITHOUT ROWID"
    ),
    "commits": (
        "CREATE TABLE commits (iteration INTEGER PRIMARY KEY, checkpoint TEXT, checkpoint_hash TEXT, files TEXT,"
        " pinned TEXT NOT NULL, loop TEXT NOT NULL, digest TEXT NOT NULL)"
    ),
    "held": "CREATE TABLE held (sequence INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL)",
    "written": (
        "CREATE TABLE written (name TEXT NOT NULL, hash TEXT NOT NULL, iteration INTEGER NOT NULL,"
        " digest TEXT NOT NULL, PRIMARY KEY (name, hash))"
    ),
    "kept_answers": (
        "CREATE TABLE kept_answers (name TEXT NOT NULL, sequence INTEGER NOT NULL, body TEXT NOT NULL,"
        " PRIMARY KEY (name, sequence)) WITHOUT ROWID"
    ),
}
_PLAIN_VIEWS_SINCE = 3
"""Layout 4 gave rollouts the columns of answers; views are made anew with every layout."""
_IDENTIFIER = re.compile(r"(?!sqlite_)[a-z][a-z0-9_]*")
_ROWS_AT_ONCE = 256
_BUSY_SECONDS = 30.0


class RunDatabase:
    """One connection to a run's database. Methods raise sqlite3.Error where SQLite fails, except as they say."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Connect to a database that `start` made. DamagedStore where the file is none.

        With `read_only`, threads may use the connection in turns.
        """
        self.path = path
        mode = "rw"
        if read_only:
            # Without a log nobody writes: then SQLite needs no files of its own beside the database.
            mode = "ro" if path.with_name(path.name + "-wal").exists() else "ro&immutable=1"
        self._db = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=_BUSY_SECONDS,
            check_same_thread=not read_only,
        )
        try:
            application, layout = (self._value(f"PRAGMA {name}") for name in ("application_id", "user_version"))
            if application == _APPLICATION and layout > _LAYOUT:
                raise DamagedStore(
                    f"{path}: expected a run of layout {_LAYOUT} or older, got layout {layout}: a newer version of gce "
                    "made it: install that one, or give another directory"
                )
            if application != _APPLICATION or layout < 1:
                raise DamagedStore(
                    f"{path}: expected a run of layout {_LAYOUT} or older, got application {application}, layout "
                    f"{layout}: it is damaged, or no run: put back a copy of it, or give another directory"
                )
            self._layout = layout
            # What is no text was damaged: then it does not match its digest, which says more than that it is none.
            self._db.text_factory = lambda content: content.decode("utf-8", "replace")
            if read_only:
                return
            self._value("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's own cache
            self._db.execute("PRAGMA cell_size_check = ON")
        except BaseException:
            self._db.close()
            raise

    @staticmethod
    def start(path: Path, config: Mapping[str, Any]) -> str:
        """Write a new database with this config and no commits; its first digest."""
        rows = config_rows(config)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
            db.execute(f"PRAGMA user_version = {_LAYOUT}")
            db.execute("BEGIN")
            for statement in (*_TABLES.values(), *VIEWS.values()):
                db.execute(statement)
            db.executemany("INSERT INTO config VALUES (?, ?)", rows)
            db.execute("COMMIT")
        return config_digest(rows)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Inside, what is read is what was committed when it was first read; the write-ahead log is held back."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def bring_up_to_date(self, read_reports: Callable[[], Mapping[str, bytes]]) -> None:
        """Add what this layout has and the file's has not; for a file that has been found whole.

        `read_reports` gives the files that the run wrote beside the database, for a layout that did not keep their
        hashes, or not the answers in them.
        """
        if self._layout == _LAYOUT:
            return
        since, reports = self._layout, read_reports()
        with self._transaction():
            for name in [name for name, layout in _SINCE.items() if layout > since]:
                self._db.execute(f"DROP VIEW IF EXISTS {name}")  # Of a stream of that name.
                self._db.execute(_TABLES[name])
            for name, statement in VIEWS.items():
                self._db.execute(f"DROP VIEW IF EXISTS {name}")  # Without plain columns.
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {_LAYOUT}")
            for name, content in reports.items():
                hash_ = hashlib.sha256(content).hexdigest()
                if since < _SINCE["written"]:
                    self._announce(name, hash_, 0)
                if hash_ in self._hashes(name):
                    self._keep_answers(name, content)
        self._layout = _LAYOUT

    def first_digest(self) -> str:
        """What the chain starts from."""
        return config_digest(self._rows("SELECT name, value FROM config ORDER BY rowid"))

    def config(self) -> dict[str, Any]:
        """The config given to `start`."""
        whole: dict[str, Any] = {}
        for (value,) in self._rows("SELECT value FROM config ORDER BY rowid"):
            whole |= json.loads(value)
        return whole

    def lengths(self) -> dict[str, int]:
        """How many records each stream has."""
        # From stream to stream along the primary key: GROUP BY would read every record.
        streams = (
            "WITH RECURSIVE streams (stream) AS (SELECT min(stream) FROM records UNION ALL"
            " SELECT (SELECT min(stream) FROM records WHERE stream > streams.stream) FROM streams"
            " WHERE stream IS NOT NULL)"
        )
        last = "(SELECT max(sequence) FROM records WHERE stream = streams.stream)"
        return dict(self._rows(f"{streams} SELECT stream, {last} + 1 FROM streams WHERE stream IS NOT NULL"))

    def loop(self, iteration: int) -> dict[str, Any]:
        """The loop's state as of this commit."""
        state: dict[str, Any] = json.loads(self._value("SELECT loop FROM commits WHERE iteration = ?", iteration))
        return state

    def records(self, stream: str, end: int, *, begin: int = 0) -> Iterator[dict[str, Any]]:
        """The records of a stream from `begin` up to `end`. DamagedStore where they cannot be read."""
        # In slices: a cursor left open would hold back the write-ahead log for as long as the reader takes.
        for start in range(max(begin, 0), end, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, end)
            query = "SELECT body FROM records WHERE stream = ? AND sequence >= ? AND sequence < ? ORDER BY sequence"
            try:
                found = [json.loads(body) for (body,) in self._rows(query, stream, start, stop)]
            except sqlite3.Error as exc:
                raise reading_failed(self.path, exc) from exc
            except (TypeError, ValueError):
                found = []
            if len(found) != stop - start:
                raise DamagedStore(f"{self.path}: records of {stream!r} are damaged: put back a copy of it")
            yield from found

    def commit(
        self,
        records: Sequence[tuple[str, int, str]],
        row: CommitRow,
        loop: str,
        *,
        before: str,
        on_commit: Callable[[], None] = lambda: None,
    ) -> CommitRow:
        """Add (stream, sequence, body) records and a commit in one transaction; the row with its digest.

        `before` is the digest to chain to; the row's own is ignored. `on_commit` is called last before the commit.
        """
        values, committed = commit_values(row, loop, records, before=before)
        with self._transaction():
            began = {stream for stream, sequence, _ in records if sequence == 0}
            for stream in sorted(stream for stream in began if _has_view(stream, self._layout)):
                self._db.execute(f'DROP VIEW IF EXISTS "{stream}"')
                self._db.execute(_view(stream))
            self._db.executemany(
                "INSERT INTO records (stream, sequence, iteration, body) VALUES (?, ?, ?, ?)",
                ((stream, sequence, row.iteration, body) for stream, sequence, body in records),
            )
            self._db.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, committed.digest))
            self._db.execute("DELETE FROM held")
            on_commit()
        return committed

    def hold(self, body: str, *, before: str, on_hold: Callable[[], None] = lambda: None) -> None:
        """Add what is held until the next commit; `before` is the last commit's digest. `on_hold` is called last."""
        with self._transaction():
            earlier = self._rows("SELECT sequence, digest FROM held ORDER BY sequence DESC LIMIT 1")
            sequence, previous = (earlier[0][0] + 1, earlier[0][1]) if earlier else (0, before)
            digest = held_digest(previous, sequence, body)
            self._db.execute("INSERT INTO held VALUES (?, ?, ?)", (sequence, body, digest))
            on_hold()

    def held(self) -> list[dict[str, Any]]:
        """What is held since the last commit, oldest first. DamagedStore where it cannot be read."""
        try:
            return [json.loads(body) for (body,) in self._rows("SELECT body FROM held ORDER BY sequence")]
        except (TypeError, ValueError) as exc:
            raise DamagedStore(
                f"{self.path}: what is held since the last commit is damaged: resuming the run says from where to go on"
            ) from exc

    def loose_ends(self, before: str) -> str | None:
        """What is wrong, in words, with what came after the commit of this digest and belongs to no commit, if any."""
        if self._layout < _SINCE["held"]:
            return None
        if (problem := wrong_held(before, self._each("SELECT * FROM held ORDER BY sequence"))) is not None:
            return f"run.sqlite: {problem}"
        for name, hash_, iteration, stored in self._each("SELECT * FROM written"):
            if stored != written_digest(name, iteration, hash_):
                return "run.sqlite: what it says of files beside it does not match its digest"
        return self._wrong_answers()

    def _wrong_answers(self) -> str | None:
        """What is wrong, in words, with the answers that are repeated here, if anything."""
        if self._layout < _SINCE["kept_answers"]:
            return None
        summed: dict[object, Any] = {}
        for name, body in self._each("SELECT name, body FROM kept_answers ORDER BY name, sequence"):
            summed.setdefault(name, hashlib.sha256()).update(f"{body}\n".encode("utf-8", "surrogatepass"))
        for name, found in summed.items():
            if found.hexdigest() not in self._hashes(f"{name}.jsonl"):
                return f"run.sqlite: the answers {name!r} do not match their digest"
        return None

    def announce(self, name: str, content: bytes, hashes: Sequence[str], iteration: int) -> None:
        """Say that a file beside the database has one of these SHA-256, as of this iteration, 0 before the first.

        The last is that of the `content` which it is about to have; answers are repeated here.
        """
        with self._transaction():
            for hash_ in hashes:
                self._announce(name, hash_, iteration)
            self._keep_answers(name, content)

    def _keep_answers(self, name: str, content: bytes) -> None:
        """Replace the answers of this file; those of one that does not hold a JSON object a line are not repeated."""
        stem = name.removesuffix(".jsonl")
        if stem == name:
            return
        self._db.execute("DELETE FROM kept_answers WHERE name = ?", (stem,))
        lines = content.decode("utf-8", "replace").split("\n")[:-1]
        if all(map(_is_object, lines)):
            rows = ((stem, sequence, line) for sequence, line in enumerate(lines))
            self._db.executemany("INSERT INTO kept_answers VALUES (?, ?, ?)", rows)

    def _announce(self, name: str, hash_: str, iteration: int) -> None:
        digest = written_digest(name, iteration, hash_)
        self._db.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?)", (name, hash_, iteration, digest))

    def settle(self, name: str, hash_: str) -> None:
        """Say which it is."""
        self._db.execute("DELETE FROM written WHERE name = ? AND hash != ?", (name, hash_))

    def kept_answers(self, name: str, start: int, most: int) -> list[dict[str, Any]] | None:
        """Answers as they are repeated here; None where they are not. DamagedStore where they cannot be read."""
        if self._layout < _SINCE["kept_answers"]:
            return None
        query = "SELECT body FROM kept_answers WHERE name = ? AND sequence >= ? ORDER BY sequence LIMIT ?"
        try:
            return [json.loads(body) for (body,) in self._rows(query, name, start, most)]
        except sqlite3.Error as exc:
            raise reading_failed(self.path, exc) from exc
        except ValueError as exc:
            raise DamagedStore(f"{self.path}: answers of {name!r} are damaged: put back a copy of it") from exc

    def hashes(self, name: str) -> set[str] | None:
        """SHA-256 of what a file may hold: of several where a crash cut off its replacement; None in a layout without.

        DamagedStore where they are not as they were written.
        """
        return None if self._layout < _SINCE["written"] else self._hashes(name)

    def _hashes(self, name: str) -> set[str]:
        found = self._rows("SELECT hash, iteration, digest FROM written WHERE name = ?", name)
        if any(digest != written_digest(name, iteration, hash_) for hash_, iteration, digest in found):
            raise DamagedStore(f"{self.path}: what it says of {name} does not match its digest: put back a copy of it")
        return {hash_ for hash_, _, _ in found}

    def written_after(self, iteration: int) -> list[str]:
        """Names of files that were written when a later iteration had been committed."""
        if self._layout < _SINCE["written"]:
            return []
        return [name for (name,) in self._rows("SELECT DISTINCT name FROM written WHERE iteration > ?", iteration)]

    def discard_after(self, iteration: int) -> None:
        """Delete all commits after this one, their records, what is held, and what is known of files written since."""
        with self._transaction():
            self._db.execute("DELETE FROM held")
            for name in self.written_after(iteration):
                self._db.execute("DELETE FROM kept_answers WHERE name = ?", (name.removesuffix(".jsonl"),))
            self._db.execute("DELETE FROM written WHERE iteration > ?", (iteration,))
            self._db.execute("DELETE FROM records WHERE iteration > ?", (iteration,))
            self._db.execute("DELETE FROM commits WHERE iteration > ?", (iteration,))

    def chain(self) -> tuple[list[CommitRow], str | None]:
        """The commits from the first on that match their digests, and in words what is wrong with the next, if any.

        Reads everything. A file whose structure is damaged raises sqlite3.Error.
        """
        report = self._value("PRAGMA integrity_check(1)")
        if report != "ok":
            raise sqlite3.DatabaseError(str(report))
        if changed := self._changed_definition():
            raise sqlite3.DatabaseError(f"the definition of {changed} is not as it was written")
        commits, problem = verified_commits(
            self.first_digest(),
            self._each("SELECT stream, sequence, body, iteration FROM records ORDER BY stream, sequence"),
            self._each("SELECT * FROM commits ORDER BY iteration"),
        )
        return commits, None if problem is None else f"run.sqlite: {problem}"

    def _changed_definition(self) -> str | None:
        found = set(self._rows("SELECT name, sql FROM sqlite_master"))
        expected = [(name, sql) for name, sql in _TABLES.items() if _SINCE.get(name, 1) <= self._layout]
        if not set(expected) - found:
            streams = [stream for (stream,) in self._rows("SELECT DISTINCT stream FROM records")]
            expected += [(stream, _view(stream)) for stream in streams if _has_view(stream, self._layout)]
            # An older layout's plain views may have been made by other statements.
            expected += VIEWS.items() if self._layout == _LAYOUT else ()
        return next((name for name, sql in expected if (name, sql) not in found), None)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return list(self._each(query, *values))

    def _each(self, query: str, *values: object) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(query, values)
        except UnicodeDecodeError as exc:  # in the text of SQLite's own error, quoted from the damaged file
            raise sqlite3.DatabaseError("it holds text that is not UTF-8") from exc

    def _value(self, query: str, *values: object) -> Any:
        rows = self._rows(query, *values)
        if len(rows) != 1:
            raise sqlite3.DatabaseError(f"expected one row for {query!r}, got {len(rows)}")
        return rows[0][0]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
            raise


def reading_failed(path: Path, exc: sqlite3.Error) -> GceError:
    """SQLite's error in reading `path`, as ours: damage, unless a busy, full or closed disk explains it."""
    reason = one_line(exc)
    code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the rest says more than is needed
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return GceError(f"{path}: {reason}: another program keeps it locked: end that one, then try again")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN) or not os.access(path, os.W_OK):
        return GceError(f"{path}: {reason}: make room, or make it readable and writable, then try again")
    return DamagedStore(f"{path}: {reason}: put back a copy of it, or start a new run elsewhere")


def _has_view(stream: object, layout: int) -> bool:
    """Whether a stream has a view of its own: named like it, with its records' JSON."""
    if not isinstance(stream, str) or not _IDENTIFIER.fullmatch(stream):
        return False
    tables = {name for name in _TABLES if _SINCE.get(name, 1) <= layout}
    return stream not in tables and (layout < _PLAIN_VIEWS_SINCE or stream not in VIEWS)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _view(stream: str) -> str:
    query = f"SELECT iteration, sequence, body FROM records WHERE stream = '{stream}' ORDER BY sequence"
    return f'CREATE VIEW "{stream}" AS {query}'
