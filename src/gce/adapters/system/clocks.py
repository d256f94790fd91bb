"""Clocks: the machine's, and one that a test moves by hand."""

from __future__ import annotations

import math
import time

__all__ = ["FakeClock", "SystemClock"]


class SystemClock:
    """The machine's monotonic clock: changes of the wall clock do not move it."""

    def now(self) -> float:
        """Seconds since an arbitrary origin, the same within a process."""
        return time.monotonic()


class FakeClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, start: float = 0.0) -> None:
        """Start at `start` seconds."""
        self._now = start

    def now(self) -> float:
        """Seconds: `start` plus all that it was advanced by."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward. A negative or endless step: ValueError, and the clock stays."""
        if not (seconds >= 0 and math.isfinite(seconds)):
            raise ValueError(f"expected seconds >= 0, got {seconds!r}: a clock never runs backwards")
        self._now += seconds
