"""Where the mouse pointer is at each change, also where no template of it is found.

From where a template was found last, it is followed by the regions that change as it moves: its place changes with the
frame that draws it there and with the one that draws it elsewhere. At rest it changes nothing, and stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from gce.domain.workflow.changes import REST, Changes
from gce.domain.workflow.regions import MOST_SIDE, Box, Region, apart, area, common, covered, grown, meets, side, size
from gce.domain.workflow.templates import LEAST_PIXELS, Seen, is_beam, tip_of

__all__ = ["Track", "track"]

LEAST_SIDE = 4
"""Pixels of a pointer's box."""
TOGETHER = 1.0
"""Seconds between a pointer's coming and the effects of a click there, at most."""
VANISHES = 6
"""Pixels by which the sides of the region that a pointer leaves differ from its box, at most."""
FEW_MOVED = 8
"""Regions of a frame in which a fast pointer is looked for."""
SAME = 3
"""Pixels by which the sides of a box differ that changes twice."""
DOUBT = 4
"""Frames in which a pointer appears again after a large change under it."""


@frozen(eq=False)
class Track:
    """Where the pointer was at each of the given changes."""

    boxes: tuple[Box | None, ...]
    """None until it first moves."""
    moves: tuple[bool, ...]
    """Whether it moved with that frame."""
    own: tuple[frozenset[int], ...]
    """Which of the regions of that frame it explains."""
    rests: tuple[tuple[float, float] | None, ...]
    """Its tip at that frame, in pixels, as well as the movements before and after tell."""
    came: tuple[float, ...]
    """When its tip had last moved before that frame, in seconds; -1 where it had not."""


def _could_be(box: Box) -> bool:
    width, height = size(box)
    return LEAST_SIDE <= width <= MOST_SIDE and 2 * LEAST_SIDE < height <= MOST_SIDE


def track(found: Sequence[Changes]) -> Track:
    """Follow the pointer through all changes."""
    found = _back_filled(found)
    pointer = _Pointer()
    boxes, moves, own = list[Box | None](), list[bool](), list[frozenset[int]]()
    for t, each in enumerate(found):
        here = _candidates(each)
        later = _candidates(found[t + 1]) if t + 1 < len(found) else {}
        earlier = _candidates(found[t - 1]) if t else {}
        if each.pointer is not None:
            moved, used = pointer.is_at(each.pointer.box, here)
        elif (chained := _chained(earlier, here, later)) is not None and pointer.is_elsewhere(here[chained[0]].box):
            moved, used = True, pointer.is_at(here[chained[1]].box, {n: here[n] for n in chained})[1]
        else:
            used = pointer.follow(here, {n: region.box for n, region in later.items()})
            moved = bool(used)
        boxes.append(pointer.place)
        moves.append(moved)
        own.append(used)
    tips = _tips(found, boxes, moves, own)
    came = [-1.0]
    for t, each in enumerate(found[:-1]):
        came.append(each.seconds if t and moves[t] and tips[t] != tips[t - 1] else came[-1])
    return Track(tuple(boxes), tuple(moves), tuple(own), tuple(tips), tuple(came))


def _back_filled(found: Sequence[Changes]) -> list[Changes]:
    """With the pointer where it is found again at rest, or as it leaves, from when it came there while it was lost."""
    filled, lost = list(found), 0
    for t, each in enumerate(found):
        if each.pointer is None:
            continue
        box = each.pointer.box
        later = [one.pointer for one in found[t + 1 : t + 1 + REST]]
        rests = len(later) == REST and all(one is not None and one.box == box for one in later)
        if rests or (each.pointer.leaves and not _touches(each, box)):
            touched = [n for n in range(lost, t) if _touches(found[n], box)]
            came = end = t
            for n in reversed(touched):
                if came < end and found[came].seconds - found[n].seconds > TOGETHER:
                    break
                came = n
            filled[came:end] = [evolve(one, pointer=each.pointer) for one in found[came:end]]
        lost = t + 1
    return filled


def _touches(each: Changes, box: Box) -> bool:
    """Whether something changes at a box that may be a pointer there, or react to it."""
    return any(meets(box, one.box) and side(one.box) <= 4 * MOST_SIDE for one in each.regions)


def _chained(earlier: dict[int, Region], here: dict[int, Region], later: dict[int, Region]) -> tuple[int, int] | None:
    """What appeared with the frame before, goes, and appears elsewhere, to go with the next frame: a fast pointer."""
    few = here if len(here) <= FEW_MOVED else {}
    small = [(n, one.box) for n, one in few.items() if _could_be(one.box) and one.pixels >= LEAST_PIXELS]
    came = [n for n, box in small if any(apart(box, one.box) <= SAME for one in earlier.values())]
    goes = [n for n, box in small if any(covered(box, one.box) > 0.8 for one in later.values())]
    pairs = [
        (_likeness(here[new].box, size(here[old].box)), old, new)
        for old in came
        for new in goes
        if min(abs(here[old].box[0] - here[new].box[0]), abs(here[old].box[1] - here[new].box[1])) > SAME
    ]
    likeness, old, new = min(pairs, default=(1.0, 0, 0))
    return (old, new) if likeness < 0.5 else None


def _candidates(each: Changes) -> dict[int, Region]:
    return {} if each.shift else dict(enumerate(each.regions))


class _Pointer:
    """The pointer as it is followed: its box, its mean size, and how many pixels it changes."""

    def __init__(self) -> None:
        self.place: Box | None = None
        self.size = (0.0, 0.0)
        self.pixels = 0.0
        self.still = 0
        self.doubt: Box | None = None
        self.speed = (0, 0)
        self.sure, self.changing = False, False

    def is_at(self, box: Box, here: dict[int, Region]) -> tuple[bool, frozenset[int]]:
        """Note where it is; whether it moved, and the regions that this explains."""
        before, self.place = self.place, box
        self.speed = (box[0] - before[0], box[1] - before[1]) if before is not None and self.sure else (0, 0)
        self.sure, self.changing = True, False
        moved = bool(here) and box != before
        self.size, self.still, self.doubt = size(box), 0 if moved else self.still + 1, None
        both = [each for each in (before, box) if each is not None]
        used = {
            n
            for n, one in here.items()
            if any(covered(one.box, grown(each, 3)) > 0.95 for each in both)
            or (
                moved and one.pixels < 3.2 * max(self.pixels, 60) and any(covered(each, one.box) > 0.5 for each in both)
            )
        }
        if moved and used:
            self.pixels = max(here[n].pixels for n in used)
        return moved, frozenset(used) if moved else frozenset()

    def is_elsewhere(self, box: Box) -> bool:
        """Whether it cannot have been in a box, as far as is known."""
        return self.place is None or not meets(self.place, box, MOST_SIDE)

    def follow(self, here: dict[int, Region], later: dict[int, Box]) -> frozenset[int]:
        """Go where the pointer goes with a frame; the regions that this explains, none where it does not move."""
        step = self._step(here, later) if here else None
        self.sure = self.sure and not here
        self.changing = self.changing and step is not None
        self.still += 1
        if step is None:
            if self.place is not None and self.still <= 3:
                over = [one.box for one in here.values() if covered(self.place, one.box) > 0.3]
                self.doubt = max(over, key=area, default=self.doubt)
            if self.still > DOUBT:
                self.doubt = None
            return frozenset()
        self.place, used, pixels = step
        self.still, self.doubt = 0, None
        width, height = size(self.place)
        self.size = (
            (0.7 * self.size[0] + 0.3 * width, 0.7 * self.size[1] + 0.3 * height) if self.pixels else (width, height)
        )
        self.pixels = 0.8 * self.pixels + 0.2 * pixels if self.pixels else pixels
        return used

    def _step(self, here: dict[int, Region], later: dict[int, Box]) -> tuple[Box, frozenset[int], float] | None:
        small = {n: one.box for n, one in here.items() if side(one.box) <= 2 * MOST_SIDE}
        place, usual = self.place, self.size
        if place is None:
            return None
        left = {
            n
            for n, box in small.items()
            if covered(place, box) > 0.5 and _is_one_or_two(box, usual) and here[n].pixels < 3.2 * self.pixels + 40
        }
        if not left and (reacting := self._reacting(here, small, left)) is not None:
            return reacting
        if not left:
            return self._found_again(here, small, later)
        others = [(n, box) for n, box in small.items() if n not in left and _could_be(box)]
        likely = [
            (_likeness(box, usual) + 0.002 * _distance(box, place) - 0.5 * _goes(box, later), n, box)
            for n, box in others
        ]
        merged = max(left, key=lambda n: area(small[n]))
        union = small[merged]
        if likely and (best := min(likely))[0] < 1.0 and area(union) < 1.8 * area(place):
            return best[2], frozenset(left | {best[1]}), here[best[1]].pixels
        if (reacting := self._reacting(here, small, left)) is not None:
            return reacting
        # Old and new place overlap.
        meeting = [common(union, box) for box in later.values() if meets(union, box)]
        fitting = [box for box in meeting if _could_be(box) and _likeness(box, usual) < 0.8]
        if fitting:
            return min(fitting, key=lambda box: _likeness(box, usual)), frozenset(left), self.pixels
        moved = _far_corner(place, union, usual)
        return (moved, frozenset(left), self.pixels) if _could_be(moved) else None

    def _reacting(
        self, here: dict[int, Region], small: dict[int, Box], left: set[int]
    ) -> tuple[Box, frozenset[int], float] | None:
        """Where a pointer goes that leaves its place for something that reacts to it, and changes its shape there.

        Both are one region, which is not of its size until it rests.
        """
        place = self.place
        assert place is not None
        if self.sure and any(apart(small[n], place) <= VANISHES for n in left):
            goal = (
                place[0] + self.speed[0],
                place[1] + self.speed[1],
                place[2] + self.speed[0],
                place[3] + self.speed[1],
            )
            reach = 1.5 * max(*map(abs, self.speed), MOST_SIDE)
        elif self.changing:
            goal, reach = place, 2.0 * VANISHES
        else:
            return None
        near = [
            n
            for n, box in small.items()
            if n not in left and here[n].pixels >= LEAST_PIXELS and meets(goal, box, round(reach))
        ]
        if not near:
            return None
        n = min(near, key=lambda n: (_distance(small[n], goal), n))
        self.changing = True
        return small[n], frozenset(left | {n}), self.pixels

    def _found_again(
        self, here: dict[int, Region], small: dict[int, Box], later: dict[int, Box]
    ) -> tuple[Box, frozenset[int], float] | None:
        """Beside a large change under it, where it was lost."""
        if self.doubt is None:
            return None
        near = [
            (_likeness(box, self.size), n)
            for n, box in small.items()
            if meets(self.doubt, box, 40) and _could_be(box) and _is_one_or_two(box, self.size)
            if 0.3 * self.pixels < here[n].pixels < 3.2 * self.pixels + 40
        ]
        if not near or min(near)[0] > 1.2:
            return None
        _, n = min(near)
        fitting = [box for by in later.values() if meets(small[n], by) and _could_be(box := common(small[n], by))]
        box = min(fitting, key=lambda box: _likeness(box, self.size), default=small[n])
        return box, frozenset({n}), self.pixels


def _is_one_or_two(box: Box, usual: tuple[float, float]) -> bool:
    """Whether no more than the old and the new place of a pointer of this size fit into a box."""
    width, height = size(box)
    return width <= 2.6 * usual[0] + 8 and height <= 2.6 * usual[1] + 8


def _likeness(box: Box, usual: tuple[float, float]) -> float:
    """How far the size of a box is from another, 0 for the same."""
    width, height = size(box)
    return abs(float(np.log(width / max(usual[0], 1)))) / 1.5 + abs(float(np.log(height / max(usual[1], 1))))


def _distance(box: Box, place: Box) -> float:
    return float(np.hypot(box[0] - place[0], box[1] - place[1]))


def _goes(box: Box, later: dict[int, Box]) -> bool:
    return any(covered(box, by) > 0.6 for by in later.values())


def _far_corner(place: Box, union: Box, usual: tuple[float, float]) -> Box:
    """The pointer's box at the end of a box around its old and new place that is farther from the old one."""
    width = min(round(usual[0]), union[2] - union[0])
    height = min(round(usual[1]), union[3] - union[1])
    left = union[2] - width if union[2] - place[2] > place[0] - union[0] else union[0]
    top = union[3] - height if union[3] - place[3] > place[1] - union[1] else union[1]
    return left, top, left + width, top + height


def _tips(
    found: Sequence[Changes], boxes: Sequence[Box | None], moves: Sequence[bool], own: Sequence[frozenset[int]]
) -> list[tuple[float, float] | None]:
    """The tip at each frame, at rest from the last movements before."""
    tips: list[tuple[float, float] | None] = [None] * len(found)
    moving = [t for t, each in enumerate(moves) if each]
    for number, t in enumerate(moving):
        end = moving[number + 1] if number + 1 < len(moving) else len(found)
        box = boxes[t]
        assert box is not None
        mask = _seen(found[t], own[t], box)
        before = moving[number - 1] if number else t
        earlier = boxes[before]
        assert earlier is not None
        beam = any(each is not None and is_beam(each) for each in (mask, _seen(found[before], own[before], earlier)))
        tips[t:end] = [_tip(box, mask, beam=beam)] * (end - t)
    last: Seen | None = None
    for t, each in enumerate(found):
        if each.pointer is not None:
            last = each.pointer
        elif moves[t]:
            last = None
        if last is not None:
            tips[t] = last.tip
    return tips


def _seen(each: Changes, own: frozenset[int], box: Box) -> NDArray[np.bool_] | None:
    """Which pixels of the pointer's box changed as it came to rest; None where that is not known."""
    ends = [each.regions[n] for n in own if covered(box, each.regions[n].box) > 0.8]
    region = min(ends, key=lambda region: area(region.box), default=None)
    if region is None or region.mask is None:
        return None
    left, top = region.box[:2]
    return region.mask[max(box[1] - top, 0) : box[3] - top, max(box[0] - left, 0) : box[2] - left]


def _tip(box: Box, mask: NDArray[np.bool_] | None, *, beam: bool) -> tuple[float, float]:
    """The point at which a pointer of this box points, in pixels."""
    left, top, right, bottom = box
    width, height = size(box)
    if beam:
        return (left + right) / 2, (top + bottom) / 2
    x, y = (0.12 * width, 1.0) if mask is None or mask.shape != (height, width) else tip_of(mask)
    return left + x, top + y
