"""From a number of processes to an executor."""

from __future__ import annotations

from gce.adapters.executors.in_process import InProcess
from gce.adapters.executors.process_pool import ProcessPool
from gce.ports.executor import Executor

__all__ = ["find_executor"]


def find_executor(processes: int = 1) -> Executor:
    """Work in this process, or in so many others."""
    return InProcess() if processes == 1 else ProcessPool(processes)
