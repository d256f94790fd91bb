"""glibc gives each thread a heap of its own, and what one thread has freed another cannot use. Knows nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import sys

__all__ = ["share_heap"]

_M_ARENA_MAX = -8
"""As in glibc's malloc.h."""


def share_heap() -> None:
    """Let all threads of this process allocate from one heap, where the C library can be told so."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
