"""What tests ask of stores of runs, and no port has: a crash, and which checkpoints lie on the disk."""

from __future__ import annotations

from pathlib import Path

from gce.adapters.runs.memory_store import MemoryRun

__all__ = ["checkpoints_in", "reopened"]


def reopened(run: MemoryRun) -> MemoryRun:
    """The run that a new process would find after a crash: all commits, and what was held since the last."""
    return MemoryRun(dict(run._runs), run.name)


def checkpoints_in(root: Path) -> tuple[int, ...]:
    """Iterations whose checkpoint is kept, oldest first."""
    names = (path.name for path in (root / "checkpoints").iterdir())
    return tuple(sorted(int(name.removeprefix("iteration-")) for name in names if name.startswith("iteration-")))
