"""An answer drawn as bars on a timeline."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Bar", "Chart"]


@frozen
class Bar:
    """One bar: something that takes time."""

    label: str
    start: float
    end: float
    limit: float | None = None
    """Deadline of this bar."""
    faulty: bool = False
    """True if a violation names it."""


@frozen
class Chart:
    """An answer as bars on a timeline, with its violations."""

    bars: tuple[Bar, ...]
    limit: float | None
    """Deadline of all bars."""
    faults: tuple[str, ...]
    """One sentence per violation."""
