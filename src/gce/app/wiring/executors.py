"""From names to executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gce.adapters.executors.in_process import InProcess
from gce.adapters.executors.process_pool import ProcessPool
from gce.app.wiring.names import called, entry
from gce.errors import BadInput
from gce.ports.executor import Executor

__all__ = ["EXECUTORS", "LOCAL", "find_executor"]

LOCAL = "local"
EXECUTORS: Mapping[str, Callable[[int], Executor]] = {
    LOCAL: lambda processes: InProcess() if processes == 1 else ProcessPool(processes)
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
