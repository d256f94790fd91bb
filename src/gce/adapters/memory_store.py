"""A store that lives in memory: the fake of the Store port, with the meaning of the real one and no files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gce.adapters.store_values import check_iteration, check_state, check_stream, copied, encode
from gce.domain.types import ModelState

__all__ = ["MemoryStore"]


class MemoryStore:
    """Records and commits as JSON text and copied arrays: later changes to what was given or read do not reach it."""

    def __init__(self) -> None:
        """An empty store."""
        self._pending: list[tuple[str, str]] = []
        self._streams: dict[str, list[str]] = {}
        self._held: list[str] = []
        self._last: tuple[int, ModelState | None, str] | None = None

    def append(self, stream: str, record: Mapping[str, Any]) -> None:
        """See `gce.ports.store.Store.append`."""
        check_stream(stream)
        self._pending.append((stream, encode(record)))

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.store.Store.read`; what is committed while one reads is not among what is read."""
        return (json.loads(body) for body in tuple(self._streams.get(stream, ())))

    def commit(self, iteration: int, state: ModelState | None, loop: Mapping[str, Any]) -> None:
        """See `gce.ports.store.Store.commit`."""
        check_iteration(iteration, None if self._last is None else self._last[0])
        if state is not None:
            check_state(state)
            state = _copy(state)
        self._last = (iteration, state, encode(loop, "loop"))
        for stream, body in self._pending:
            self._streams.setdefault(stream, []).append(body)
        self._pending, self._held = [], []

    def hold(self, record: Mapping[str, Any]) -> None:
        """See `gce.ports.store.Store.hold`."""
        self._held.append(encode(record))

    def held(self) -> Iterator[dict[str, Any]]:
        """See `gce.ports.store.Store.held`."""
        return (json.loads(body) for body in tuple(self._held))

    def last(self) -> tuple[int, ModelState | None, dict[str, Any]] | None:
        """See `gce.ports.store.Store.last`."""
        if self._last is None:
            return None
        iteration, state, loop = self._last
        return iteration, None if state is None else _copy(state), json.loads(loop)

    def reopen(self) -> MemoryStore:
        """The store that a new process would find after a crash: all commits, and what was held since the last."""
        found = MemoryStore()
        found._streams = {stream: list(bodies) for stream, bodies in self._streams.items()}
        found._held = list(self._held)
        found._last = self._last
        return found


def _copy(state: ModelState) -> ModelState:
    arrays = {name: copied(state.arrays[name]) for name in sorted(state.arrays)}
    return ModelState(arrays=arrays, settings=json.loads(encode(state.settings, "settings")))
