"""Performance tasks: which adapters read, fetch and measure them."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from pathlib import Path

from gce.adapters.performance.instruction_counts import instructions_of, why_no_counts
from gce.adapters.performance.measuring import Measuring, check_sources
from gce.adapters.performance.task_files import read_tasks, write_tree
from gce.adapters.performance.wheels import fetch_wheel, find_wheel, has_wheel, unpack_wheels
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.wiring.sandboxes import AUTO, SANDBOXES, UNSAFE, first_sandbox, why_not
from gce.domain.performance.task import PerformanceTask, Source
from gce.errors import BadInput

__all__ = [
    "Measuring",
    "cache_of_wheels",
    "check_sources",
    "fetch_wheel",
    "find_measuring",
    "find_tasks",
    "find_wheel",
    "has_wheel",
    "instructions_of",
    "shipped_tasks",
    "tree_writer",
    "unpack_wheels",
    "why_no_counts",
]


def shipped_tasks() -> Path:
    """Return the directory of the tasks that come with this package."""
    return Path(str(importlib.resources.files("gce"))) / "data" / "performance"


def find_tasks(directory: Path | None) -> list[tuple[Path, PerformanceTask]]:
    """Return the tasks of a directory, or the shipped ones; see `read_tasks`."""
    return read_tasks(directory or shipped_tasks())


def cache_of_wheels() -> Path:
    """Return the folder that keeps downloaded wheels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gce" / "wheels"


def tree_writer(directory: Path) -> Callable[[Source, Path], None]:
    """Return what writes the trees of the task in this directory: (source, new directory)."""
    return partial(_write_tree, directory)


def _write_tree(directory: Path, source: Source, target: Path) -> None:
    write_tree(source, directory, cache_of_wheels(), target)


def find_measuring(
    runner: str = AUTO, tasks: Iterable[PerformanceTask] = (), accuracies: MutableMapping[str, float] | None = None
) -> Measuring:
    """Return what compares versions of code, in the first sandbox that works here and passes `Measuring.check`.

    It does so in the images of all tasks. `accuracies` keeps what `accuracy_command` prints; see `Measuring`.

    Raises:
        BadInput: there is none.
    """
    images = sorted({task.image for task in tasks}) or [""]
    name, reasons = first_sandbox(runner, partial(_why_not, images=images))
    if name:
        return _measuring(name, accuracies)
    raise BadInput(
        "code is measured in a sandbox, and none works here: "
        + "; ".join(f"{name}: {reason}" for name, reason in reasons.items()),
        hint="install bubblewrap (apt install bubblewrap, or pip install 'grounded-eval[programs]') on a Linux "
        "system that allows user namespaces",
    )


def _measuring(name: str, accuracies: MutableMapping[str, float] | None = None) -> Measuring:
    return Measuring(start_unsafe_local if name == UNSAFE else SANDBOXES[name], accuracies)


def _why_not(name: str, images: Iterable[str]) -> str:
    """Return why nothing can be measured in a sandbox; empty if it can."""
    for image in images:
        try:
            reason = "" if name == UNSAFE else why_not(name, image)
            if not reason:
                _measuring(name).check(image)
        except BadInput as error:
            reason = str(error)
        if reason:
            return reason
    return ""
