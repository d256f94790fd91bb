"""Run work on the workers of a Ray cluster: on this machine, or on several.

A worker is a process that keeps what it has loaded from one specification to the next. One that dies is replaced, and
what it had not finished is done again elsewhere. Knows nothing of what the work is.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import RLock
from typing import Any, TypeVar

from attrs import define, evolve, frozen

from gce.errors import BadInput, GceError, MissingExtra, one_line

try:
    import ray
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError, RayError, RayTaskError
except ImportError as error:
    raise MissingExtra("ray", "ray") from error

__all__ = ["RayWorkers"]

Spec = TypeVar("Spec")
Result = TypeVar("Result")

RETRIES = 3
"""How often work is begun again after its worker died."""
_QUEUED = 2
"""Batches that wait at workers, beside one at work in each."""
_BATCH_SECONDS = 0.05
"""Specifications that take less are sent several at a time, about so long together."""
_MOST_IN_A_BATCH = 256
_STORE_BYTES = 256 << 20
"""Of the object store of a cluster that is started here: it holds the weights and a few batches of results."""
_START_SECONDS = 120.0
"""Until no worker is there."""
_SECONDS_BETWEEN_REPORTS = 30.0
_NO_ROOM = (ObjectStoreFullError, OutOfDiskError)
_HERE = "on the machine of this run"
_KEPT = 4
"""Functions that stay in the object store: those that a run alternates between."""


class _Process:
    """The process of a worker."""

    def __init__(self, folder: str) -> None:
        if os.path.isdir(folder):  # Names of runs and files are relative to it.
            os.chdir(folder)

    def place(self) -> tuple[str, int]:
        """Return the address of the node, and the id of this process."""
        return ray.util.get_node_ip_address(), os.getpid()

    def work(self, work: Callable[[Any], Iterable[Any]], batch: Sequence[Any]) -> tuple[float, list[list[Any]]]:
        """Return the seconds taken, and the results of each specification."""
        began = time.monotonic()
        found = [list(work(spec)) for spec in batch]
        return time.monotonic() - began, found


@define(eq=False)
class _Worker:
    """What is known here of a worker."""

    number: int
    process: Any
    starting: Any
    """The reference of its place, until that is known."""
    place: str = ""
    busy: int = 0
    """Batches that it has."""
    done: int = 0
    """Specifications that it has finished."""
    losses: int = 0
    """How often the one that it replaces died before it had started."""


@frozen
class _Batch:
    """Specifications that are sent together."""

    specs: tuple[Any, ...]
    losses: int = 0
    """How often a worker died with it."""


class RayWorkers:
    """An `Executor` over so many workers, which begin with the first call and end with this process, or `close`.

    At most two batches wait at workers, so neither the object store nor memory grows with the specifications.
    """

    def __init__(
        self,
        workers: int,
        *,
        address: str = "",
        gpus: float = 0.0,
        say: Callable[[str], None] = lambda _line: None,
        show_output: bool = False,
    ) -> None:
        """Take workers of one CPU and `gpus` GPUs each.

        `address` is that of a running cluster; without one, a cluster on this machine is started. `say` is told what
        workers do, a line at a time; `show_output` prints what they print.
        """
        if workers < 1:
            raise ValueError(f"expected at least 1 worker, got {workers}")
        self.say = say
        self._count, self._address, self._gpus, self._show_output = workers, address, gpus, show_output
        self._workers: list[_Worker] = []
        self._stored: deque[tuple[object, Any]] = deque(maxlen=_KEPT)
        self._started = False
        self._reported = time.monotonic()
        self._lock = RLock()
        """Of all that is known of workers: several threads may `map` at once."""

    def map(self, work: Callable[[Spec], Iterable[Result]], specs: Iterable[Spec]) -> Iterator[Result]:
        """See `Executor`; results of a specification come when it is finished, while further ones are taken.

        Raises:
            BadInput: there is no such cluster, or it has too few resources.
            GceError: a specification's worker died again and again, no worker can be started, or an object store is
                full.
        """
        with self._lock:
            self._start()
            held = self._in_store(work)
        left, size = iter(specs), 1
        again, running = deque[_Batch](), dict[Any, tuple[_Worker, _Batch]]()
        try:
            while True:
                while (worker := self._free([each for each, _ in running.values()], deep=size > 1)) is not None:
                    # Taking specifications may itself call `map`, so others must not wait for it.
                    batch = again.popleft() if again else _Batch(tuple(islice(left, size)))
                    if not batch.specs:
                        break
                    with self._lock:
                        try:
                            running[worker.process.work.remote(held, batch.specs)] = worker, batch
                        except _NO_ROOM as error:
                            raise _no_room(error, _HERE) from error
                        worker.busy += 1
                if not running:
                    return
                for reference in self._finished(running):
                    worker, batch = running.pop(reference)
                    try:
                        seconds, found = ray.get(reference)
                    except RayError as error:
                        with self._lock:
                            worker.busy -= 1
                            again.append(self._lost(worker, batch, error))
                        continue
                    with self._lock:
                        worker.busy -= 1
                        worker.done += len(found)
                    size = max(1, min(_MOST_IN_A_BATCH, int(_BATCH_SECONDS * len(found) / max(seconds, 1e-9))))
                    for results in found:
                        yield from results
        finally:
            with self._lock:
                for reference, (worker, _) in running.items():
                    worker.busy -= 1
                    ray.cancel(reference)

    def close(self) -> None:
        """End the workers, and the cluster where it was started here."""
        for worker in self._workers:
            ray.kill(worker.process)
        self._workers.clear()
        self._stored.clear()
        if self._started:
            ray.shutdown()
            ray._private.worker._worker_logs_enabled = True
            self._started = False

    def _start(self) -> None:
        if not ray.is_initialized():
            self._connect()
            self._started = True
        if not self._workers:
            for name, needed in (("CPU", float(self._count)), ("GPU", self._count * self._gpus)):
                if ray.cluster_resources().get(name, 0.0) < needed:
                    has = ray.cluster_resources().get(name, 0.0)
                    raise BadInput(
                        f"{self._count} workers need {needed:g} {name}s, and the Ray cluster has {has:g}",
                        hint="ask for fewer {executor.workers}, or add machines with  ray start --address",
                    )
            self._workers = [self._new(number) for number in range(1, self._count + 1)]

    def _connect(self) -> None:
        shown: dict[str, Any] = {"log_to_driver": self._show_output, "logging_level": "ERROR"}
        # Without this, Ray prints pages of what a node says that ends, and it has no option against that.
        ray._private.worker._worker_logs_enabled = self._show_output
        if self._address:
            try:
                ray.init(self._address, **shown)
            except (ConnectionError, ValueError, RuntimeError) as error:
                said = one_line(str(error))
                raise BadInput(
                    f"no Ray cluster of this version at {self._address!r}: {said:.300}",
                    hint="is RAY_AUTH_MODE (disabled, or token and the same token) the same here and there?",
                ) from error
        else:
            ray.init(
                "local",
                num_cpus=self._count,
                include_dashboard=False,
                object_store_memory=_STORE_BYTES,
                **shown,
            )

    def _new(self, number: int, losses: int = 0) -> _Worker:
        process: Any = ray.remote(_Process).options(num_cpus=1, num_gpus=self._gpus).remote(os.getcwd())
        return _Worker(number, process, process.place.remote(), losses=losses)

    def _in_store(self, work: object) -> Any:
        """Return the reference of the function in the object store, where it and what it is bound to are put once."""
        for stored, reference in self._stored:
            if stored is work:
                return reference
        try:
            reference = ray.put(work)
        except _NO_ROOM as error:
            raise _no_room(error, _HERE) from error
        self._stored.append((work, reference))
        return reference

    def _free(self, running: Sequence[_Worker], *, deep: bool) -> _Worker | None:
        """Return the worker that takes the next batch of a call: one that has none of it, or with `deep` a single one.

        Those of other calls do not count: they may be finished, and not fetched, or wait for this call's results. Waits
        if there is no worker at all.
        """
        with self._lock:
            self._look()
            if not any(worker.place for worker in self._workers) and not running:
                self._wait()
            if len(running) >= len(self._workers) + _QUEUED:
                return None
            ready = [worker for worker in self._workers if worker.place and running.count(worker) <= deep]
            return min(ready, key=lambda worker: (running.count(worker), worker.busy), default=None)

    def _finished(self, running: dict[Any, Any]) -> list[Any]:
        """Wait until batches are finished or a worker is ready; return the batches."""
        with self._lock:
            starting = [worker.starting for worker in self._workers if not worker.place]
        ready, _ = ray.wait([*running, *starting], num_returns=1, timeout=_SECONDS_BETWEEN_REPORTS)
        with self._lock:
            self._report()
        return [reference for reference in ready if reference in running]

    def _wait(self) -> None:
        """Wait for the first worker."""
        limit = time.monotonic() + _START_SECONDS
        while not any(worker.place for worker in self._workers):
            left = limit - time.monotonic()
            ray.wait([worker.starting for worker in self._workers], num_returns=1, timeout=max(0.0, left))
            if left <= 0.0:
                raise GceError(f"no worker of the Ray cluster started within {_START_SECONDS:g} s: see  ray status")
            self._look()

    def _look(self) -> None:
        """Note where workers are that have started."""
        for place, worker in enumerate(self._workers):
            if worker.place or not ray.wait([worker.starting], timeout=0)[0]:
                continue
            try:
                node, process = ray.get(worker.starting)
            except RayError as error:
                if isinstance(error, RayTaskError) or worker.losses == RETRIES:
                    raise GceError(f"a worker cannot be started: {_said(error)}") from error
                self._workers[place] = self._new(worker.number, worker.losses + 1)
                self.say(f"warning: worker {worker.number} died while it started, and is replaced")
                continue
            worker.place = f"{node}, process {process}"
            self.say(f"worker {worker.number} started: {worker.place}")

    def _lost(self, worker: _Worker, batch: _Batch, error: RayError) -> _Batch:
        """Replace a worker that died, and return its batch to be done again; raise what the work itself raised."""
        if isinstance(error, _NO_ROOM):
            place = f"at worker {worker.number} ({worker.place})" if isinstance(error, RayTaskError) else _HERE
            raise _no_room(error, place) from error
        if isinstance(error, RayTaskError) and not isinstance(error.cause, RayError):  # Such as a lost function.
            raise error.cause from error
        if worker in self._workers:
            ray.kill(worker.process)  # Where it cannot be reached, it may still be there.
            self._workers[self._workers.index(worker)] = self._new(worker.number)
        if batch.losses == RETRIES:
            raise GceError(
                f"work was begun {RETRIES + 1} times and its worker died each time, at last worker {worker.number} "
                f"({worker.place}): {_said(error)}",
                hint="is there memory for so many workers?",
            )
        self.say(
            f"warning: worker {worker.number} ({worker.place}) died, and is replaced; what it had is done again "
            f"(attempt {batch.losses + 2} of {RETRIES + 1})"
        )
        return evolve(batch, losses=batch.losses + 1)

    def _report(self) -> None:
        """Say what each worker has done, now and then."""
        if time.monotonic() - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self._reported = time.monotonic()
            each = (
                f"{worker.number}: {worker.done} done{', at work' * bool(worker.busy)}"
                if worker.place
                else f"{worker.number}: starting"
                for worker in self._workers
            )
            self.say(f"workers {'; '.join(each)}")


def _no_room(error: RayError, place: str) -> GceError:
    spilled = ", and so is the disk that it spills to" * isinstance(error, OutOfDiskError)
    return GceError(
        f"Ray's object store is full {place}{spilled}: it must hold the weights of the adapter and a few batches of "
        "answers",
        hint="free room there, or run  ray start --head --object-store-memory BYTES , and give its {executor.address}",
    )


def _said(error: RayError) -> str:
    return f"{one_line(str(error)):.300}"
