"""The port for time: the domain has no clock, and tests bring their own."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """Measures time."""

    def now(self) -> float:
        """Return seconds since an arbitrary origin; never decreases within a process."""
        ...
