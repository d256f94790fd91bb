"""Clocks: the system's, and a fake that tests advance by hand."""

from __future__ import annotations

import math
import time

__all__ = ["FakeClock", "SystemClock"]


class SystemClock:
    """The system's monotonic clock, which changes of the wall clock do not affect."""

    def now(self) -> float:
        """Return seconds since an arbitrary origin, which is fixed within a process."""
        return time.monotonic()


class FakeClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, start: float = 0.0) -> None:
        """Start at `start` seconds."""
        self._now = start

    def now(self) -> float:
        """Return `start` plus all advances, in seconds."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward; ValueError for a negative or infinite step, and the clock stays."""
        if not (seconds >= 0 and math.isfinite(seconds)):
            raise ValueError(f"expected seconds >= 0, got {seconds!r}: a clock never runs backwards")
        self._now += seconds
