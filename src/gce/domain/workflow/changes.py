"""What changes from one frame of a recording to the next: small regions, scrolling, and other pages.

Knows nothing of steps. A frame is brightness alone, uint8 (height, width). Of a recording of any length, a few frames
are held, a few numbers a frame are kept, and some hundred glimpses of what may be the pointer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from gce.domain.workflow.regions import Box, Frame, Region, Shot
from gce.domain.workflow.templates import Glimpse, Seen, follow, glimpses, learn, resting

__all__ = ["REST", "Changes", "changes", "new_share", "observed", "shift_between"]

TILE = 8
LEAST, LEAST_KEY = 20, 48
"""By how much brightness changes at least, of 255: compression changes it by less as a rule; and in a key frame."""
MOST_GRAIN = 6
"""By how much film grain changes the brightness at most: a page turned dark, or shaded, changes it by more."""
LEAST_OF_TILE = 3
"""Changed pixels of a tile that count."""
MOST_REGIONS = 64
MOST_MASK = 72
"""Pixels: the pixels of a larger region are not kept."""
BURST = 0.03
"""Share of tiles from which a change may be scrolling."""
QUIET, NOTED = 0.005, 0.01
"""Share of tiles below which the screen is calm, and from which it may show another page."""
REST = 3
"""Frames in which what rests does not change."""
MOST_GLIMPSES = 400
"""From which templates are learned: those of the first minutes, as a rule."""
LONGEST_LOADING = 1.5
"""Seconds that a change to another page takes at most."""


@frozen(eq=False)
class Changes:
    """What changed from the frame before."""

    seconds: float
    share: float
    """Of the tiles, from 0 to 1."""
    regions: tuple[Region, ...]
    """The largest first, at most `MOST_REGIONS`."""
    shift: int = 0
    """Pixels by which the contents of `area` moved up: positive where somebody scrolls down."""
    area: Box = (0, 0, 0, 0)
    pointer: Seen | None = None
    """Where a template of the pointer is found."""
    glimpses: tuple[Glimpse, ...] = ()
    """Of frames shortly before it."""
    new: float = 0.0
    """Share of the shapes on the screen that are others than when it was calm; 0 where few tiles changed."""


def observed(shots: Callable[[], Iterable[Shot]]) -> list[Changes]:
    """What changed with each frame but the first, and where the pointer was; `shots` is called twice, once for each."""
    found = list(changes(shots()))
    templates = learn(glimpse for each in found for glimpse in each.glimpses)
    places = follow(shots(), [each.regions for each in found], templates)
    return [evolve(each, pointer=place, glimpses=()) for each, place in zip(found, places, strict=True)]


def changes(shots: Iterable[Shot]) -> Iterator[Changes]:
    """Yield what changed with each frame but the first, in order of time."""
    before: Shot | None = None
    window = deque[tuple[Frame, tuple[Region, ...]]](maxlen=REST + 2)
    calm, since = before, 0.0  # the last frame of a calm screen
    seen = 0
    shares = deque[float](maxlen=15)
    for shot in shots:
        height, width = (n // TILE * TILE for n in shot.frame.shape)
        shot = evolve(shot, frame=np.ascontiguousarray(shot.frame[:height, :width]))
        if before is not None and calm is not None and before.frame.shape == shot.frame.shape:
            found = _between(before.frame, shot)
            shares.append(found.share)
            if found.share < QUIET + float(np.median(shares)) or found.shift or shot.seconds - since > LONGEST_LOADING:
                calm, since = shot, shot.seconds
            elif found.share >= NOTED:
                found = evolve(found, new=new_share(calm.frame, shot.frame))
            window.append((shot.frame, () if found.shift else found.regions))
            if seen < MOST_GLIMPSES:
                some = glimpses(before.frame, *window[-1]) if found.share < BURST else ()
                some += resting(window) if len(window) == REST + 2 else ()
                found, seen = evolve(found, glimpses=some), seen + len(some)
            yield found
        else:
            calm, since = shot, shot.seconds
        before = shot


def _between(before: Frame, shot: Shot) -> Changes:
    seconds, after = shot.seconds, shot.frame
    difference = np.maximum(before, after) - np.minimum(before, after)
    mask = difference > (LEAST_KEY if shot.key else LEAST) + 4 * _noise(difference)
    tiles = _counts(mask) >= LEAST_OF_TILE
    share = float(tiles.mean())
    if not share:
        return Changes(seconds, 0.0, ())
    if share < BURST:
        return Changes(seconds, share, _regions(mask, tiles))
    area = _bounds(tiles)
    shift = shift_between(before, after, area)
    regions = _regions(mask, tiles) if share < 0.5 and not shift else (Region(area, int(mask.sum())),)
    return Changes(seconds, share, regions, shift, area if shift else (0, 0, 0, 0))


def _noise(difference: Frame) -> float:
    """What film grain changes most pixels by; 0 where half of them stay the same, or all of the screen changes."""
    middle = float(np.median(difference[::11, ::13]))
    return middle if middle <= MOST_GRAIN else 0.0


def _counts(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Changed pixels of each tile: eight bytes of a row are added as one number."""
    height, width = mask.shape
    words = mask.view(np.uint64).reshape(height // TILE, TILE, width // TILE).sum(axis=1)
    counts: NDArray[np.uint64] = (words * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return counts


def _bounds(tiles: NDArray[np.bool_]) -> Box:
    rows, columns = np.flatnonzero(tiles.any(axis=1)), np.flatnonzero(tiles.any(axis=0))
    return int(columns[0]) * TILE, int(rows[0]) * TILE, int(columns[-1] + 1) * TILE, int(rows[-1] + 1) * TILE


def _regions(mask: NDArray[np.bool_], tiles: NDArray[np.bool_]) -> tuple[Region, ...]:
    left_over = {(int(y), int(x)) for y, x in np.argwhere(tiles)}
    found = []
    while left_over:
        reached = [left_over.pop()]
        for y, x in reached:
            near = [(y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
            reached += (more := [each for each in near if each in left_over])
            left_over.difference_update(more)
        found.append(_region(mask, np.array(reached)))
    return tuple(sorted(found, key=lambda region: -region.pixels)[:MOST_REGIONS])


def _region(mask: NDArray[np.bool_], reached: NDArray[np.int64]) -> Region:
    (top, left), (bottom, right) = reached.min(axis=0) * TILE, (reached.max(axis=0) + 1) * TILE
    part = mask[top:bottom, left:right]
    if len(reached) * TILE * TILE < part.size:
        own = np.zeros((part.shape[0] // TILE, part.shape[1] // TILE), bool)
        own[tuple((reached - reached.min(axis=0)).T)] = True
        part = part & own.repeat(TILE, axis=0).repeat(TILE, axis=1)
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    part = part[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    x, y = int(left + columns[0]), int(top + rows[0])
    small = max(part.shape) <= MOST_MASK
    return Region((x, y, x + part.shape[1], y + part.shape[0]), int(part.sum()), part.copy() if small else None)


COLUMNS = 24
"""Strips of an area whose rows are compared."""
CANDIDATES = 6


def shift_between(before: Frame, after: Frame, area: Box) -> int:
    """By how many pixels the contents of an area moved up, 0 where they did not move.

    The best shifts by cross-correlation of the rows' edges are tried; one is taken that explains nearly all of the
    change.
    """
    left, top, right, bottom = area
    if bottom - top < 120 or right - left < 48:
        return 0
    first, second = (_strips(frame[top:bottom, left:right]) for frame in (before, after))
    edges = [np.diff(each, axis=0) for each in (first, second)]
    size = 2 * len(first)
    spectra = [np.fft.rfft(each, size, axis=0) for each in edges]
    scores = np.fft.irfft((spectra[0] * spectra[1].conj()).sum(axis=1), size)
    still = _error(first, second, 0)
    # The best apart from each other, as neighbours of a peak are high, too.
    found = list[tuple[float, int]]()
    for place in np.argsort(-scores)[: 8 * CANDIDATES]:
        shift = int(place) if place < size // 2 else int(place) - size
        if 0 < abs(shift) < 0.45 * len(first) and len(found) < CANDIDATES:
            found.append((_error(first, second, shift), shift))
    error, shift = min(found, default=(np.inf, 0))
    return shift if still > 1 and error < 0.4 * still else 0


def _strips(part: Frame) -> NDArray[np.float32]:
    """Mean brightness of each row in `COLUMNS` strips."""
    width = part.shape[1] // COLUMNS
    strips = part[:, : width * COLUMNS].reshape(part.shape[0], COLUMNS, width)
    means: NDArray[np.float32] = strips[:, :, :: max(1, width // 8)].mean(axis=2, dtype=np.float32)
    return means


def _error(first: NDArray[np.float32], second: NDArray[np.float32], shift: int) -> float:
    """Mean difference of the rows that both show if the contents moved up by `shift`, in the strips that changed."""
    moved = np.abs(first - second).mean(axis=0) > 0.5
    if not moved.any():
        return 0.0
    length = len(first) - abs(shift)
    a, b = (first[shift:], second[:length]) if shift >= 0 else (first[:length], second[-shift:])
    differences = np.abs(a[:, moved] - b[:, moved])
    # Where little is left to compare, agreement says less.
    return float(differences.mean()) * len(first) / (length + 0.1 * len(first))


BLOCK = 16


def new_share(before: Frame, after: Frame) -> float:
    """Share of the 16-pixel blocks with shapes, before or after, whose shapes are others, from 0 to 1.

    A shade over the page leaves the shapes under it.
    """
    first, second = _shapes(before), _shapes(after)
    either, both = _per_block(first | second), _per_block(first & second)
    shown = either >= 4
    return float((both[shown] < 0.5 * either[shown]).mean()) if shown.any() else 0.0


def _shapes(frame: Frame) -> NDArray[np.bool_]:
    """Pixels on an edge, at half of the resolution, with their neighbours."""
    small = frame[::2, ::2].astype(np.int16)
    down, right = (
        np.abs(np.diff(small, axis=0, append=small[-1:])),
        np.abs(np.diff(small, axis=1, append=small[:, -1:])),
    )
    return (down + right) > 16


def _per_block(marks: NDArray[np.bool_]) -> NDArray[np.int64]:
    size = BLOCK // 2
    height, width = marks.shape[0] // size, marks.shape[1] // size
    part = marks[: height * size, : width * size].reshape(height, size, width, size)
    counts: NDArray[np.int64] = part.sum(axis=(1, 3), dtype=np.int64)
    return counts
