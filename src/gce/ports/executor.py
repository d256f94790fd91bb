"""Where work is done: in this process, in several, or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

__all__ = ["Executor"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class Executor(Protocol):
    """Does work on specifications, one or several at a time."""

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """Yield all that `work` yields for each specification.

        Results of one specification come together and in their order; specifications may be finished in any order.
        What `work` raises is raised here, and work not yet begun is left undone. A specification that was taken is
        worked on once. Where the work is done elsewhere, `work`, specifications and results have to be what `pickle`
        takes, and `work` is a function of a module.
        """
        ...
