"""The port for running untrusted programs in isolation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from gce.domain.executions import Evidence, Execution

__all__ = ["Runner"]


class Runner(Protocol):
    """Runs each program in a fresh, isolated environment that is removed afterwards."""

    def run(self, executions: Iterable[Execution]) -> Iterator[Evidence]:
        """Yield the evidence of each execution, in order; several may run in parallel, and some are prefetched.

        A program sees the arguments of its calls, one call after another, and nothing else: no expected results, no
        tests, no rivals, and no files, processes or networks of others. Whatever the program does, its evidence arrives
        within about ten times its `seconds`, and with rivals within twice that for each of the programs. Returned
        values are reported as text of plain data. The same deterministic program gives the same evidence, unless the
        machine is too slow; processor times vary.
        """
        ...
