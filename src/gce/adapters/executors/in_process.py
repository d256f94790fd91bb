"""Run work in the calling process, one specification after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["InProcess"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class InProcess:
    """An `Executor` in the caller's thread; it does no work in advance."""

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """See `Executor`; results arrive as `work` yields them."""
        for spec in specs:
            yield from work(spec)
