"""Takes what another thread puts."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

__all__ = ["taken"]


def taken(found: SimpleQueue[Any], end: object) -> Iterator[Any]:
    """Yield what a thread puts until it puts `end`; raise an exception that it puts."""
    while (item := found.get()) is not end:
        if isinstance(item, BaseException):
            raise item
        yield item
