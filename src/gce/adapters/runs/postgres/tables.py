"""The rows of one run in the schema `gce` of a PostgreSQL database, with the digests of `chain`.

    runs     one row a run; `head` is the digest of its last commit, and finds commits that are missing at the end
    config   what the run was created with
    records, commits, held    as in a run directory
    files    the files of checkpoints (see `checkpoint_files`), in parts
    lines    summary, answers and validity card, a JSON object a line
    written  SHA-256 of each of these, as of which iteration

Whoever writes holds an advisory lock of the server on the run: it belongs to the session, so that it goes when the
process or the connection does. Each transaction also compares `head` with what the writer committed last, which holds
where a connection pool hands sessions around. Rows come from others who may write to the database: they are
checked as those of a run directory. Knows nothing of what records mean.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from gce.adapters.runs.chain import (
    CommitRow,
    commit_values,
    config_digest,
    held_digest,
    verified_commits,
    written_digest,
    wrong_held,
)
from gce.adapters.runs.checkpoint_files import file_hashes
from gce.adapters.runs.checkpoint_folder import DamagedFileError, checkpoint_name
from gce.adapters.runs.postgres.connection import Place, translated
from gce.errors import BadInput, DamagedStore, RunInUse, one_line

if TYPE_CHECKING:
    import psycopg

__all__ = ["RunTables", "find_run", "has_tables", "lock_run", "make_tables"]

_LAYOUT = 1
_LOCKS = 0x67636531
"""The first of two numbers that name a lock; the second is the run's, or 0 for the tables."""
_SECONDS_FOR_LOCK = 3
"""In which the server notices that a process has died, also one that was just committing."""
_TABLES = f"""
CREATE SCHEMA IF NOT EXISTS gce;
CREATE TABLE gce.layout (layout integer NOT NULL);
INSERT INTO gce.layout VALUES ({_LAYOUT});
CREATE TABLE gce.runs (id integer PRIMARY KEY GENERATED ALWAYS AS IDENTITY, name text NOT NULL UNIQUE,
  head text NOT NULL, created timestamptz NOT NULL DEFAULT now());
CREATE TABLE gce.config (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, sequence integer NOT NULL,
  name text NOT NULL, value text NOT NULL, PRIMARY KEY (run, sequence));
CREATE TABLE gce.records (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, stream text COLLATE "C" NOT NULL,
  sequence bigint NOT NULL, iteration bigint NOT NULL, body text NOT NULL, PRIMARY KEY (run, stream, sequence));
CREATE TABLE gce.commits (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, iteration bigint NOT NULL,
  checkpoint text, checkpoint_hash text, files text, pinned text NOT NULL, loop text NOT NULL, digest text NOT NULL,
  PRIMARY KEY (run, iteration));
CREATE TABLE gce.held (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, sequence bigint NOT NULL,
  body text NOT NULL, digest text NOT NULL, PRIMARY KEY (run, sequence));
CREATE TABLE gce.files (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, iteration bigint NOT NULL,
  name text NOT NULL, part integer NOT NULL, content bytea NOT NULL, PRIMARY KEY (run, iteration, name, part));
CREATE TABLE gce.lines (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, name text NOT NULL,
  sequence bigint NOT NULL, body text NOT NULL, PRIMARY KEY (run, name, sequence));
CREATE TABLE gce.written (run integer NOT NULL REFERENCES gce.runs ON DELETE CASCADE, name text NOT NULL,
  hash text NOT NULL, iteration bigint NOT NULL, digest text NOT NULL, PRIMARY KEY (run, name));
"""
_LENGTHS = """
WITH RECURSIVE streams (stream) AS (
  (SELECT stream FROM gce.records WHERE run = %(run)s ORDER BY stream LIMIT 1) UNION ALL
  SELECT (SELECT r.stream FROM gce.records r WHERE r.run = %(run)s AND r.stream > s.stream ORDER BY r.stream LIMIT 1)
  FROM streams s WHERE s.stream IS NOT NULL)
SELECT s.stream, (SELECT max(sequence) + 1 FROM gce.records r WHERE r.run = %(run)s AND r.stream = s.stream)
FROM streams s WHERE s.stream IS NOT NULL
"""
_HOLDER = """
SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = %s::oid AND l.objid = %s::oid AND l.granted
"""
_ROWS_AT_ONCE = 256
_PART = 16 * 2**20
"""Bytes of a file in one row."""


def has_tables(db: psycopg.Connection[Any], place: Place) -> bool:
    """Whether the database has tables of gce. BadInput for those of another version."""
    if _value(db, "SELECT to_regclass('gce.layout') IS NULL"):
        return False
    if (layout := _value(db, "SELECT max(layout) FROM gce.layout")) != _LAYOUT:
        raise BadInput(f"{place.server}: expected tables of layout {_LAYOUT}, got {layout!r}: install another gce")
    return True


def find_run(db: psycopg.Connection[Any], place: Place) -> int | None:
    """The number of the run; None where there is none."""
    if not has_tables(db, place):
        return None
    found: int | None = _value(db, "SELECT id FROM gce.runs WHERE name = %s", place.run)
    return found


def make_tables(db: psycopg.Connection[Any]) -> None:
    """Make the tables where there are none; of several processes at once, one does."""
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCKS,))
        if _value(db, "SELECT to_regclass('gce.layout') IS NULL"):
            db.execute(_TABLES)


def lock_run(db: psycopg.Connection[Any], run: int, name: str) -> None:
    """Become the writer of the run for as long as the connection lives. RunInUse where another one is."""
    from psycopg.errors import LockNotAvailable

    db.execute(f"SET lock_timeout = '{_SECONDS_FOR_LOCK}s'")
    try:
        db.execute("SELECT pg_advisory_lock(%s, %s)", (_LOCKS, run))
    except LockNotAvailable as exc:
        # Others choose their names themselves.
        holder = one_line(_value(db, _HOLDER, _LOCKS, run) or "another process", 80)
        raise RunInUse(f"the run {name} is in use by {holder}: wait until it ends, or give another name") from exc
    db.execute("SET lock_timeout = 0")


class RunTables:
    """One run's rows on one connection. Methods raise errors of psycopg, except as they say."""

    def __init__(self, db: psycopg.Connection[Any], run: int, name: str) -> None:
        """`name` is for messages."""
        self.db = db
        self.name = name
        self.run = run
        self._cursors = count()

    def add_config(self, rows: Sequence[tuple[str, str]]) -> None:
        """Keep the config's rows."""
        self._copy("config (run, sequence, name, value)", ((n, *row) for n, row in enumerate(rows)))

    def first_digest(self) -> str:
        """What the chain starts from."""
        return config_digest(self._rows("SELECT name, value FROM gce.config WHERE run = %s ORDER BY sequence"))

    def config(self) -> dict[str, Any]:
        """The config that the run was created with. DamagedStore where it cannot be read."""
        whole: dict[str, Any] = {}
        for (value,) in self._rows("SELECT value FROM gce.config WHERE run = %s ORDER BY sequence"):
            whole |= self._object(value, "the config")
        return whole

    def lengths(self) -> dict[str, int]:
        """How many records each stream has."""
        return dict(self.db.execute(_LENGTHS, {"run": self.run}).fetchall())

    def loop(self, iteration: int) -> dict[str, Any]:
        """The loop's state as of this commit. DamagedStore where it cannot be read."""
        query = "SELECT loop FROM gce.commits WHERE run = %s AND iteration = %s"
        return self._object(_value(self.db, query, self.run, iteration), "the loop's state")

    def records(self, stream: str, end: int) -> Iterator[dict[str, Any]]:
        """The records of a stream up to `end`. GceError where they cannot be read."""
        query = (
            "SELECT body FROM gce.records WHERE run = %s AND stream = %s AND sequence >= %s AND sequence < %s"
            " ORDER BY sequence"
        )
        for body in self._slices(query, stream, end):
            yield self._object(body, f"a record of {stream!r}")

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """What was written under this name; all of it is verified before the first is handed out."""
        hashed = hashlib.sha256()
        with translated(self.name):
            found = self._rows("SELECT hash, iteration, digest FROM gce.written WHERE run = %s AND name = %s", name)
            end = _value(
                self.db,
                "SELECT coalesce(max(sequence) + 1, 0) FROM gce.lines WHERE run = %s AND name = %s",
                self.run,
                name,
            )
        query = (
            "SELECT body FROM gce.lines WHERE run = %s AND name = %s AND sequence >= %s AND sequence < %s"
            " ORDER BY sequence"
        )
        for body in self._slices(query, name, end):
            hashed.update(f"{body}\n".encode())
        if not found and not end:
            return
        expected = [(hashed.hexdigest(), written_digest(name, row[1], row[0])) for row in found]
        if not found or [(hash_, digest) for hash_, _, digest in found] != expected:
            raise DamagedStore(f"{self.name}: {name} is not as it was written: put back a copy of the database")
        for body in self._slices(query, name, end):
            yield self._object(body, name)

    def written(self) -> list[str]:
        """Names under which something was written."""
        return [name for (name,) in self._rows("SELECT name FROM gce.written WHERE run = %s ORDER BY name")]

    def chain(self) -> tuple[list[CommitRow], str | None]:
        """The commits that match their digests, and what is wrong behind them; reads everything that was committed."""
        with self.db.transaction():
            commits, problem = verified_commits(
                self.first_digest(),
                self._each(
                    "SELECT stream, sequence, body, iteration FROM gce.records WHERE run = %s ORDER BY stream, sequence"
                ),
                self._each(
                    "SELECT iteration, checkpoint, checkpoint_hash, files, pinned, loop, digest FROM gce.commits"
                    " WHERE run = %s ORDER BY iteration"
                ),
            )
            tip = commits[-1].digest if commits else self.first_digest()
            if problem is None and self.head() != tip:
                ends = commits[-1].iteration if commits else None
                problem = f"commits are missing: they end with iteration {ends}, and the run went on"
        return commits, problem

    def head(self) -> str:
        """The digest of the last commit, as it stands beside the commits."""
        found: str = _value(self.db, "SELECT head FROM gce.runs WHERE id = %s", self.run)
        return found

    def wrong_held(self, before: str) -> str | None:
        """What is wrong, in words, with what is held since the commit of this digest, if anything."""
        with self.db.transaction():
            query = "SELECT sequence, body, digest FROM gce.held WHERE run = %s ORDER BY sequence"
            return wrong_held(before, self._each(query))

    def held(self) -> list[dict[str, Any]]:
        """What is held since the last commit, oldest first. DamagedStore where it cannot be read."""
        query = "SELECT body FROM gce.held WHERE run = %s ORDER BY sequence"
        return [self._object(body, "what is held since the last commit") for (body,) in self._rows(query)]

    def kept_checkpoints(self) -> list[int]:
        """Iterations of which there are files, oldest first."""
        query = "SELECT DISTINCT iteration FROM gce.files WHERE run = %s ORDER BY iteration"
        return [iteration for (iteration,) in self._rows(query)]

    def checkpoint(self, commit: CommitRow) -> dict[str, bytes] | None:
        """A commit's files, None where it has none; DamagedFileError where they are not as they were written."""
        if commit.hashes is None:
            return None
        query = "SELECT name, content FROM gce.files WHERE run = %s AND iteration = %s ORDER BY name, part"
        parts: dict[str, list[bytes]] = {}
        with self.db.cursor(binary=True) as cursor:
            for name, content in cursor.execute(query, (self.run, commit.iteration)):
                parts.setdefault(name, []).append(content)
        files = {name: b"".join(parts.get(name, ())) for name in commit.hashes}
        for name, hash_ in file_hashes(files).items():
            if hash_ != commit.hashes[name]:
                problem = "does not match its hash" if name in parts else "is missing"
                raise DamagedFileError(f"checkpoints/{checkpoint_name(commit.iteration)}/{name} {problem}")
        return files

    def is_whole(self, commit: CommitRow) -> bool:
        """Whether a commit's checkpoint, if it has one, is kept and as it was written."""
        try:
            self.checkpoint(commit)
        except DamagedFileError:
            return False
        return True

    def commit(
        self,
        records: Sequence[tuple[str, int, str]],
        row: CommitRow,
        loop: str,
        files: Mapping[str, bytes],
        kept: Sequence[int],
        *,
        before: str,
        on_commit: Callable[[], None],
    ) -> CommitRow:
        """Add a commit with its (stream, sequence, body) records and files in one transaction; the row with its digest.

        Of earlier checkpoints, those of the iterations `kept` stay. `on_commit` is called last.
        """
        values, committed = commit_values(row, loop, records, before=before)
        with self._writing(before):
            self._copy(
                "records (run, stream, sequence, iteration, body)",
                ((stream, sequence, row.iteration, body) for stream, sequence, body in records),
            )
            self.db.execute(
                "INSERT INTO gce.commits (run, iteration, checkpoint, checkpoint_hash, files, pinned, loop, digest)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
                (self.run, *values, committed.digest),
            )
            self.db.execute("DELETE FROM gce.files WHERE run = %s AND iteration <> ALL (%s)", (self.run, list(kept)))
            for name, content in files.items():
                for part, start in enumerate(range(0, len(content), _PART)):
                    self.db.execute(
                        "INSERT INTO gce.files (run, iteration, name, part, content) VALUES (%s, %s, %s, %s, %b)",
                        (self.run, row.iteration, name, part, content[start : start + _PART]),
                    )
            self.db.execute("DELETE FROM gce.held WHERE run = %s", (self.run,))
            self._set_head(committed.digest)
            on_commit()
        return committed

    def hold(self, body: str, *, before: str, on_hold: Callable[[], None]) -> None:
        """Add what is held until the next commit; `before` is the last commit's digest. `on_hold` is called last."""
        with self._writing(before):
            query = "SELECT sequence, digest FROM gce.held WHERE run = %s ORDER BY sequence DESC LIMIT 1"
            earlier = self._rows(query)
            sequence, previous = (earlier[0][0] + 1, earlier[0][1]) if earlier else (0, before)
            self.db.execute(
                "INSERT INTO gce.held (run, sequence, body, digest) VALUES (%s, %s, %s, %s)",
                (self.run, sequence, body, held_digest(previous, sequence, body)),
            )
            on_hold()

    def write(self, name: str, lines: Sequence[str], iteration: int, *, before: str | None) -> None:
        """Replace what was written under this name; `before` as in `hold`, None for one who is not the writer."""
        hash_ = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()
        with self._writing(before):
            self.db.execute("DELETE FROM gce.lines WHERE run = %s AND name = %s", (self.run, name))
            self._copy("lines (run, name, sequence, body)", ((name, n, line) for n, line in enumerate(lines)))
            self.db.execute(
                "INSERT INTO gce.written (run, name, hash, iteration, digest) VALUES (%s, %s, %s, %s, %s)"
                " ON CONFLICT (run, name) DO UPDATE SET hash = excluded.hash, iteration = excluded.iteration,"
                " digest = excluded.digest",
                (self.run, name, hash_, iteration, written_digest(name, iteration, hash_)),
            )

    def discard_after(self, last: CommitRow) -> None:
        """Delete all that came after this commit."""
        with self.db.transaction():
            later = "WHERE run = %s AND iteration > %s"
            self.db.execute(
                f"DELETE FROM gce.lines WHERE run = %s AND name IN (SELECT name FROM gce.written {later})",
                (self.run, self.run, last.iteration),
            )
            for table in ("written", "records", "commits", "files"):
                self.db.execute(f"DELETE FROM gce.{table} {later}", (self.run, last.iteration))
            self.db.execute("DELETE FROM gce.held WHERE run = %s", (self.run,))
            self._set_head(last.digest)

    @contextmanager
    def _writing(self, before: str | None) -> Iterator[None]:
        """A transaction of the run's writer; RunInUse where another one has committed since `before`."""
        with self.db.transaction():
            head = _value(self.db, "SELECT head FROM gce.runs WHERE id = %s FOR UPDATE", self.run)
            if before is not None and head != before:
                raise RunInUse(f"the run {self.name} was continued by another process: wait until it ends")
            yield

    def _set_head(self, digest: str) -> None:
        self.db.execute("UPDATE gce.runs SET head = %s WHERE id = %s", (digest, self.run))

    def _copy(self, table: str, rows: Iterator[tuple[Any, ...]]) -> None:
        with self.db.cursor() as cursor, cursor.copy(f"COPY gce.{table} FROM STDIN") as copy:
            for row in rows:
                copy.write_row((self.run, *row))

    def _slices(self, query: str, name: str, end: int) -> Iterator[str]:
        """The one column of a query for the run, this name and sequences from .. to; in slices, as readers are slow."""
        for start in range(0, end, _ROWS_AT_ONCE):
            stop = min(start + _ROWS_AT_ONCE, end)
            with translated(self.name):
                found = self._rows(query, name, start, stop)
            if len(found) != stop - start:
                raise DamagedStore(f"{self.name}: rows of {name!r} are missing: put back a copy of the database")
            for (value,) in found:
                yield value

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return list(self.db.execute(query, (self.run, *values)))

    def _each(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Rows of a long answer, which the server keeps; inside a transaction alone."""
        with self.db.cursor(name=f"gce_{next(self._cursors)}") as cursor:
            cursor.itersize = _ROWS_AT_ONCE
            yield from cursor.execute(query, (self.run,))

    def _object(self, text: object, what: str) -> dict[str, Any]:
        try:
            found = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise DamagedStore(f"{self.name}: {what} is damaged: put back a copy of the database")
        return found


def _value(db: psycopg.Connection[Any], query: str, *values: object) -> Any:
    found = db.execute(query, values).fetchone()
    return None if found is None else found[0]
