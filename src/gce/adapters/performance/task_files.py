"""Performance tasks as directories: `task.toml`, `workload.py`, `tests.py` and, optionally, `instruction.md`."""

from __future__ import annotations

from pathlib import Path

from gce.domain.performance.task import PerformanceTask, Source

__all__ = ["find_trees", "read_task", "read_tasks"]


def read_task(directory: Path) -> PerformanceTask:
    """Return the task in a directory.

    Raises:
        BadInput: a file is missing, is too large, or is not as the format says.
    """
    raise NotImplementedError


def read_tasks(directory: Path) -> list[tuple[Path, PerformanceTask]]:
    """Return a task directory, or all those directly below `directory`, sorted by name.

    Raises:
        BadInput: there is none, or one is not as the format says.
    """
    raise NotImplementedError


def find_trees(source: Source, directory: Path, cache: Path) -> Path:
    """Return the tree of a source, as wheels.fetch has put it into the cache, or the task's own directory.

    Raises:
        BadInput: it was not fetched.
    """
    raise NotImplementedError
