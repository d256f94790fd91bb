"""Connections that stay open between two uses, so that the next one does not parse the file's schema again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol, TypeVar

__all__ = ["KeptOpen"]


class _Closable(Protocol):
    def close(self) -> None: ...


Connection = TypeVar("Connection", bound=_Closable)


class KeptOpen:
    """The connections that were used last. Each is lent to one thread at a time."""

    def __init__(self, most: int = 0) -> None:
        """`most` stay open while nobody uses them; with 0 each is closed after its use."""
        self._most = most
        self._idle: deque[tuple[Hashable, Any]] = deque()
        self._lock = Lock()

    @contextmanager
    def lent(self, key: Hashable, connect: Callable[[], Connection]) -> Iterator[Connection]:
        """A connection that was kept under this key, else a new one; it is closed where its use fails."""
        used = self._taken(key) or connect()
        try:
            yield used
        except BaseException:
            used.close()
            raise
        with self._lock:
            self._idle.append((key, used))
            dropped = [self._idle.popleft()[1] for _ in range(len(self._idle) - self._most)]
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close all that nobody uses."""
        with self._lock:
            dropped = [connection for _, connection in self._idle]
            self._idle.clear()
        for each in dropped:
            each.close()

    def _taken(self, key: Hashable) -> Any:
        with self._lock:
            found = next((each for each in reversed(self._idle) if each[0] == key), None)
            if found is not None:
                self._idle.remove(found)
        return None if found is None else found[1]
