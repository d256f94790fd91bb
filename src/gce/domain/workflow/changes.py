"""What changes from one picture of a recording to the next: patches of pixels, scrolling, new pages. Grey pictures alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from attrs import frozen

from gce.domain.workflow.steps import Box

__all__ = ["BLOCK", "Change", "Grey", "Patch", "around", "changes", "overlap", "vertical_shift"]

Grey = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
BLOCK = 8
"""Pixels on a side of the blocks in which changes are gathered."""
LEAST = 20
"""Grey levels by which a pixel has to change; compression changes it by less."""
LEAST_PIXELS = 6
LARGE = 0.05
"""Share of the picture from which on a change may be scrolling or a new page."""
MASKED = 65536
"""Pixels of the box of the largest patch whose pixels are kept."""
LIKELY = 6
"""Shifts that are tried pixel by pixel."""
TEXTURED = 24
"""Grey levels that a block has to span for anything to be there."""
BURST = 0.35
"""Seconds between pictures of one transition."""


@frozen(eq=False)
class Patch:
    """Changed pixels that lie together."""

    box: Box
    mask: np.ndarray | None
    """Which pixels of the box changed; None where it is too large to be a pointer."""

    @property
    def width(self) -> int:
        """In pixels."""
        return self.box[2] - self.box[0]

    @property
    def height(self) -> int:
        """In pixels."""
        return self.box[3] - self.box[1]


@frozen(eq=False)
class Change:
    """A picture that differs from the one before."""

    frame: int
    time: float
    patches: tuple[Patch, ...]
    share: float
    """Of the picture's blocks that changed."""
    shift: int = 0
    """Pixels that the content of the largest patch moved up by."""
    replaced: float = 0.0
    """Share of all blocks with something in them that are new since the transition began."""


def changes(frames: Iterable[tuple[float, Grey]]) -> Iterator[Change]:
    """The changes among pictures of one size with their times, in order."""
    before: Grey | None = None
    anchor: Grey | None = None
    anchored = -1.0
    for number, (time, frame) in enumerate(frames):
        height, width = (side - side % BLOCK for side in frame.shape)
        now = np.ascontiguousarray(frame[:height, :width])
        if before is None:
            before = now
            continue
        mask = np.maximum(now, before) - np.minimum(now, before) > LEAST
        rows = mask.view(np.uint64) != 0
        blocks = rows.reshape(height // BLOCK, BLOCK, -1).any(1)
        if blocks.any():
            share = float(blocks.mean())
            patches = _patches(blocks, mask, share)
            shift, replaced = 0, 0.0
            if share >= LARGE:
                if anchor is None or time - anchored > BURST:
                    anchor = before
                anchored = time
                shift = vertical_shift(before, now, around(patches)) if patches else 0
                if shift:
                    anchor = now
                else:
                    replaced = _replaced(anchor, now)
            if patches:
                yield Change(number, time, patches, share, shift, replaced)
        before = now


def around(patches: Sequence[Patch]) -> Box:
    """The smallest box around all patches."""
    left, top, right, bottom = zip(*(patch.box for patch in patches), strict=True)
    return min(left), min(top), max(right), max(bottom)


def overlap(one: Box, other: Box) -> Box | None:
    """What two boxes share."""
    found = max(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), min(one[3], other[3])
    return found if found[0] < found[2] and found[1] < found[3] else None


def _patches(blocks: np.ndarray, mask: np.ndarray, share: float) -> tuple[Patch, ...]:
    """Patches of blocks that touch; where much has changed, all is one."""
    if share > 0.25:
        return (Patch(_box_of(mask, 0, 0), None),)
    left = set(zip(*(side.tolist() for side in blocks.nonzero()), strict=True))
    found = []
    while left:
        edge = [left.pop()]
        y0 = y1 = edge[0][0]
        x0 = x1 = edge[0][1]
        while edge:
            y, x = edge.pop()
            y0, y1, x0, x1 = min(y0, y), max(y1, y), min(x0, x), max(x1, x)
            for near in [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]:
                if near in left:
                    left.remove(near)
                    edge.append(near)
        part = mask[y0 * BLOCK : (y1 + 1) * BLOCK, x0 * BLOCK : (x1 + 1) * BLOCK]
        if np.count_nonzero(part) >= LEAST_PIXELS:
            box = _box_of(part, x0 * BLOCK, y0 * BLOCK)
            small = (box[2] - box[0]) * (box[3] - box[1]) <= MASKED
            found.append(Patch(box, mask[box[1] : box[3], box[0] : box[2]].copy() if small else None))
    return tuple(found)


def _box_of(mask: np.ndarray, left: int, top: int) -> Box:
    columns, rows = mask.any(0).nonzero()[0], mask.any(1).nonzero()[0]
    return left + int(columns[0]), top + int(rows[0]), left + int(columns[-1]) + 1, top + int(rows[-1]) + 1


def vertical_shift(before: Grey, now: Grey, box: Box) -> int:
    """Pixels that the content of a box moved up by, negative for down; 0 where it did not move, or was replaced."""
    x0, y0, x1, y1 = box
    if y1 - y0 < 64 or x1 - x0 < 64:
        return 0
    width = (x1 - x0) - (x1 - x0) % 32
    old, new = (picture[y0:y1, x0 : x0 + width] for picture in (before, now))
    # Means of short pieces of lines find the shift; single pixels confirm it.
    old_means, new_means = (
        each.reshape(y1 - y0, width // 32, 32).mean(2, dtype=np.float32) for each in (old, new)
    )
    errors = {}
    for shift in range(1, int(0.75 * (y1 - y0))):
        errors[shift] = float(np.abs(old_means[shift:] - new_means[:-shift]).mean())
        errors[-shift] = float(np.abs(new_means[shift:] - old_means[:-shift]).mean())
    likely = sorted(errors, key=lambda each: (errors[each], abs(each)))[:LIKELY]
    return next((shift for shift in likely if _confirmed(old, new, shift)), 0)


def _confirmed(old: Grey, new: Grey, shift: int) -> bool:
    """Whether what has edges is found again, most of it, a shift further."""
    above, below = (old[shift:], new[:-shift]) if shift > 0 else (old[:shift], new[-shift:])
    edges = np.count_nonzero(_edges(above))
    apart = np.count_nonzero(np.maximum(above, below) - np.minimum(above, below) > 2 * LEAST)
    return edges >= 100 and 3 * edges > np.count_nonzero(_edges(old)) and apart <= 0.4 * edges


def _edges(picture: Grey) -> np.ndarray:
    return np.abs(np.diff(picture.astype(np.int16), axis=1)) > 2 * LEAST


def _replaced(before: Grey, now: Grey) -> float:
    """Share of the blocks with something in them, then or now, that are not as they were."""

    def spans(picture: Grey) -> tuple[np.ndarray, np.ndarray]:
        parts = picture.reshape(picture.shape[0] // BLOCK, BLOCK, picture.shape[1] // BLOCK, BLOCK)
        return parts.max((1, 3)).astype(int), parts.min((1, 3)).astype(int)

    apart = np.maximum(now, before) - np.minimum(now, before) > 2 * LEAST
    new = apart.reshape(apart.shape[0] // BLOCK, BLOCK, -1, BLOCK).any((1, 3))
    textured = np.zeros(new.shape, bool)
    for picture in (before, now):
        high, low = spans(picture)
        textured |= high - low >= TEXTURED
    return float(np.count_nonzero(new & textured) / max(np.count_nonzero(textured), 1))
