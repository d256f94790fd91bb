"""This process as the system sees it: cores, memory and heap. Independent of what it computes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import resource
import sys
from pathlib import Path

__all__ = ["drawn_processor", "peak_bytes", "reset_peak", "resident_bytes", "share_heap", "trim_heap", "usable_cores"]

_M_ARENA_MAX = -8
"""As in glibc's malloc.h."""


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def drawn_processor(rng: random.Random) -> int | None:
    """Return the number of a processor that this process may use, at random; None where the system does not tell."""
    return rng.choice(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None


def peak_bytes() -> int:
    """Return the peak resident memory of this process in bytes: interpreter included, child processes excluded."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux a child inherits its parent's `ru_maxrss`; this line is the process's own.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak() -> None:
    """Let `peak_bytes` begin anew, if the system supports it, as Linux does."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def resident_bytes(process: int) -> int | None:
    """Return the resident memory of another process in bytes; None where the system does not tell, or it has ended."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def share_heap() -> None:
    """Let all threads allocate from one heap, if the C library supports it.

    By default, glibc gives each thread a heap of its own, and memory freed by one thread is not available to others.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


def trim_heap() -> None:
    """Give freed memory back to the system, if the C library supports it.

    By default, glibc keeps what was freed below the last block in use: gigabytes after a model of many arrays.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
