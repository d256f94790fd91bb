"""Data parallelism for the learner: other processes compute a part of each gradient, each on a copy of the base.

The learner's own process sends a step's adapter and passes; torch.distributed sums the gradients (gloo on CPUs, nccl on
GPUs). The other processes keep no optimizer and no state between steps, so copies cannot drift apart, and a checkpoint
does not depend on the number of processes. Only the learner's machine is used.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch
import torch.distributed as dist
from attrs import frozen
from torch import Tensor

from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import Example
from gce.adapters.system.process import usable_cores
from gce.domain.learning import Objective
from gce.errors import ModelError, one_line

__all__ = ["PassResult", "Passes", "Processes", "Step", "backend_for", "check_processes"]

Passes = Sequence[tuple[int, Sequence[Example]]]
"""Forward and backward passes of a step, each with its number."""
PassResult = tuple[int, float, Array]
"""Of one pass: its number, its part of the loss, and the log-probabilities of its trained tokens."""

_JOIN = timedelta(minutes=5)
"""Longest wait for a process that has said that it is ready."""
_OPEN = weakref.WeakSet["Processes"]()
"""At most one has processes: torch.distributed has one default group in a process."""


@frozen
class Step:
    """What the processes of a step share."""

    layers: tuple[int, ...]
    """The adapted blocks."""
    modules: tuple[str, ...]
    """Full paths of the adapted linears."""
    steps: int
    """Optimizer steps so far, which seed dropout."""
    objective: Objective
    trained: int
    """Trained tokens of the whole step."""


class _Learner(Protocol):
    """What is needed of the engine."""

    def parameters(self) -> Tensor:
        """Return the adapter's numbers as one array."""
        ...

    def gradients(self, passes: Passes, step: Step) -> tuple[Tensor, list[PassResult]]:
        """Return the sum of the passes' gradients as one array, and the result of each pass."""
        ...


def backend_for(device: torch.device) -> str:
    """Return the backend of torch.distributed for processes on this kind of device."""
    return "nccl" if device.type == "cuda" else "gloo"


def check_processes(processes: int, device: torch.device) -> None:
    """Raise ModelError unless so many learner processes can run on this kind of device."""
    if processes == 1:
        return
    if not dist.is_available() or (device.type == "cuda" and not dist.is_nccl_available()):
        raise ModelError(
            f"expected torch.distributed with {backend_for(device)}, which this build of torch lacks",
            hint="leave out {optimizer.learner_processes}",
        )
    if device.type == "cuda" and processes > torch.cuda.device_count():
        raise ModelError(
            f"expected at most one learner process for each of {torch.cuda.device_count()} GPUs, got {processes}",
            hint="give a smaller {optimizer.learner_processes}",
        )
    if device.type == "mps":
        raise ModelError(
            f"expected one learner process on Apple's GPU, got {processes}", hint="or give {model.device} cpu"
        )


class Processes:
    """This process and `count - 1` others, which begin with the first step."""

    def __init__(self, count: int, device: torch.device, load: Mapping[str, Any], *, threads: int | None) -> None:
        """Prepare processes that load the model with `load`, the arguments of `load_engine`, and share the threads."""
        self._count = count
        self._device = device
        self._threads = max(1, (threads or usable_cores()) // count)
        self._load = {**load, "threads": self._threads}
        self._others: list[_Other] = []
        self._end: Callable[[], object] = lambda: None

    def gradients(self, learner: _Learner, passes: Passes, step: Step) -> tuple[Tensor, list[PassResult]]:
        """Return the sum of all gradients, and the results of all passes in order.

        Raises:
            ModelError: a process has failed or died; the others are ended, and the next step begins new ones.
        """
        try:
            if not self._others:
                self._begin()
            for rank, other in enumerate(self._others, start=1):
                other.send((step, passes[rank :: self._count]))
            self._hear("ready")
            with _together():
                dist.broadcast(learner.parameters(), src=0)
            with _threads(self._threads):
                total, results = learner.gradients(passes[:: self._count], step)
            for found in self._hear("done"):
                results += found
            with _together():
                dist.reduce(total, dst=0)
        except BaseException:
            self.close()
            raise
        return total, sorted(results, key=lambda result: result[0])

    def close(self) -> None:
        """End the other processes."""
        self._end()
        self._others = []

    def _begin(self) -> None:
        for earlier in _OPEN:
            earlier.close()
        if dist.is_initialized():
            raise ModelError("expected torch.distributed to be unused, but this process has a default group already")
        store = dist.TCPStore("127.0.0.1", 0, self._count, is_master=True, wait_for_workers=False)
        self._others = [_Other(rank, self._count) for rank in range(1, self._count)]
        self._end = weakref.finalize(self, _end, list(self._others))
        _OPEN.add(self)
        for other in self._others:
            other.send((self._load, store.port))
        self._hear("loaded")
        _join(self._device, store, 0, self._count)

    def _hear(self, word: str) -> list[Any]:
        """Return what each of the others says with `word`; ModelError if one fails or dies first."""
        found: dict[_Other, Any] = {}
        while len(found) < len(self._others):
            waiting = {other.connection: other for other in self._others if other not in found}
            for connection in wait(list(waiting)):
                other = waiting[connection]  # type: ignore[index]
                found[other] = other.hear(word)
        return [found[other] for other in self._others]


class _Other:
    """Another process."""

    def __init__(self, rank: int, count: int) -> None:
        self.connection, theirs = Pipe()
        self._called = f"learner process {rank + 1} of {count}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), str(rank), str(count)],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()

    def send(self, what: Any) -> None:
        """Send it; ModelError if the process has died."""
        try:
            self.connection.send(what)
        except OSError as error:
            raise self._dead() from error

    def hear(self, word: str) -> Any:
        """Return what it says with this word; ModelError if it says that it failed, or has died."""
        try:
            said, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._dead() from error
        if said != word:
            raise ModelError(f"{self._called} failed: {value}")
        return value

    def end(self) -> None:
        """End it."""
        self.connection.close()
        self._process.kill()
        self._process.wait()

    def _dead(self) -> ModelError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        code = self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        return ModelError(f"{self._called} died ({how}): nothing learned in this iteration is kept")


def _end(others: Sequence[_Other]) -> None:
    for other in others:
        other.end()
    if dist.is_initialized():
        dist.destroy_process_group()


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """Say in one line that a collective operation failed: a process died after it had said that it was ready."""
    try:
        yield
    except RuntimeError as error:
        raise ModelError(f"the learner's processes lost each other: {one_line(error)}") from error


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use so many threads of the CPU within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _join(device: torch.device, store: dist.TCPStore, rank: int, count: int) -> None:
    with _together(), _on_loopback():
        dist.init_process_group(backend_for(device), store=store, rank=rank, world_size=count, timeout=_JOIN)


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let gloo listen on the loopback interface alone, unless the user has chosen another."""
    name = "GLOO_SOCKET_IFNAME"
    if name in os.environ:
        yield
        return
    os.environ[name] = "lo0" if sys.platform == "darwin" else "lo"
    try:
        yield
    finally:
        del os.environ[name]


def _serve(connection: Connection, rank: int, count: int) -> None:
    """Compute gradients until the learner's process closes the connection."""
    from gce.adapters.models.backends.torch.model import load_engine

    load, port = connection.recv()
    engine = load_engine(**load, rank=rank)
    connection.send(("loaded", None))
    _join(engine.model.device, dist.TCPStore("127.0.0.1", port, count, is_master=False), rank, count)
    while True:
        step, passes = connection.recv()
        if engine.modules != step.modules:
            engine.attach(step.layers, step.modules)
        connection.send(("ready", None))
        parameters = engine.parameters()
        dist.broadcast(parameters, src=0)
        engine.place(parameters)
        total, results = engine.gradients(passes, step)
        connection.send(("done", results))
        dist.reduce(total, dst=0)


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The learner's process decides.
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    connection = Connection(int(sys.argv[1]))
    try:
        _serve(connection, int(sys.argv[2]), int(sys.argv[3]))
    except EOFError:
        return
    except Exception as error:
        with contextlib.suppress(OSError):
            connection.send(("failed", one_line(f"{type(error).__name__}: {error}")))


def _end_with(parent: int) -> None:
    """End this process soon after its parent, even within a collective operation."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    _main()
