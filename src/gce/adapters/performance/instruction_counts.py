"""Counts the instructions of one call of a workload, with cachegrind of valgrind, in a sandbox.

A count varies little, but sees neither caches nor waiting, and the code runs many times slower. Hostile code can
forge it: for display beside processor time alone. The interpreter's start and the making of the input are counted by a
run without the call, and subtracted.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from gce.adapters.performance.agent_commands import INSIDE, sandbox_of, why_no_sandbox
from gce.adapters.performance.trees import BadTree, prepare_tree
from gce.adapters.sandboxes.bubblewrap import bubblewrap_path
from gce.adapters.system.bounded_commands import run_bounded
from gce.domain.performance.task import PerformanceTask

__all__ = ["counted_in", "instructions_of", "why_no_counts"]

_SLOWER, _MORE_MEMORY = 100, 2 * 2**30
_CALL = """

import os as __gce_os__
import sys as __gce_sys__

__gce_input__ = setup(int(__gce_sys__.argv[1]))
if __gce_sys__.argv[2] == "run":
    __gce_sys__.path.insert(0, __gce_sys__.argv[3])
    run(__gce_input__)
__gce_os__._exit(0)
"""
_COUNT = re.compile(rb"^==\d+== I\s+refs:\s+([\d,]+)\s*$", re.MULTILINE)


def why_no_counts() -> str:
    """Return why instructions cannot be counted here; empty if they can."""
    return "valgrind is not installed" if shutil.which("valgrind") is None else why_no_sandbox()


def instructions_of(task: PerformanceTask, tree: Path, seed: int) -> int | None:
    """Return the instructions of one call of `run`, imports included; None if it did not end well within its limits.

    Args:
        task: its workload is run.
        tree: the code.
        seed: of the input.
    """
    with TemporaryDirectory(prefix="gce-count-", ignore_cleanup_errors=True) as home:
        place = Path(home)
        place.chmod(0o755)
        try:
            prepare_tree(tree, place / "code", f"{INSIDE}/code")
        except BadTree:
            return None
        (place / "count.py").write_text(task.workload + _CALL, encoding="utf-8")
        counted = partial(_counted, task, place, seed)
        whole, rest = counted("run"), counted("setup")
    return None if whole is None or rest is None else max(1, whole - rest)


def counted_in(said: bytes) -> int | None:
    """Return the count in what cachegrind printed; None if there is none."""
    found = _COUNT.findall(said)
    return int(found[-1].replace(b",", b"")) if found else None


def _counted(task: PerformanceTask, place: Path, seed: int, step: str) -> int | None:
    program = bubblewrap_path()
    if program is None:
        return None
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", "/tmp/bin/python3"]
    words += ["-s", "-S", "-P", f"{INSIDE}/count.py", str(seed), step, f"{INSIDE}/code"]
    ended = run_bounded(
        [*sandbox_of(program, place, (), network=False), "--chdir", INSIDE, "--", *words],
        seconds=_SLOWER * task.seconds,
        memory=task.memory_mb * 2**20 + _MORE_MEMORY,
        most_output=2**20,
        environment={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"},
    )
    return None if ended.status or ended.exceeded else counted_in(ended.complaint)
