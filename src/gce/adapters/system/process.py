"""This process as the system sees it: its cores, its memory, its heap. Knows nothing of what it computes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
from pathlib import Path

__all__ = ["peak_bytes", "share_heap", "usable_cores"]

_M_ARENA_MAX = -8
"""As in glibc's malloc.h."""


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_bytes() -> int:
    """Resident memory of this process at its highest, interpreter included, what it started left out."""
    status = Path("/proc/self/status")
    if status.exists():
        # Linux hands the parent's `ru_maxrss` down to a child; this line is the process's own.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def share_heap() -> None:
    """Let all threads allocate from one heap, where the C library can be told so.

    glibc gives each thread a heap of its own, and what one thread has freed another cannot use.
    """
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
