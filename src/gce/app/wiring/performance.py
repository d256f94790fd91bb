"""Performance tasks: which adapters read, fetch and measure them, run agents, and keep runs without secrets."""

from __future__ import annotations

import importlib.resources
import os
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from pathlib import Path

from gce.adapters.datasets.atif import atif_of_trace
from gce.adapters.datasets.record_files import read_records
from gce.adapters.models.servers.redaction import Redaction, redacted
from gce.adapters.performance.agent_commands import Worked, run_agent, why_no_program, why_no_sandbox
from gce.adapters.performance.history import History, open_history
from gce.adapters.performance.instruction_counts import instructions_of, why_no_counts
from gce.adapters.performance.measuring import Measuring, check_sources
from gce.adapters.performance.run_folder import RunFolder
from gce.adapters.performance.task_files import read_tasks, write_tree
from gce.adapters.performance.trees import read_tree, write_files
from gce.adapters.performance.wheels import fetch_wheel, find_wheel, has_wheel, unpack_wheels
from gce.adapters.sandboxes.unsafe_local import start_unsafe_local
from gce.app.wiring.models import keys_at_hand
from gce.app.wiring.sandboxes import AUTO, SANDBOXES, UNSAFE, first_sandbox, why_not
from gce.domain.performance.task import PerformanceTask, Source
from gce.errors import BadInput

__all__ = [
    "History",
    "Measuring",
    "RunFolder",
    "Worked",
    "atif_of_trace",
    "cache_of_wheels",
    "check_sources",
    "fetch_wheel",
    "find_measuring",
    "find_tasks",
    "find_wheel",
    "has_wheel",
    "instructions_of",
    "keys_at_hand",
    "open_history",
    "read_records",
    "read_tree",
    "run_agent",
    "tree_writer",
    "unpack_wheels",
    "why_no_counts",
    "why_no_program",
    "why_no_sandbox",
    "without_keys",
    "write_files",
]


def find_tasks(directory: Path | None) -> list[tuple[Path, PerformanceTask]]:
    """Return the tasks of a directory, or the shipped ones; see `read_tasks`."""
    return read_tasks(directory or Path(str(importlib.resources.files("gce"))) / "data" / "performance")


def cache_of_wheels() -> Path:
    """Return the folder that keeps downloaded wheels."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gce" / "wheels"


def tree_writer(directory: Path) -> Callable[[Source, Path], None]:
    """Return what writes the trees of the task in this directory: (source, new directory)."""
    return partial(write_tree, directory, cache_of_wheels())


def without_keys(text: str) -> str:
    """Return a text without the API keys in the environment."""
    return redacted(text, [Redaction(key) for key in keys_at_hand()])


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
