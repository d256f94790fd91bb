"""What somebody did in a screen recording: a list of timed steps."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

__all__ = ["Box", "Kind", "Step", "Workflow"]

Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are outside."""
Kind = Literal["click", "type", "scroll", "page"]


@frozen
class Step:
    """One step."""

    kind: Kind
    time: float
    """Seconds from the beginning, when the screen first showed it."""
    end: float
    """When it was over; of a click, the same."""
    x: float
    y: float
    """Where the pointer was; -1 where it was never seen."""
    box: Box
    """What changed: the clicked element, the typed text, what scrolled, the new page."""
    text: str = ""
    """What was typed, or the label of what was clicked, as read from the picture; empty where nothing was read."""
    amount: int = 0
    """Pixels that content moved up by, for a scroll."""
    read_at: float = -1.0
    """When the text stands alone, without the pointer on it; -1 where there is none."""


@frozen
class Workflow:
    """The steps of a recording."""

    width: int
    height: int
    seconds: float
    steps: tuple[Step, ...]
