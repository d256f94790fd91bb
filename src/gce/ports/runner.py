"""Programs that are not trusted, run apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from gce.domain.executions import Evidence, Execution

__all__ = ["Runner"]


class Runner(Protocol):
    """Runs programs, each alone in a place made for it and gone after it."""

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """What came of each, in the order asked for; several may run at a time, and some are taken ahead.

        A program sees the arguments of its calls, one call after the other, and nothing else: neither what they should
        return, nor its tests, nor files, processes or networks of others. Whatever it does, its evidence comes within
        ten times its seconds and some, and says what its function returned as text that was written from plain data.
        Same program, same evidence, where the program itself leaves nothing to chance and the machine has the time.
        """
        ...
