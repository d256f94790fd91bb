"""An index of a run's answers in a SQLite file of its own, so that a page of 1,000,000 answers is found at once.

The index is made from the run and can be deleted at any time. It grows as the run does, a batch at a time, and begins
again where the run was taken back to an earlier iteration or its test answers were replaced. The run's own database is
only read. Knows neither pages nor what an outcome is: what is kept of an answer is said by the caller.
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from attrs import astuple, field, frozen

from gce.adapters.runs.kept_open import KeptOpen
from gce.adapters.runs.reader import DirectoryReader

__all__ = ["AnswerIndex", "AnswerQuery", "Indexed", "IndexedAnswer"]

_LAYOUT = 1
_BATCH = 1000
_TABLES = """
CREATE TABLE answers (id INTEGER PRIMARY KEY, moment TEXT, sequence INTEGER, iteration INTEGER, tier TEXT, outcome TEXT,
  reward REAL, disagree INTEGER, problem TEXT, beginning TEXT);
CREATE UNIQUE INDEX by_place ON answers (moment, sequence);
CREATE INDEX by_moment ON answers (moment);
CREATE INDEX by_tier ON answers (tier);
CREATE INDEX by_outcome ON answers (outcome);
CREATE INDEX by_iteration ON answers (iteration);
CREATE INDEX by_problem ON answers (problem);
CREATE INDEX by_disagreement ON answers (id) WHERE disagree;
CREATE TABLE counts (moment TEXT, tier TEXT, outcome TEXT, n INTEGER, PRIMARY KEY (moment, tier, outcome));
CREATE TABLE sources (moment TEXT PRIMARY KEY, state TEXT, n INTEGER);
CREATE VIRTUAL TABLE texts USING fts5(text, content='', detail=none, columnsize=0);
"""
_MOST_WORDS = 8


@frozen
class Indexed:
    """What is kept of an answer."""

    iteration: int | None
    tier: str
    outcome: str
    reward: float | None
    disagree: bool
    """Whether evaluators differ."""
    problem: str
    beginning: str
    """Of the text, for a list."""
    text: str = field(repr=False)
    """What a search looks in."""


@frozen
class IndexedAnswer:
    """An answer as it is found."""

    id: int
    moment: str
    sequence: int
    iteration: int | None
    tier: str
    outcome: str
    reward: float | None
    disagree: bool
    problem: str
    beginning: str


@frozen
class AnswerQuery:
    """Which answers are asked for; what is empty or None does not matter."""

    moment: str = ""
    tier: str = ""
    outcome: str = ""
    first: int | None = None
    last: int | None = None
    """Iterations, both included."""
    disagree: bool = False
    words: str = ""
    """Each of which has to be in the prompt, the answer or a violation; with a star, the beginning of a word."""

    @property
    def kind(self) -> dict[str, str]:
        """The columns that have to have one value."""
        columns = {"moment": self.moment, "tier": self.tier, "outcome": self.outcome}
        return {name: value for name, value in columns.items() if value}

    @property
    def match(self) -> str:
        """The words as FTS5 reads them: with a star the beginning of one, and nothing else in them is an operator."""
        return " AND ".join(f'"{word}"{star}' for word, star in re.findall(r"(\w+)(\*?)", self.words)[:_MOST_WORDS])


class AnswerIndex:
    """The index of one run. No two threads use a connection at the same time."""

    def __init__(self, file: Path, run: Path, names: Mapping[str, str], kept: KeptOpen | None = None) -> None:
        """`names` says under which name the answers of each moment are kept; rollouts have the empty name.

        Connections stay open as long as `kept` keeps them, by default not at all.
        """
        self._file, self._run, self._names, self._kept = file, run, names, kept or KeptOpen()
        file.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as db:
            if db.execute("PRAGMA user_version").fetchone()[0] != _LAYOUT:
                self._begin_again(db)

    def grow(self, describe: Callable[[str, Mapping[str, Any]], Indexed], seconds: float) -> bool:
        """Add what is not indexed yet, for about so long; True if that is all."""
        end = time.monotonic() + seconds
        with self._connected() as db, DirectoryReader(self._run, verify=False) as run:
            states = {moment: self._state(run, moment) for moment in self._names}
            known = {row[0]: row[1:] for row in db.execute("SELECT moment, state, n FROM sources")}
            if any(moment in known and not self._goes_on(run, moment, *known[moment]) for moment in self._names):
                self._begin_again(db)
                known = {}
            for moment, name in self._names.items():
                done = known[moment][1] if moment in known else 0
                while batch := list(self._records(run, moment, name, done)):
                    added = self._add(db, moment, done, batch, describe, states[moment])
                    done += len(batch)
                    if not added or time.monotonic() > end:
                        return False
        return True

    def _records(self, run: DirectoryReader, moment: str, name: str, done: int) -> Iterator[dict[str, Any]]:
        if name:
            return islice(run.each_answer(name), done, done + _BATCH)
        return run.records_from(moment, done, _BATCH)

    def _state(self, run: DirectoryReader, moment: str) -> str:
        """What changes where the answers of a moment are no longer those that were there before."""
        return run.state_of(f"{self._names[moment]}.jsonl") if self._names[moment] else ""

    def _goes_on(self, run: DirectoryReader, moment: str, state: str, done: int) -> bool:
        """Whether what was indexed is still there."""
        if self._names[moment]:
            return self._state(run, moment) == state
        last = next(run.records_from(moment, done - 1, 1), None) if done else {}
        return last is not None and (not done or _mark(last) == state)

    def _add(
        self,
        db: sqlite3.Connection,
        moment: str,
        done: int,
        batch: Sequence[Mapping[str, Any]],
        describe: Callable[[str, Mapping[str, Any]], Indexed],
        state: str,
    ) -> bool:
        """Add a batch; False where another process has added it meanwhile."""
        counts: dict[tuple[str, str, str], int] = {}
        db.execute("BEGIN IMMEDIATE")
        known = db.execute("SELECT n FROM sources WHERE moment = ?", (moment,)).fetchone()
        if (0 if known is None else known[0]) != done:
            db.execute("ROLLBACK")
            return False
        (first,) = db.execute("SELECT coalesce(max(id), 0) + 1 FROM answers").fetchone()
        found = [describe(moment, record) for record in batch]
        db.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ((first + n, moment, done + n, *astuple(each)[:-1]) for n, each in enumerate(found)),
        )
        db.executemany(
            "INSERT INTO texts (rowid, text) VALUES (?, ?)", ((first + n, each.text) for n, each in enumerate(found))
        )
        for each in found:
            kind = moment, each.tier, each.outcome
            counts[kind] = counts.get(kind, 0) + 1
        db.executemany(
            "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n",
            ((*kind, n) for kind, n in counts.items()),
        )
        kept = state if self._names[moment] else _mark(batch[-1])
        db.execute("INSERT OR REPLACE INTO sources VALUES (?, ?, ?)", (moment, kept, done + len(batch)))
        db.execute("COMMIT")
        return True

    @contextlib.contextmanager
    def run(self) -> Iterator[DirectoryReader]:
        """The run as it is now, not verified. One that nobody writes stays open, as long as its file is the same."""
        file = self._run / "run.sqlite"
        # An open connection to a run that is written would keep its writer from putting the log away.
        written = not file.is_file() or file.with_name("run.sqlite-wal").exists()
        seen = None if written else file.stat()
        kept, key = (KeptOpen(), None) if seen is None else (self._kept, (file, seen.st_mtime_ns, seen.st_size))
        with kept.lent(key, lambda: DirectoryReader(self._run, verify=False)) as run:
            yield run

    def counts(self) -> dict[tuple[str, str, str], int]:
        """How many answers are indexed, by moment, tier and outcome."""
        with self._connected() as db:
            return {(row[0], row[1], row[2]): row[3] for row in db.execute("SELECT * FROM counts")}

    def page(self, query: AnswerQuery, *, size: int, after: int = 0, before: int = 0) -> list[IndexedAnswer]:
        """The first `size` answers behind the one with the id `after`, or the last ones ahead of `before`."""
        sizes = {name: 0 for name in query.kind}
        for counted, n in self.counts().items() if len(sizes) > 1 else ():
            for name, value in zip(("moment", "tier", "outcome"), counted, strict=True):
                if query.kind.get(name) == value:
                    sizes[name] += n
        # The rarest value's index has its rows in order of `id`; a plus keeps SQLite from taking another one.
        rarest = min(sizes, key=lambda name: sizes[name], default="")
        parts = [f"{'' if name == rarest and not query.match else '+'}{name} = ?" for name in query.kind]
        values: list[object] = [*query.kind.values()]
        # Iterations grow with `id`, so that a range of them is one of ids.
        for test, order, bound in ((">=", "ASC", query.first), ("<=", "DESC", query.last)):
            if bound is not None:
                edge = f"SELECT id FROM answers WHERE iteration {test} ? ORDER BY iteration {order}, id {order} LIMIT 1"
                parts.append(f"id {test} ({edge}) AND +iteration {test} ?")
                values += [bound, bound]
        if query.disagree:
            parts.append("disagree")
        source = "answers"
        if query.match:
            source = "texts CROSS JOIN answers ON answers.id = texts.rowid"
            parts.append("texts MATCH ?")
            values.append(query.match)
        id_, order = ("texts.rowid" if query.match else "id"), ("DESC" if before else "ASC")
        parts.append(f"{id_} {'<' if before else '>'} ?")
        statement = f"SELECT answers.* FROM {source} WHERE {' AND '.join(parts)} ORDER BY {id_} {order} LIMIT ?"
        found = self._answers(statement, *values, before or after, size)
        return found[::-1] if before else found

    def at(self, moment: str, sequence: int) -> IndexedAnswer | None:
        """The answer at this place."""
        found = self._answers("SELECT * FROM answers WHERE moment = ? AND sequence = ?", moment, sequence)
        return found[0] if found else None

    def of_problem(self, problem: str, most: int) -> list[IndexedAnswer]:
        """The first answers to a problem."""
        return self._answers("SELECT * FROM answers WHERE problem = ? ORDER BY id LIMIT ?", problem, most)

    def record(self, moment: str, sequence: int) -> dict[str, Any] | None:
        """The whole record of the answer at this place, whether it is indexed yet or not."""
        with self.run() as run:
            name = self._names.get(moment)
            if name is None:
                return None
            records = run.answers_from(name, sequence, 1) if name else run.records_from(moment, sequence, 1)
            return next(records, None)

    def in_iteration(self, stream: str, iteration: int) -> Iterator[dict[str, Any]]:
        """The records of one iteration, found by halving: those of a stream come in order of iterations."""
        with self.run() as run:

            def after(n: int) -> bool:
                record = next(run.records_from(stream, n, 1), None)
                return record is None or record["iteration"] >= iteration

            place = bisect_left(range(run.length(stream)), True, key=after)
            records = run.records_from(stream, place, run.length(stream))
            yield from takewhile(lambda record: record["iteration"] == iteration, records)

    def _answers(self, statement: str, *values: object) -> list[IndexedAnswer]:
        with self._connected() as db:
            found = db.execute(statement, values)
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found]
        return [IndexedAnswer(**{**row, "disagree": bool(row["disagree"])}) for row in rows]

    def _connected(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        return self._kept.lent(self._file, self._open)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, isolation_level=None, timeout=10.0, check_same_thread=False)
        db.execute("PRAGMA synchronous = OFF")  # A crash costs no more than to make it again.
        return db

    def _begin_again(self, db: sqlite3.Connection) -> None:
        # The tables of `texts` go with it.
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'texts_%'"
        for (name,) in db.execute(names).fetchall():
            db.execute(f"DROP TABLE {name}")
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {_LAYOUT}; COMMIT")


def _mark(record: Mapping[str, Any]) -> str:
    """What tells a record from another one in its place."""
    return json.dumps([record.get("key"), record.get("policy"), record.get("iteration"), len(record.get("text", ""))])
