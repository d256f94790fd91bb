"""Where runs are kept: a process that writes one, and any number that read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gce.domain.learning import ModelState

__all__ = ["RunReader", "RunWriter", "Runs"]


class RunWriter(Protocol):
    """Append-only records in named streams, atomic commits of whole iterations, and what is held between two commits.

    Records are plain data (what `json.dumps` takes: dicts with string keys, lists, strings, numbers, booleans,
    None). Nothing appended is visible to `read`, nor survives a crash, until the next `commit`. Of the model states
    that were committed, at least the newest and the pinned one are kept.
    """

    @property
    def name(self) -> str:
        """What the run is called."""
        ...

    def append(self, stream: str, record: Mapping[str, Any]) -> None:
        """Add `record` at the end of `stream`. A value that is not plain data: TypeError, and nothing is added."""
        ...

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """Committed records of `stream`, oldest first; an unknown stream is empty."""
        ...

    def commit(self, iteration: int, state: ModelState | None, loop: Mapping[str, Any]) -> None:
        """Make all appended records durable together with the model's and the loop's state, or none of it.

        Iterations rise strictly from one commit to the next; otherwise ValueError and nothing is committed.
        """
        ...

    def hold(self, record: Mapping[str, Any]) -> None:
        """Make `record` durable now, until the next `commit` lets it go. Not plain data: TypeError, nothing held."""
        ...

    def held(self) -> Iterator[dict[str, Any]]:
        """What was held since the last commit, oldest first."""
        ...

    def last(self) -> tuple[int, ModelState | None, dict[str, Any]] | None:
        """Iteration, model state and loop state of the last commit, or None before the first.

        Damaged data raise `DamagedStore`, which names what is damaged.
        """
        ...

    def pin(self, iteration: int) -> None:
        """Keep the state of this iteration, and of no other one, beside the newest; durable with the next commit.

        Where the state is not kept any more, or there was none, nothing changes.
        """
        ...

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Replace the run's summary, atomically and at once. Not plain data: TypeError, and nothing changes."""
        ...

    def write_answers(self, name: str, answers: Iterable[Mapping[str, Any]]) -> None:
        """Replace the answers of this name, likewise."""
        ...


class RunReader(Protocol):
    """A run as it was committed when it was opened; another process may go on writing it meanwhile.

    What is not as it was written raises `DamagedStore`.
    """

    @property
    def name(self) -> str:
        """What the run is called."""
        ...

    @property
    def config(self) -> dict[str, Any]:
        """The config that the run was created with."""
        ...

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """Committed records of `stream`, oldest first; an unknown stream is empty."""
        ...

    def summary(self) -> dict[str, Any] | None:
        """The summary; None while the run goes on, also where it went on after it had ended once.

        A summary belongs to the run's end if its `iterations` is the last `iteration` of the stream "iterations".
        """
        ...

    def answers(self, name: str) -> list[dict[str, Any]]:
        """The answers of this name; nothing where there are none."""
        ...

    def card(self) -> dict[str, Any] | None:
        """The validity card; None where there is none."""
        ...

    def checkpoint(self, iteration: int | None = None) -> tuple[int, ModelState]:
        """An iteration and the model state that it committed, by default the newest. BadInput where none is kept."""
        ...


class Runs(Protocol):
    """Runs by name; one process at a time writes each. Leaving the block of a writer or a reader closes it."""

    def check_free(self, name: str) -> None:
        """BadInput where a run of this name could not begin; asked before what takes long, and again by `create`."""
        ...

    def create(self, name: str, config: Mapping[str, Any]) -> AbstractContextManager[RunWriter]:
        """Start a run. Raises BadInput where there is one of this name, or nothing can be written."""
        ...

    def open(self, name: str, *, discard_after: int | None = None) -> AbstractContextManager[RunWriter]:
        """Go on with a run from its last commit.

        With `discard_after`, all that came after that iteration is dropped first. Raises BadInput where there is no
        run, or it cannot go back to that iteration, whose state must be kept; RunInUse where another writer has it;
        DamagedStore as `last` does, and then nothing was changed.
        """
        ...

    def read(self, name: str, *, verify: bool = True) -> AbstractContextManager[RunReader]:
        """Open a run for reading; with `verify`, everything that was committed is checked first.

        Raises BadInput where there is no run, DamagedStore where it cannot be read or is not as it was written.
        """
        ...

    def find(self, within: str) -> dict[str, bool]:
        """Names of the runs `within`, `within/NAME` and `within/NAME/NAME`, and whether each has a summary."""
        ...

    def write_card(self, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
        """Replace a run's validity card, and return it as `card` of a reader gives it. BadInput where that fails."""
        ...
