"""Run work in several newly started processes on this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue
from typing import TypeVar

from gce.errors import GceError

__all__ = ["ProcessPool"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")


class ProcessPool:
    """An `Executor` over so many processes, which begin with the first call and end with the pool."""

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"expected at least 1 process, got {processes}")
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """See `Executor`; results of a specification come when it is finished, while further ones are taken.

        Raises:
            GceError: a process was killed, for example by the system because memory ran out.
        """
        if self._pool is None:
            # Begun afresh, not forked: a fork of a process with threads, as mlx and torch have them, may never end.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, mp_context=context)
        pool, begun = self._pool, set[Future[list[Result]]]()
        finished: SimpleQueue[Future[list[Result]]] = SimpleQueue()

        def next_results() -> list[Result]:
            future = finished.get()
            begun.discard(future)
            return future.result()

        try:
            for spec in specs:
                future = pool.submit(_whole, work, spec)
                begun.add(future)
                future.add_done_callback(finished.put)
                while not finished.empty():
                    yield from next_results()
            while begun:
                yield from next_results()
        except BrokenProcessPool as error:
            self._pool = None
            raise GceError("a process of the pool was ended from outside: is there memory for so many?") from error
        finally:
            for future in begun:
                future.cancel()


def _whole(work: Callable[[Spec], Iterable[Result]], spec: Spec) -> list[Result]:
    return list(work(spec))
