"""The ports for stored runs: one process writes a run, and any number of processes read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gce.domain.learning import ModelState
from gce.domain.verified_runs import Verified

__all__ = ["AnswerReader", "RunReader", "RunWriter", "Runs"]


class RunWriter(Protocol):
    """Append-only records in named streams, atomic commits of whole iterations, and records held between commits.

    Records are plain data as `json.dumps` accepts them: dicts with string keys, lists, strings, numbers, booleans,
    None. Appended records become visible to `read`, and survive a crash, only with the next `commit`. At least the
    newest and the pinned of the committed model states are kept.
    """

    @property
    def name(self) -> str:
        """The run's name."""
        ...

    def append(self, stream: str, record: Mapping[str, Any]) -> None:
        """Add `record` at the end of `stream`.

        Raises:
            TypeError: a value that is not plain data; nothing is added.
        """
        ...

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """Yield the committed records of `stream`, oldest first; an unknown stream is empty."""
        ...

    def commit(self, iteration: int, state: ModelState | None, loop: Mapping[str, Any]) -> None:
        """Make all appended records durable together with the state of model and loop, atomically.

        Raises:
            ValueError: an iteration that is not greater than that of the last commit; nothing is committed.
        """
        ...

    def hold(self, record: Mapping[str, Any]) -> None:
        """Make `record` durable now, until the next `commit` discards it.

        Raises:
            TypeError: a value that is not plain data; nothing is held.
        """
        ...

    def held(self) -> Iterator[dict[str, Any]]:
        """Yield the records held since the last commit, oldest first."""
        ...

    def last(self) -> tuple[int, ModelState | None, dict[str, Any]] | None:
        """Return iteration, model state and loop state of the last commit; None before the first commit.

        Raises:
            DamagedStore: damaged data; the message names them.
        """
        ...

    def pin(self, *iterations: int) -> None:
        """Keep the model states of these iterations besides the newest, instead of those pinned earlier.

        Durable with the next commit. Has no effect if none of their states is kept.
        """
        ...

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace the run's summary, atomically and at once.

        Raises:
            TypeError: a value that is not plain data; nothing changes.
        """
        ...

    def write_answers(self, name: str, answers: Iterable[Mapping[str, Any]]) -> None:
        """Replace the answers of this name, atomically and at once."""
        ...


class AnswerReader(Protocol):
    """Stored answers: those of a run, or of an evaluation, which is a run without streams."""

    @property
    def name(self) -> str:
        """The run's name, or the file's."""
        ...

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that the run was created with."""
        ...

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """Yield the committed records of `stream`, oldest first; an unknown stream is empty."""
        ...

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the answers of this name, each read when it is asked for, as they may not fit in memory."""
        ...


class RunReader(AnswerReader, Protocol):
    """A snapshot of a run at the time it was opened; another process may continue to write it.

    All methods raise `DamagedStore` for data that are not as written.
    """

    def summary(self) -> dict[str, Any] | None:
        """Return the summary; None while the run is in progress, also after a finished run was continued.

        A summary describes the finished run if its `iterations` equals the last `iteration` of the stream "iterations".
        """
        ...

    def answers(self, name: str) -> list[dict[str, Any]]:
        """Return the answers of this name; an unknown name has none."""
        ...

    def card(self) -> dict[str, Any] | None:
        """Return the validity card; None if there is none."""
        ...

    def checkpoint(self, iteration: int | None = None) -> tuple[int, ModelState]:
        """Return the iteration and model state of a commit, by default the newest.

        Raises:
            BadInput: no state of this iteration is kept.
        """
        ...


class Runs(Protocol):
    """Stored runs by name; only one process at a time writes a run. Context managers close writers and readers."""

    def check_free(self, name: str) -> None:
        """Raise BadInput if a run of this name cannot be created.

        Call it before long computations; `create` checks again.
        """
        ...

    def create(self, name: str, config: Mapping[str, Any]) -> AbstractContextManager[RunWriter]:
        """Start a run; BadInput if a run of this name exists, or nothing can be written."""
        ...

    def open(self, name: str, *, discard_after: int | None = None) -> AbstractContextManager[RunWriter]:
        """Continue a run from its last commit; with `discard_after`, first drop everything after that iteration.

        Raises:
            BadInput: there is no such run, or the state of iteration `discard_after` is not kept.
            RunInUse: another writer has the run open.
            DamagedStore: as `last`; nothing was changed.
        """
        ...

    def read(self, name: str, *, verify: bool = True) -> AbstractContextManager[RunReader]:
        """Open a run for reading; with `verify`, first check everything that was committed.

        Raises:
            BadInput: there is no such run.
            DamagedStore: the run cannot be read, or is not as written.
        """
        ...

    def find(self, within: str) -> dict[str, bool]:
        """Return the runs `within`, `within/NAME` and `within/NAME/NAME` by name, and whether each has a summary."""
        ...

    def write_card(self, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a run's validity card and return it as a reader's `card` does; BadInput if that fails."""
        ...

    def verify(self, name: str) -> Verified:
        """Hold everything that is kept of a run against its digests: commits, model states, summary, answers, card.

        Raises:
            BadInput: there is no such run.
            GceError: its storage cannot be reached.
        """
        ...
