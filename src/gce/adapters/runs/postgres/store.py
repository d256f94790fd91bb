"""Runs on a PostgreSQL server: a run's name is postgresql://[USER@]HOST[:PORT]/DATABASE#RUN.

Everything of a run is in the database, checkpoints too, so that it can be resumed on any machine. A commit is one
transaction. A writer whose connection is lost stops, as another process may go on with the run from then on; what it
committed is there for `open`. A forked child that outlives the writer holds the run's lock until it ends, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gce.adapters.runs.chain import CommitRow, config_digest, config_rows
from gce.adapters.runs.checkpoint_files import file_hashes, files_of_state, state_of_files
from gce.adapters.runs.checkpoint_folder import DamagedFileError, checkpoint_name
from gce.adapters.runs.integrity import way_out, wrong_checkpoints
from gce.adapters.runs.postgres.connection import Place, connect, place_in, translated
from gce.adapters.runs.postgres.tables import RunTables, find_run, has_tables, lock_run, make_tables
from gce.adapters.runs.values import check_iteration, check_stream, encode, summary_at_end
from gce.domain.learning import ModelState
from gce.domain.verified_runs import Verified
from gce.errors import BadInput, DamagedStore

if TYPE_CHECKING:
    import psycopg

__all__ = ["STEPS", "PostgresReader", "PostgresRun", "PostgresRuns"]

STEPS = ("hold", "rows", "commit")
"""What `on_step` of a writer is told of, as of one of a run directory."""
_SUMMARY, _CARD = "summary.json", "validity.json"
_KEPT = 2
"""Newest checkpoints that are kept."""


class _Connected:
    """What reader and writer share: the run's rows on a connection of their own."""

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._tables.db.close()

    @property
    def name(self) -> str:
        """The run's name."""
        return self._tables.name

    @property
    def config(self) -> dict[str, Any]:
        """The config that the run was created with."""
        with translated(self.name):
            return self._tables.config()


class PostgresRun(_Connected):
    """The writer of a run. Where writing fails, the commit before stays valid."""

    def __init__(self, tables: RunTables, *, on_step: Callable[[str], None] = lambda _: None) -> None:
        """Check everything that was committed to the run, whose lock this process holds."""
        super().__init__(tables)
        self._on_step = on_step
        self._pending: list[tuple[str, str]] = []
        commits, _ = self._checked()
        self._tip = commits[-1] if commits else None
        self._digest = commits[-1].digest if commits else tables.first_digest()
        self._pinned = commits[-1].pinned if commits else ()
        self._lengths = tables.lengths()
        self._checkpoints = tables.kept_checkpoints()

    def append(self, stream: str, record: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.append`; kept in memory until the commit."""
        check_stream(stream)
        self._pending.append((stream, encode(record)))

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunWriter.read`; what is committed while one reads is not among what is read."""
        return self._tables.records(stream, self._lengths.get(stream, 0))

    def commit(self, iteration: int, state: ModelState | None, loop: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.commit`.

        Raises GceError where writing fails, MissingExtra where a state is given and safetensors is not installed.
        """
        check_iteration(iteration, None if self._tip is None else self._tip.iteration)
        text = encode(loop, "loop")
        files = {} if state is None else files_of_state(iteration, state)
        checkpoints = [*self._checkpoints, *([iteration] if files else [])]
        checkpoints = [each for each in checkpoints if each in self._pinned or each in checkpoints[-_KEPT:]]
        lengths, records = dict(self._lengths), []
        for stream, body in self._pending:
            records.append((stream, lengths.setdefault(stream, 0), body))
            lengths[stream] += 1
        name, hashes = (checkpoint_name(iteration), file_hashes(files)) if files else (None, None)
        self._on_step("rows")
        row = CommitRow(iteration, name, hashes, self._pinned, digest="")
        with translated(self.name):
            self._tip = self._tables.commit(
                *(records, row, text, files, checkpoints),
                before=self._digest,
                on_commit=lambda: self._on_step("commit"),
            )
        self._digest, self._lengths, self._checkpoints, self._pending = self._tip.digest, lengths, checkpoints, []

    def hold(self, record: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.hold`. Raises GceError where writing fails."""
        body = encode(record)
        with translated(self.name):
            self._tables.hold(body, before=self._digest, on_hold=lambda: self._on_step("hold"))

    def held(self) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunWriter.held`."""
        with translated(self.name):
            return iter(self._tables.held())

    def last(self) -> tuple[int, ModelState | None, dict[str, Any]] | None:
        """See `gce.ports.runs.RunWriter.last`: reads and checks all that was committed, and the newest checkpoint."""
        with translated(self.name):
            commits, files = self._checked()
            if not commits:
                return None
            loop = self._tables.loop(commits[-1].iteration)
        return commits[-1].iteration, None if files is None else state_of_files(files), loop

    def pin(self, *iterations: int) -> None:
        """See `gce.ports.runs.RunWriter.pin`."""
        self._pinned = tuple(sorted({*iterations}.intersection(self._checkpoints))) or self._pinned

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.write_summary`. GceError where writing fails."""
        self._write(_SUMMARY, [encode(summary, "summary")])

    def write_answers(self, name: str, answers: Iterable[Mapping[str, Any]]) -> None:
        """See `gce.ports.runs.RunWriter.write_answers`. GceError where writing fails."""
        self._write(f"{name}.jsonl", [encode(answer, "answer") for answer in answers])

    def _write(self, name: str, lines: list[str]) -> None:
        with translated(self.name):
            self._tables.write(name, lines, 0 if self._tip is None else self._tip.iteration, before=self._digest)

    def _checked(self) -> tuple[list[CommitRow], dict[str, bytes] | None]:
        """All commits and the last one's files. DamagedStore unless they are as they were written."""
        commits, problem = self._tables.chain()
        files = None
        if problem is None and commits:
            try:
                files = self._tables.checkpoint(commits[-1])
            except DamagedFileError as exc:
                problem = str(exc)
        if problem is None:
            problem = self._tables.wrong_held(commits[-1].digest if commits else self._tables.first_digest())
        if problem is not None:
            raise _damaged(self._tables, problem, commits)
        return commits, files


class PostgresReader(_Connected):
    """The reader of a run: one transaction, which sees what was committed when it began."""

    def __init__(self, tables: RunTables, *, verify: bool = True) -> None:
        """With `verify`, everything that was committed is held against its digests first."""
        super().__init__(tables)
        self._lengths = tables.lengths()
        if verify:
            self._whole(*tables.chain())

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.read`."""
        return self._tables.records(stream, self._lengths.get(stream, 0))

    def summary(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.summary`."""
        return summary_at_end(next(self._tables.lines(_SUMMARY), None), self.read("iterations"))

    def answers(self, name: str) -> list[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.answers`."""
        return list(self.each_answer(name))

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.each_answer`."""
        return self._tables.lines(f"{name}.jsonl")

    def card(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.card`."""
        return next(self._tables.lines(_CARD), None)

    def checkpoint(self, iteration: int | None = None) -> tuple[int, ModelState]:
        """See `gce.ports.runs.RunReader.checkpoint`; what was committed after the iteration may be damaged."""
        with translated(self.name):
            commits, problem = self._tables.chain()
            kept = self._tables.kept_checkpoints()
            having = [each for each in commits if each.hashes is not None]
            chosen = having[-1:] if iteration is None else [each for each in having if each.iteration == iteration]
            if iteration is None or not chosen:
                self._whole(commits, problem)
            if not chosen or chosen[0].iteration not in kept:
                wanted = "checkpoint" if iteration is None else f"checkpoint of iteration {iteration}"
                raise BadInput(f"{self.name} has no {wanted} (any more)")
            try:
                return chosen[0].iteration, state_of_files(self._tables.checkpoint(chosen[0]) or {})
            except DamagedFileError as exc:
                raise DamagedStore(f"{self.name}: {exc}: put back a copy of it, or take another checkpoint") from exc

    def verified(self) -> Verified:
        """See `gce.ports.runs.Runs.verify`."""
        commits, problem = self._tables.chain()
        tip = commits[-1].digest if commits else self._tables.first_digest()
        problems = [problem, self._tables.wrong_held(tip) if problem is None else None]
        kept = self._tables.kept_checkpoints()
        problems += wrong_checkpoints(commits, kept, self._tables.checkpoint)
        for name in self._tables.written():
            try:
                next(self._tables.lines(name), None)
            except DamagedStore as exc:
                problems.append(str(exc).removeprefix(f"{self.name}: "))
        last = commits[-1].iteration if commits else None
        return Verified(last, tip, tuple(kept), tuple(each for each in problems if each is not None))

    def _whole(self, commits: list[CommitRow], problem: str | None) -> None:
        if problem is not None:
            raise _damaged(self._tables, problem, commits)


class PostgresRuns:
    """The port `Runs` on a PostgreSQL server."""

    def check_free(self, name: str) -> None:
        """See `gce.ports.runs.Runs.check_free`; GceError where the server cannot be reached."""
        place = place_in(name)
        with _connected(place) as db:
            if find_run(db, place) is not None:
                raise _taken(name)
            db.close()

    def create(
        self, name: str, config: Mapping[str, Any], *, on_step: Callable[[str], None] = lambda _: None
    ) -> PostgresRun:
        """See `gce.ports.runs.Runs.create`."""
        rows, place = config_rows(config), place_in(name)
        with _connected(place) as db:
            make_tables(db)
            if find_run(db, place) is not None:
                raise _taken(name)
            with db.transaction():
                made = db.execute(
                    "INSERT INTO gce.runs (name, head) VALUES (%s, %s) ON CONFLICT (name) DO NOTHING RETURNING id",
                    (place.run, config_digest(rows)),
                ).fetchone()
                if made is None:
                    raise _taken(name)
                lock_run(db, made[0], name)
                tables = RunTables(db, made[0], name)
                tables.add_config(rows)
            return PostgresRun(tables, on_step=on_step)

    def open(
        self, name: str, *, discard_after: int | None = None, on_step: Callable[[str], None] = lambda _: None
    ) -> PostgresRun:
        """See `gce.ports.runs.Runs.open`."""
        place = place_in(name)
        with _connected(place) as db:
            tables = _found(db, place, name)
            lock_run(db, tables.run, name)
            if discard_after is not None:
                _discard_after(tables, discard_after)
            return PostgresRun(tables, on_step=on_step)

    def read(self, name: str, *, verify: bool = True) -> PostgresReader:
        """See `gce.ports.runs.Runs.read`."""
        place = place_in(name)
        with _connected(place) as db:
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return PostgresReader(_found(db, place, name), verify=verify)

    def find(self, within: str) -> dict[str, bool]:
        """See `gce.ports.runs.Runs.find`."""
        place = place_in(within)
        with _connected(place) as db:
            rows = []
            if has_tables(db, place):
                rows = db.execute(
                    "SELECT name, EXISTS (SELECT FROM gce.written w WHERE w.run = id AND w.name = %s) FROM gce.runs"
                    ' WHERE name = %s OR starts_with(name, %s) ORDER BY name COLLATE "C"',
                    (_SUMMARY, place.run, f"{place.run}/"),
                ).fetchall()
            db.close()
        return {place.called(run): done for run, done in rows if run.count("/") < place.run.count("/") + 3}

    def write_card(self, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
        """See `gce.ports.runs.Runs.write_card`."""
        body, place = encode(card, "card"), place_in(name)
        with _connected(place) as db:
            tables = _found(db, place, name)
            tables.write(_CARD, [body], 0, before=None)
            found = next(tables.lines(_CARD))
            db.close()
        return found

    def verify(self, name: str) -> Verified:
        """See `gce.ports.runs.Runs.verify`."""
        with self.read(name, verify=False) as reader, translated(name):
            return reader.verified()


@contextmanager
def _connected(place: Place) -> Iterator[psycopg.Connection[Any]]:
    """A connection, which is closed only where the block fails."""
    db = connect(place)
    try:
        with translated(place.called(place.run)):
            yield db
    except BaseException:
        db.close()
        raise


def _found(db: psycopg.Connection[Any], place: Place, name: str) -> RunTables:
    if (run := find_run(db, place)) is None:
        raise BadInput(f"expected a run {name}, found none: give the name of one, or start a new run")
    return RunTables(db, run, name)


def _taken(name: str) -> BadInput:
    return BadInput(f"{name} is a run already: resume it, or give another name")


def _discard_after(tables: RunTables, iteration: int) -> None:
    commits, problem = tables.chain()
    kept = tables.kept_checkpoints()
    whole = [each for each in commits if each.hashes is None or each.iteration in kept]
    last = next((each for each in whole if each.iteration == iteration and tables.is_whole(each)), None)
    if last is None:
        possible = ", ".join(str(each.iteration) for each in whole if tables.is_whole(each)) or "none"
        found = f" ({problem})" if problem else ""
        raise BadInput(
            f"{tables.name}: expected an iteration that is intact and whose checkpoint is kept, {possible}{found}, got "
            f"{iteration!r}"
        )
    tables.discard_after(last)


def _damaged(tables: RunTables, problem: str, commits: list[CommitRow]) -> DamagedStore:
    return DamagedStore(f"{tables.name}: {problem}", hint=way_out(commits, tables.is_whole))
