"""Run work in several newly started processes on this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from gce.errors import GceError

__all__ = ["ProcessPool"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class ProcessPool:
    """An `Executor` over so many processes; they end with the call."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"expected at least 1 process, got {processes}")
        self._processes = processes

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """See `Executor`; results of a specification come when it is finished.

        Raises:
            GceError: a process was killed, for example by the system because memory ran out.
        """
        # Begun afresh, not forked: a fork of a process with threads, as mlx and torch have them, may never end.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self._processes, mp_context=context)
        try:
            futures: list[Future[list[Result]]] = [pool.submit(_whole, work, spec) for spec in specs]
            for future in as_completed(futures):
                yield from future.result()
        except BrokenProcessPool as error:
            raise GceError("a process of the pool was ended from outside: is there memory for so many?") from error
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _whole(work: Callable[[Spec], Iterable[Result]], spec: Spec) -> list[Result]:
    return list(work(spec))
