"""From names to executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol

from gce.adapters.executors.in_process import InProcess
from gce.adapters.executors.process_pool import ProcessPool
from gce.adapters.system.process import usable_cores
from gce.app.wiring.names import called, entry
from gce.errors import BadInput
from gce.ports.executor import Executor

if TYPE_CHECKING:
    from gce.adapters.executors.ray_workers import RayWorkers

__all__ = ["EXECUTORS", "LOCAL", "RAY", "Where", "default_threads", "executor_of", "find_executor"]

LOCAL, RAY = "local", "ray"


class Where(Protocol):
    """Settings of an executor."""

    @property
    def kind(self) -> str:
        """Its name."""
        ...

    @property
    def judges(self) -> int:
        """Processes of any other executor than Ray's."""
        ...

    @property
    def workers(self) -> int:
        """Of Ray."""
        ...

    @property
    def address(self) -> str:
        """Of a Ray cluster; empty for one of its own."""
        ...

    @property
    def gpus_per_worker(self) -> float:
        """Of Ray."""
        ...


def default_threads() -> int:
    """CPU threads where nothing else is asked for: one per core."""
    return usable_cores()


def executor_of(
    where: Where, *, say: Callable[[str], None] | None = None, show_output: bool = False
) -> Executor | None:
    """The executor that settings describe, the same one for the same settings; None for the calling process itself.

    Workers of Ray tell `say` what they do, and `show_output` has what they print printed here.

    Raises:
        BadInput: nothing of that name, or it is no executor.
        MissingExtra: Ray is not installed.
    """
    if where.kind == RAY:
        found = _ray(where.workers, where.address, where.gpus_per_worker, show_output)
        found.say = say or found.say
        return found
    return None if (where.kind, where.judges) == (LOCAL, 1) else find_executor(where.judges, where.kind)


@cache
def _ray(workers: int, address: str = "", gpus: float = 0.0, show_output: bool = False) -> RayWorkers:
    from gce.adapters.executors.ray_workers import RayWorkers

    return RayWorkers(workers, address=address, gpus=gpus, show_output=show_output)


EXECUTORS: Mapping[str, Callable[[int], Executor]] = {
    LOCAL: lambda processes: InProcess() if processes == 1 else ProcessPool(processes),
    RAY: _ray,
}
"""A number of processes -> executor, by name."""


def find_executor(processes: int = 1, name: str = LOCAL) -> Executor:
    """An executor by its name, or by module:ATTR of its builder: in this process, or in so many others.

    Raises:
        BadInput: nothing of that name, or it is no executor.
    """
    found = called(name, entry(name, EXECUTORS, object, "executor"), processes=processes)
    if not isinstance(found, Executor):
        raise BadInput(f"{name} is {type(found).__name__}, expected an executor (see gce.ports.executor)")
    return found
