"""Where a run is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from gce.domain.types import ModelState

__all__ = ["Store"]


class Store(Protocol):
    """Append-only records in named streams, atomic commits of whole iterations, and what is held between two commits.

    Records are plain data (what `json.dumps` takes: dicts with string keys, lists, strings, numbers, booleans,
    None). Nothing appended is visible to `read`, nor survives a crash, until the next `commit`.
    """

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
