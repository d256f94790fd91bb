"""The steps of a workflow: what somebody did on a screen, when and where."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

__all__ = ["Kind", "Step"]

Kind = Literal["click", "type", "scroll", "page"]


@frozen
class Step:
    """One step. A page change is the appearance of another page: most of the screen shows something else."""

    kind: Kind
    start: float
    """Seconds from the start of the recording: of a click, when the button went down; of typing, when its first
    character appeared; of scrolling and of a page change, when the screen began to change."""
    end: float
    """Seconds; equal to `start` for a click."""
    point: tuple[float, float] | None = None
    """The tip of the pointer in pixels, from the left and the top; of a click alone."""
    box: tuple[int, int, int, int] | None = None
    """Left, top, right and bottom in pixels of the element that was clicked or typed into, of the area that scrolled,
    or of the screen."""
    text: str = ""
    """What was typed."""
    distance: float = 0.0
    """How far was scrolled, in pixels; down is positive."""
