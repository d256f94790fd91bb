"""An answer as bars over time."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Bar", "Chart"]


@frozen
class Bar:
    """One thing that takes time."""

    label: str
    start: float
    end: float
    limit: float | None = None
    """By when it has to end."""
    faulty: bool = False
    """Whether a violation names it."""


@frozen
class Chart:
    """An answer as bars over time, with what is wrong with it."""

    bars: tuple[Bar, ...]
    limit: float | None
    """By when all have to end."""
    faults: tuple[str, ...]
    """A sentence for each violation."""
