"""Work done here and now, one specification after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["InProcess"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class InProcess:
    """An `Executor` in the caller's thread: nothing runs ahead of what is asked for."""

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """See `Executor`; results come as `work` yields them."""
        for spec in specs:
            yield from work(spec)
