"""What explains the changes of a recording so far: each changed region has one cause at most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import dist

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from gce.domain.workflow.changes import Changes
from gce.domain.workflow.pointer import Track
from gce.domain.workflow.regions import MOST_SIDE, Box, Region, area, meets, side
from gce.domain.workflow.steps import Step

__all__ = ["Background", "Evidence", "Frame", "during", "pixel"]

LATELY = 30
"""Frames after which a pointer that left a place has no effect there, and nobody clicks where it rests."""
MOST_BOXES = 16
"""Of a frame, that are remembered to tell what changes by itself."""
AWAY = 40
"""Pixels from a pointer beyond which it has no effect as it moves."""
AFTER_ACT = 1.0
"""Seconds after a step in which it has effects."""


@frozen(eq=False)
class Frame:
    """A frame's changes without a cause so far."""

    t: int
    seconds: float
    regions: Mapping[int, Region]
    """By their number in the frame."""

    @property
    def boxes(self) -> list[Box]:
        """Of the regions, the largest first."""
        return [region.box for region in self.regions.values()]


class Background:
    """What changes at which moments, in order of time."""

    def __init__(self, changed: Iterable[tuple[float, Box]]) -> None:
        pairs = list(changed)
        self.seconds = np.array([seconds for seconds, _ in pairs])
        self.boxes = np.array([box for _, box in pairs], np.int64).reshape(-1, 4)

    def moments(self, box: Box, start: float, end: float, *, inside: bool = False) -> NDArray[np.float64]:
        """When, from start to end, something changes that may be the same thing, or that a box is inside of.

        The same thing is about as large, and most of the smaller one is common; parts of a spinner only meet.
        """
        part = slice(*np.searchsorted(self.seconds, [start, end + 1e-9]))
        boxes = self.boxes[part]
        shared = (np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])).clip(0).prod(axis=1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
        least, most = np.minimum(areas, area(box)), np.maximum(areas, area(box))
        same = (most < 5 * least) & (shared > (0 if side(box) <= MOST_SIDE else 0.5) * least)
        found: NDArray[np.float64] = self.seconds[part][same | inside & (shared > 0.8 * area(box))]
        return found

    def is_elsewhen(self, box: Box, seconds: float) -> bool:
        """Whether a box, or what it is inside of, changes at two other moments."""
        moments = self.moments(box, 0.0, np.inf, inside=True)
        moments = moments[abs(moments - seconds) > 0.5]
        return len(moments) > 0 and float(np.ptp(moments)) > 0.5


@frozen(eq=False)
class Evidence:
    """The changes of a recording, where the pointer was, and what they are explained by so far."""

    found: Sequence[Changes] = field(repr=False)
    pointer: Track
    causes: Mapping[tuple[int, int], str] = {}
    """Of regions, by the frame and the number in it."""
    steps: tuple[Step, ...] = ()

    def explained(self, cause: str, regions: Collection[tuple[int, int]], steps: Iterable[Step]) -> Evidence:
        """With one more cause, of those regions that have none, and its steps."""
        causes = dict.fromkeys(regions, cause) | dict(self.causes)
        return evolve(self, causes=causes, steps=(*self.steps, *steps))

    def left(self) -> list[Frame]:
        """Frames with regions that have no cause."""
        return [
            Frame(t, each.seconds, left)
            for t, each in enumerate(self.found)
            if (left := {n: one for n, one in enumerate(each.regions) if (t, n) not in self.causes})
        ]

    def of(self, *kinds: str) -> list[Step]:
        """Steps of these kinds."""
        return [step for step in self.steps if step.kind in kinds]

    def moved(self, t: int) -> float:
        """Pixels by which the pointer's tip moved with a frame."""
        before, after = self.pointer.rests[t - 1] if t else None, self.pointer.rests[t]
        return dist(before, after) if before and after and self.pointer.moves[t] else 0.0

    def alone(self, acts: Sequence[Step]) -> Background:
        """What changes without a cause away from a pointer that moves, or has rested for long, and not after acts."""
        rests, moves = self.pointer.rests, self.pointer.moves
        alone = list[tuple[float, Box]]()
        for each in self.left():
            recent = [t for t in range(max(each.t - LATELY, 0), each.t + 1) if rests[t] is not None]
            idle = any(moves[t] for t in recent[-2:]) or not any(moves[t] for t in recent)
            if recent and idle and not during(each.seconds, acts, AFTER_ACT):
                alone += [
                    (each.seconds, box)
                    for box in each.boxes[:MOST_BOXES]
                    if not any(meets(pixel(rests[t]), box, AWAY) for t in recent)
                ]
        return Background(alone)


def during(seconds: float, steps: Iterable[Step], after: float) -> bool:
    """Whether a moment is in one of the steps, or up to some seconds after it."""
    return any(step.start <= seconds <= step.end + after for step in steps)


def pixel(point: tuple[float, float] | None) -> Box:
    """The pixel of a point."""
    assert point is not None
    return int(point[0]), int(point[1]), int(point[0]) + 1, int(point[1]) + 1
