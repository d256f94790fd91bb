"""Regions of a frame that changed."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

__all__ = ["Box", "Frame", "Region"]

Frame = NDArray[np.uint8]
"""Brightness, (height, width)."""
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are outside."""


@frozen(eq=False)
class Region:
    """Tiles that changed and touch each other."""

    box: Box
    """Of the changed pixels."""
    pixels: int
    mask: NDArray[np.bool_] | None = field(default=None, repr=False)
    """Which pixels of the box changed; None for a large region."""
