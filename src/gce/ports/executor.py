"""The port for executors: run work in this process, in several processes, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar, runtime_checkable

__all__ = ["Executor"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


@runtime_checkable
class Executor(Protocol):
    """Runs work on specifications, one or several at a time."""

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """Yield all results of `work` for each specification.

        The results of one specification come together and in order; specifications may finish in any order. An
        exception in `work` is raised here, and work that has not begun is dropped. Each consumed specification is
        processed once. If the work runs elsewhere, `work` must be a module-level function, and `work`, specifications
        and results must be picklable.
        """
        ...
