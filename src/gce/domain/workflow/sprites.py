"""What the pointer looks like, learned while it moves, and where it is in a frame.

What one frame draws and the next one erases, as a small region of the same box, is a pointer. From then on it is found
by its look, whatever changes around it. A few looks are kept, as the pointer changes its shape.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from gce.domain.workflow.regions import Box, Frame, Region

__all__ = ["Looks", "Seen", "tip_of"]

LEAST_PIXELS, MOST_SIDE, LEAST_HEIGHT = 30, 60, 10
MOST_LOOKS = 6
REACH = 150
"""Pixels that a pointer moves in one frame at most."""
POINTS = 16
"""Pixels of a look that are compared first."""
ROUGHLY, NEARLY = 34, 20
"""Mean difference in brightness up to which those, and all, are the same."""


@frozen
class Seen:
    """A pointer in a frame."""

    box: Box
    tip: tuple[float, float]


@frozen(eq=False)
class _Look:
    patch: NDArray[np.int16]
    mask: NDArray[np.bool_]
    tip: tuple[float, float]
    """From the left top corner of the patch."""
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]


class Looks:
    """The looks of a pointer that is followed through frames in order of time."""

    def __init__(self) -> None:
        self._looks = list[_Look]()
        self._place: tuple[int, int] | None = None
        self._speed = (0, 0)
        self._missing, self._tried = 0, False
        self._recent = deque[Box](maxlen=24)  # what changed since it was seen

    def learn(
        self, frame: Frame, drawn: tuple[Region, ...], erased: tuple[Region, ...], older: tuple[Region, ...]
    ) -> None:
        """Learn from a frame, what it changed, what the next one changed, and what the one before it did."""
        for region in drawn[:12]:
            if region.mask is None or region.pixels < LEAST_PIXELS or not _is_size(region.box):
                continue
            same = [one for one in erased[:12] if _apart(one.box, region.box) <= 2]
            if same and len(erased) > 1 and not any(_apart(one.box, region.box) <= 6 for one in older):
                self._add(frame, region)

    def find(self, frame: Frame, changed: tuple[Region, ...]) -> Seen | None:
        """Where the pointer is; None where nothing looks like it."""
        if self._place is not None:
            for look in self._looks[:2]:
                if _difference(look, frame, *self._place) < NEARLY:
                    self._speed, self._missing = (0, 0), 0
                    self._recent.clear()
                    return self._seen(look, *self._place)
        self._recent.extend(each.box for each in changed if _side(each.box) <= 4 * MOST_SIDE)
        if not self._recent or (self._tried and not changed):
            return None
        self._tried = not changed
        best: tuple[float, int, int, int] | None = None
        for n, look in enumerate(self._looks):
            for x, y in self._candidates(look, frame):
                difference = _difference(look, frame, x, y)
                if difference < NEARLY and (best is None or difference < best[0]):
                    best = (difference, n, x, y)
            if best is not None and best[0] < NEARLY / 2:
                break
        if best is None:
            self._missing += 1
            return None
        _, n, x, y = best
        self._missing = 0
        self._recent.clear()
        if self._place is not None:
            self._speed = (x - self._place[0], y - self._place[1])
        self._place = (x, y)
        look = self._looks.pop(n)
        self._looks.insert(0, look)
        return self._seen(look, x, y)

    def _candidates(self, look: _Look, frame: Frame) -> list[tuple[int, int]]:
        """Corners near the last place, in what changed, where a few pixels are as those of a look."""
        height, width = look.mask.shape
        boxes = self._recent
        left, top = min(box[0] for box in boxes) - width, min(box[1] for box in boxes) - height
        right, bottom = max(box[2] for box in boxes), max(box[3] for box in boxes)
        if self._place is not None:
            reach = REACH * min(1 + self._missing, 4)
            x, y = self._place[0] + self._speed[0] // 2, self._place[1] + self._speed[1] // 2
            left, top = max(left, x - reach), max(top, y - reach)
            right, bottom = min(right, x + reach), min(bottom, y + reach)
        if (right - left) * (bottom - top) > 400_000:
            return []
        left, top = max(left, 0), max(top, 0)
        right, bottom = min(right, frame.shape[1] - width), min(bottom, frame.shape[0] - height)
        if right <= left or bottom <= top:
            return []
        total = np.zeros((bottom - top, right - left), np.uint16)
        for row, column in zip(look.rows, look.columns, strict=True):
            part = frame[top + row : bottom + row, left + column : right + column]
            value = np.uint8(look.patch[row, column])
            total += np.maximum(part, value) - np.minimum(part, value)
        good = np.argwhere(total < ROUGHLY * POINTS)
        if len(good) > 40:
            good = good[np.argsort(total[good[:, 0], good[:, 1]])[:40]]
        return [(int(x) + left, int(y) + top) for y, x in good]

    def _seen(self, look: _Look, x: int, y: int) -> Seen:
        height, width = look.mask.shape
        return Seen((x + 1, y + 1, x + width - 1, y + height - 1), (x + look.tip[0], y + look.tip[1]))

    def _add(self, frame: Frame, region: Region) -> None:
        left, top, right, bottom = region.box
        if left < 1 or top < 1 or right >= frame.shape[1] or bottom >= frame.shape[0]:
            return
        assert region.mask is not None
        mask = np.pad(_filled(region.mask), 1)
        grown = mask.copy()
        for axis in (0, 1):
            grown |= np.roll(mask, 1, axis) | np.roll(mask, -1, axis)
        patch = frame[top - 1 : bottom + 1, left - 1 : right + 1].astype(np.int16)
        if np.ptp(patch[grown]) < 60:
            return
        for look in self._looks:
            if look.mask.shape == grown.shape and np.abs(look.patch - patch)[grown].mean() < NEARLY:
                return
        rows, columns = np.nonzero(grown)
        order = np.argsort(patch[rows, columns], kind="stable")
        chosen = np.concatenate(
            [order[:: max(1, len(order) // (POINTS // 2))][: POINTS // 2], order[: POINTS // 4], order[-POINTS // 4 :]]
        )
        x, y = tip_of(region.mask)
        self._looks.insert(0, _Look(patch, grown, (x + 1, y + 1), rows[chosen], columns[chosen]))
        del self._looks[MOST_LOOKS:]


def _is_size(box: Box) -> bool:
    return 4 <= box[2] - box[0] <= MOST_SIDE and LEAST_HEIGHT <= box[3] - box[1] <= MOST_SIDE


def _side(box: Box) -> int:
    return max(box[2] - box[0], box[3] - box[1])


def _apart(first: Box, second: Box) -> int:
    return max(abs(a - b) for a, b in zip(first, second, strict=True))


def _difference(look: _Look, frame: Frame, x: int, y: int) -> float:
    height, width = look.mask.shape
    part = frame[y : y + height, x : x + width]
    return float(np.abs(part - look.patch)[look.mask].mean()) if part.shape == look.mask.shape else 255.0


def _filled(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with all between the first and the last pixel of each row."""
    after = np.logical_or.accumulate(mask, axis=1)
    before = np.logical_or.accumulate(mask[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(after & before)


def tip_of(mask: NDArray[np.bool_]) -> tuple[float, float]:
    """The point of a pointer of these pixels that points, from their left top corner.

    A text beam is narrow and the same upside down, and points with its middle. Others point with their top: there, the
    middle of the pixels is an arrow's corner or a hand's finger.
    """
    height, width = mask.shape
    either = int((mask | mask[::-1]).sum())
    same = int((mask & mask[::-1]).sum()) / max(either, 1)
    if same > (0.5 if width <= 0.5 * height else 0.66) and width <= 0.62 * height:
        return width / 2, height / 2
    columns = np.flatnonzero(mask[: max(2, height // 8)].any(axis=0))
    return (min(float(columns.mean()), 0.4 * width) if len(columns) else 0.1 * width), 1.0
