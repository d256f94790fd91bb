"""Frames, boxes in them, and regions that changed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

__all__ = [
    "MOST_SIDE",
    "Box",
    "Frame",
    "Region",
    "Shot",
    "apart",
    "area",
    "around",
    "common",
    "covered",
    "grown",
    "meets",
    "overlap",
    "side",
    "size",
]

Frame = NDArray[np.uint8]
"""Brightness, (height, width)."""
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are outside."""

MOST_SIDE = 60
"""Pixels of a pointer's longer side."""


@frozen(eq=False)
class Shot:
    """A frame of a recording."""

    seconds: float
    frame: Frame = field(repr=False)
    key: bool = False
    """A key frame: encoded without the one before, so that all of it differs a little."""


@frozen(eq=False)
class Region:
    """Tiles that changed and touch each other."""

    box: Box
    """Of the changed pixels."""
    pixels: int
    mask: NDArray[np.bool_] | None = field(default=None, repr=False)
    """Which pixels of the box changed; None for a large region."""


def size(box: Box) -> tuple[int, int]:
    """Width and height."""
    return box[2] - box[0], box[3] - box[1]


def area(box: Box) -> int:
    """Pixels of a box."""
    return (box[2] - box[0]) * (box[3] - box[1])


def side(box: Box) -> int:
    """The longer side."""
    return max(size(box))


def grown(box: Box, by: int) -> Box:
    """The box with a margin."""
    return box[0] - by, box[1] - by, box[2] + by, box[3] + by


def around(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of them."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def meets(first: Box, second: Box, margin: int = 0) -> bool:
    """Whether two boxes have a pixel in common, the first one grown by `margin`."""
    return (
        first[0] - margin < second[2]
        and second[0] < first[2] + margin
        and first[1] - margin < second[3]
        and second[1] < first[3] + margin
    )


def common(first: Box, second: Box) -> Box:
    """What two boxes have in common."""
    return max(first[0], second[0]), max(first[1], second[1]), min(first[2], second[2]), min(first[3], second[3])


def covered(box: Box, by: Box) -> float:
    """Share of a box that another one covers, from 0 to 1."""
    left, top, right, bottom = common(box, by)
    return max(right - left, 0) * max(bottom - top, 0) / area(box) if area(box) else 0.0


def overlap(first: Box, second: Box) -> float:
    """Share of the smaller of two boxes that is common, from 0 to 1."""
    return max(covered(first, second), covered(second, first))


def apart(first: Box, second: Box) -> int:
    """Pixels by which the sides of two boxes differ at most."""
    return max(abs(a - b) for a, b in zip(first, second, strict=True))
