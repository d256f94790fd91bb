"""Where the pointer is, whatever it looks like: the small thing that is in one picture, and in neither of those beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from gce.domain.workflow.changes import Change, Patch, around, overlap
from gce.domain.workflow.steps import Box

__all__ = ["Place", "Seen", "hot_spot", "track"]

MOST_SIDE, LEAST_WIDTH, LEAST_HEIGHT, LEAST_AREA = 64, 5, 8, 14
"""Of a pointer, in pixels; a caret is thinner."""
AHEAD = 12
"""Changes that are looked at for the one with which the pointer leaves."""
WHOLE = 0.6
"""Share of the usual number of its pixels from which on all of a pointer is seen."""
PART = 0.35
"""The same, below which what is seen is something else."""
LITTLE = 0.2
"""The same for what the very next picture shows: a bar has fewer pixels than an arrow."""
BAR = 0.5
"""Share of its height below which the width of a pointer is that of a bar."""
ALIKE = 3
"""Pixels by which the sides of the same pointer differ at most."""
TALL = 0.75
"""Share of the height before, from which on what is seen is all of another pointer."""
SHORT = 16
"""Longest step, in pixels, after which a pointer overlaps with where it was."""
FAR = 30
"""Pixels between the pointer and what is none."""
LEFT = 0.35
"""Share of a pointer's own pixels that change when it leaves."""
SYMMETRIC = 0.55
"""Share of pixels that a half turn has to leave in place for the hot spot to be in the middle."""


@frozen(eq=False)
class Seen:
    """The pointer in one picture."""

    time: float
    x: float
    y: float
    box: Box
    mask: np.ndarray
    """Pixels of the box that are its own."""
    adjacent: bool = False
    """Whether the very next picture shows it, too."""

    @classmethod
    def of(cls, time: float, box: Box, mask: np.ndarray, *, adjacent: bool) -> Seen:
        """What these pixels say."""
        x, y = hot_spot(mask)
        return cls(time, box[0] + x, box[1] + y, box, mask, adjacent)

    @property
    def area(self) -> int:
        """Pixels of the mask."""
        return int(np.count_nonzero(self.mask))

    def apart(self, other: Seen) -> float:
        """Pixels between two hot spots."""
        return float(np.hypot(self.x - other.x, self.y - other.y))

    def moved_on(self, change: Change, part: Seen | None) -> Seen | None:
        """This pointer after a change that shows only a part of one, or another one with fewer pixels."""
        if part is not None:
            left, top, right, bottom = (its - own for its, own in zip(part.box, self.box, strict=True))
            if abs(left - right) <= ALIKE and abs(top - bottom) <= ALIKE:
                dx, dy = (left + right) / 2, (top + bottom) / 2
                box = self.box[0] + left, self.box[1] + top, self.box[2] + left, self.box[3] + top
                return Seen(change.time, self.x + dx, self.y + dy, box, self.mask)
            if part.adjacent and part.mask.shape[0] >= TALL * self.mask.shape[0]:
                return part
        return self._slid(change) or part

    def _slid(self, change: Change) -> Seen | None:
        """The same pointer after a short step, by how far its outline and that of the change differ."""
        left, top, right, bottom = self.box
        reach = left - SHORT, top - SHORT, right + SHORT, bottom + SHORT
        own = [patch for patch in change.patches if overlap(patch.box, self.box)]
        if not own or (box := around(own)) != overlap(box, reach):
            return None
        dx = box[0] - left if box[0] < left else max(box[2] - right, 0)
        dy = box[1] - top if box[1] < top else max(box[3] - bottom, 0)
        moved = left + dx, top + dy, right + dx, bottom + dy
        return Seen(change.time, self.x + dx, self.y + dy, moved, self.mask)

    def share_changed(self, patches: Sequence[Patch]) -> float:
        """Share of its own pixels that a change touched: none while it rests, whatever changes around it."""
        touched = np.zeros(self.mask.shape, bool)
        for patch in patches:
            both = overlap(patch.box, self.box)
            if both is not None and patch.mask is not None:
                touched[_part(self.box, both)] = patch.mask[_part(patch.box, both)]
        return float(np.count_nonzero(touched & self.mask) / np.count_nonzero(self.mask))


@frozen
class Place:
    """The pointer after a change."""

    seen: Seen | None
    """As it was seen last."""
    stirred: bool
    """Whether the change moved, hid or showed it."""


def _part(box: Box, both: Box) -> tuple[slice, slice]:
    return slice(both[1] - box[1], both[3] - box[1]), slice(both[0] - box[0], both[2] - box[0])


def hot_spot(mask: np.ndarray) -> tuple[float, float]:
    """The pixel of a pointer that clicks: the middle of a cross or a bar, the tip of an arrow or a hand."""
    turned = mask[::-1, ::-1]
    is_bar = mask.shape[1] < BAR * mask.shape[0]
    if is_bar or np.count_nonzero(mask & turned) >= SYMMETRIC * np.count_nonzero(mask | turned):
        return (mask.shape[1] - 1) / 2, (mask.shape[0] - 1) / 2
    top = mask[:2].any(0).nonzero()[0]
    return float(np.median(top)), 0.0


def _candidates(one: Sequence[Patch], other: Sequence[Patch]) -> list[tuple[Box, np.ndarray]]:
    found = []
    for first in one:
        for second in other:
            both = overlap(first.box, second.box)
            if both is None or first.mask is None or second.mask is None:
                continue
            mask = first.mask[_part(first.box, both)] & second.mask[_part(second.box, both)]
            if np.count_nonzero(mask) < LEAST_AREA:
                continue
            columns, rows = mask.any(0).nonzero()[0], mask.any(1).nonzero()[0]
            tight = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            height, width = tight.shape
            if LEAST_HEIGHT <= height <= MOST_SIDE and LEAST_WIDTH <= width <= MOST_SIDE:
                left, top = both[0] + int(columns[0]), both[1] + int(rows[0])
                found.append(((left, top, left + width, top + height), tight))
    return found


def track(found: Sequence[Change]) -> list[Place]:
    """Where the pointer is after each change."""
    places: list[Place] = []
    last: Seen | None = None
    stray: Seen | None = None
    lost = True
    areas: list[int] = []
    for number, change in enumerate(found):
        rests = change.share > 0.25 or (not lost and last is not None and last.share_changed(change.patches) < LEFT)
        usual = float(np.median(areas[-15:])) if areas else 0.0
        seen = _seen(change, found[number + 1 : number + 1 + (1 if rests else AHEAD)], usual, last)
        if last is not None and not rests and not lost and (seen is None or seen.area < WHOLE * last.area):
            seen = last.moved_on(change, seen)
        if rests:
            # A pointer that goes about elsewhere shows that the one taken for it is something else.
            away = seen is not None and last is not None and seen.area >= WHOLE * usual and seen.apart(last) > FAR
            if not away or seen is None or stray is None or seen.apart(stray) < LEAST_WIDTH:
                stray = seen if away else None
                places.append(Place(last, False))
                continue
        stray = None
        stirred = seen is not None or not lost
        lost = seen is None
        if seen is not None:
            last = seen
            areas.append(seen.area)
        places.append(Place(last, stirred))
    return places


def _seen(change: Change, later: Sequence[Change], usual: float, last: Seen | None) -> Seen | None:
    candidates: list[Seen] = []
    for each in later:
        near = each.frame == change.frame + 1
        more = [Seen.of(change.time, *found, adjacent=near) for found in _candidates(change.patches, each.patches)]
        candidates += [one for one in more if one.area >= (LITTLE if near else PART) * usual]
        if each.share > 0.25 or any(one.area >= WHOLE * usual for one in more):
            break
    if any(each.adjacent for each in candidates):
        candidates = [each for each in candidates if each.adjacent]
    most = max((each.area for each in candidates), default=0)
    whole = [each for each in candidates if each.area >= WHOLE * min(most, usual or most)]
    return min(whole, key=lambda each: 0.0 if last is None else each.apart(last), default=None)
