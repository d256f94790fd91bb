"""Time, as a port: the domain has none, and tests bring their own."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> float:
        """Seconds since an arbitrary origin; never runs backwards within a process."""
        ...
