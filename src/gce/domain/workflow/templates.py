"""Templates of the mouse pointer, learned from all of its movements, and where they are found in each frame.

What leaves one place and appears at another in the next frame may be a pointer: a glimpse. So may what is one small
region as it comes to rest or begins to move. Glimpses that agree where they changed are averaged. A template is made of
the pixels that stay the same in all of them, as the background does not, and needs glimpses at several places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from gce.domain.workflow.regions import MOST_SIDE, Box, Frame, Region, Shot, grown, meets, side, size

__all__ = ["LEAST_PIXELS", "Glimpse", "Seen", "Template", "follow", "glimpses", "is_beam", "learn", "resting", "tip_of"]

LEAST_PIXELS, LEAST_HEIGHT = 30, 10
MARGIN = 6
"""Pixels around a glimpse, and by which two of the same pointer are shifted at most."""
MOST_LIKELY, MOST_TEMPLATES = 8, 8
FEW = 3
"""Regions that change, at most, when a pointer comes to rest."""
CONTRAST = 40
"""Between the lightest and the darkest tenth of its pixels, at least."""
STEADY = 16
"""Standard deviation of a template's pixels in brightness at most."""
NEARER = (0.6, 0.8, 0.95)
"""Share of the pixels that are compared with one, two, and more glimpses."""
ALIKE = 14
"""Their mean difference in brightness, up to which two glimpses are of the same pointer."""
ELSEWHERE, ASIDE = 24, 3
"""Pixels between two places of a pointer, and in the other direction."""
REACH, START, BESIDE = 150, 80, 40
"""Pixels that a pointer moves in one frame at most, from rest, and within which it is found again after more."""
POINTS = 16
"""Pixels of a template that are compared first."""
ROUGHLY, NEARLY = 34, 20
"""Mean difference in brightness up to which those, and all, are the same."""


@frozen
class Seen:
    """A pointer in a frame."""

    box: Box
    tip: tuple[float, float]
    leaves: bool = False
    """Whether it was found only as it left."""


@frozen(eq=False)
class Glimpse:
    """What may be a pointer: a part of a frame, (height, width), with `MARGIN` pixels around what changed."""

    place: tuple[int, int]
    """Left and top of the changed pixels."""
    patch: Frame
    mask: NDArray[np.bool_]
    """Changed pixels of the patch."""


@frozen(eq=False)
class Template:
    """What a pointer looks like."""

    patch: NDArray[np.int16]
    mask: NDArray[np.bool_]
    tip: tuple[float, float]
    """From the left top corner of the patch."""
    points: NDArray[np.int64]
    """Rows and columns of the pixels that are compared first, (2, POINTS)."""


def glimpses(before: Frame, after: Frame, changed: Sequence[Region]) -> tuple[Glimpse, ...]:
    """What left one place and appeared at another between two frames, as it was at the first place."""
    likely = [each for each in changed[:MOST_LIKELY] if each.pixels >= LEAST_PIXELS and _is_size(each.box)]
    found = []
    for region in likely:
        old = _glimpse(before, after, region)
        if old is None:
            continue
        group = _Group(old)
        others = [_glimpse(after, before, other) for other in likely if other is not region]
        if any(new is not None and group.fit(new)[0] < ALIKE for new in others):
            found.append(old)
    return tuple(found)


def resting(window: Sequence[tuple[Frame, Sequence[Region]]]) -> tuple[Glimpse, ...]:
    """What comes to rest or begins to move slowly, given frames and what changed with each, in order of time.

    It is one small region: with the second frame, where the first changed and no later one does; or with the last frame
    but one, where none changed before and the last one does.
    """
    changed = [regions for _, regions in window]
    comes = _alone(changed[1], changed[0], changed[2:])
    goes = _alone(changed[-2], changed[-1], changed[:-2])
    found = [_glimpse(window[1][0], window[0][0], region) for region in comes]
    found += [_glimpse(window[-3][0], window[-2][0], region) for region in goes]
    return tuple(glimpse for glimpse in found if glimpse is not None)


def _alone(changed: Sequence[Region], beside: Sequence[Region], others: Sequence[Sequence[Region]]) -> list[Region]:
    """The regions, few and of a pointer's size, that meet one of the frame beside and none of the others."""
    if len(changed) > FEW:
        return []
    return [
        each
        for each in changed
        if each.pixels >= LEAST_PIXELS
        and _is_size(each.box)
        and any(meets(each.box, one.box) and side(one.box) <= 2 * MOST_SIDE for one in beside)
        and not any(meets(each.box, one.box, MARGIN) for regions in others for one in regions)
    ]


def _glimpse(frame: Frame, other: Frame, region: Region) -> Glimpse | None:
    """A glimpse of what a frame shows and another one does not; None for a background, which has less contrast."""
    left, top, right, bottom = grown(region.box, MARGIN)
    if region.mask is None or left < 0 or top < 0 or right > frame.shape[1] or bottom > frame.shape[0]:
        return None
    patch, mask = frame[top:bottom, left:right], np.pad(region.mask, MARGIN)
    contrast = _contrast(patch[mask])
    if contrast < CONTRAST or contrast < 0.8 * _contrast(other[top:bottom, left:right][mask]):
        return None
    return Glimpse(region.box[:2], patch.copy(), mask)


class _Group:
    """Glimpses of one pointer in one shape, laid over the first."""

    def __init__(self, first: Glimpse) -> None:
        self.places = list[tuple[int, int]]()
        self.sums: NDArray[np.float64] = np.zeros(first.patch.shape)
        self.squares, self.changed, self.count = self.sums.copy(), self.sums.copy(), self.sums.copy()
        self.add(first, 0, 0)

    def add(self, glimpse: Glimpse, dx: int, dy: int) -> None:
        """Add a glimpse whose corner is `dx`, `dy` from the first one's."""
        own, its = self._common(glimpse, dx, dy)
        part = glimpse.patch[its].astype(float)
        self.sums[own] += part
        self.squares[own] += part * part
        self.changed[own] += glimpse.mask[its]
        self.count[own] += 1
        self.places.append(glimpse.place)

    def fit(self, glimpse: Glimpse) -> tuple[float, int, int]:
        """How far a glimpse is from the mean in brightness, where either changed, at the best shift, and that shift.

        While a group has few glimpses, much of what changed is background: only the nearer pixels are compared.
        """
        core, mean = self._core(), self._mean()
        best = (255.0, 0, 0)
        height, width = mean.shape
        rows, columns = glimpse.patch.shape
        if abs(height - rows) > 2 * MARGIN or abs(width - columns) > 2 * MARGIN:
            return best
        least = 0.6 * min(np.count_nonzero(core), np.count_nonzero(glimpse.mask))
        for dy in range(1 - MARGIN, MARGIN):
            for dx in range(1 - MARGIN, MARGIN):
                own, its = self._common(glimpse, dx, dy)
                if np.count_nonzero(core[own] & glimpse.mask[its]) < least:
                    continue
                differences = np.abs(mean[own] - glimpse.patch[its])[core[own]]
                differences = np.sort(differences)[: int(NEARER[min(len(self.places), 3) - 1] * len(differences))]
                best = min(best, (float(differences.mean()), dx, dy))
        return best

    def _common(self, glimpse: Glimpse, dx: int, dy: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """The part that the group and a glimpse have in common, in each of them."""
        (height, width), (rows, columns) = self.sums.shape, glimpse.patch.shape
        own = (slice(max(dy, 0), min(height, rows + dy)), slice(max(dx, 0), min(width, columns + dx)))
        return own, (slice(own[0].start - dy, own[0].stop - dy), slice(own[1].start - dx, own[1].stop - dx))

    def _mean(self) -> NDArray[np.float64]:
        return self.sums / np.maximum(self.count, 1)

    def _core(self) -> NDArray[np.bool_]:
        return (self.changed >= 0.5 * self.count) & (self.count > 0) & (self._deviation() <= STEADY)

    def _deviation(self) -> NDArray[np.float64]:
        return np.sqrt(np.maximum(self.squares / np.maximum(self.count, 1) - self._mean() ** 2, 0))

    def template(self) -> Template | None:
        """The pixels that stay the same; None where there are too few places, pixels, or contrasts."""
        across = np.ptp(np.array(self.places), axis=0)
        # What keeps its column or row is a mark that follows the pointer through a list.
        if len(self.places) < 3 or max(across) < ELSEWHERE or min(across) < ASIDE:
            return None
        mean = self._mean()
        drawn = _filled((self.changed >= 0.3 * len(self.places)) & (self.count >= 0.6 * len(self.places)))
        steady = self._deviation() <= STEADY
        mask = drawn & steady
        if np.count_nonzero(mask) < LEAST_PIXELS:
            return None
        if _contrast(mean[mask]) < CONTRAST:
            # Its outline may be as bright as all that it moved over.
            mask = _thicker(drawn) & steady
            if _contrast(mean[mask]) < CONTRAST:
                return None
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        inside = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
        return _template(mean[inside], mask[inside])


def _contrast(pixels: NDArray[np.uint8] | NDArray[np.float64]) -> float:
    """How much brighter the lightest tenth is than the darkest."""
    low, high = np.percentile(pixels.astype(float), [10, 90])
    return float(high - low)


def _template(mean: NDArray[np.float64], mask: NDArray[np.bool_]) -> Template:
    patch = np.rint(mean).astype(np.int16)
    rows, columns = np.nonzero(mask)
    order = np.argsort(patch[rows, columns], kind="stable")
    spread = order[:: max(1, len(order) // (POINTS // 2))][: POINTS // 2]
    chosen = np.concatenate([spread, order[: POINTS // 4], order[-POINTS // 4 :]])
    return Template(patch, mask, tip_of(mask), np.array([rows[chosen], columns[chosen]]))


def learn(seen: Iterable[Glimpse]) -> tuple[Template, ...]:
    """Templates from the glimpses of a recording, those with the most glimpses first."""
    groups = list[_Group]()
    for glimpse in seen:
        fits = [(*group.fit(glimpse), n) for n, group in enumerate(groups)]
        difference, dx, dy, n = min(fits, default=(255.0, 0, 0, 0))
        if difference < ALIKE:
            groups[n].add(glimpse, dx, dy)
        else:
            groups.append(_Group(glimpse))
    groups.sort(key=lambda group: -len(group.places))
    made = [template for group in groups if (template := group.template()) is not None]
    return tuple(made[:MOST_TEMPLATES])


_Match = tuple[float, int, int, int]
"""Mean difference in brightness, number of the template, left and top."""


class _Follower:
    """Finds a pointer in frames in order of time.

    A movement is sure where a template is at one place before and at another one after, and both changed. What is lost
    is found again by a movement, or beside the place where it was lost.
    """

    def __init__(self, templates: Sequence[Template]) -> None:
        self._templates = list(templates)
        self._place: tuple[int, int] | None = None
        self.left: Seen | None = None
        """Where it was before, if it moved with the last frame from a place at which it had not been found."""
        self._missing = self._still = 0
        self._before: Frame | None = None

    def find(self, frame: Frame, changed: Sequence[Region]) -> Seen | None:
        """Where the pointer is; None where nothing is like it."""
        before, self._before = self._before, frame
        boxes = [each.box for each in changed if side(each.box) <= 4 * MOST_SIDE][: 2 * MOST_LIKELY]
        rests = self._place is not None and _difference(self._templates[0], frame, *self._place) < NEARLY
        found = self.left = None
        if boxes and before is not None and not (rests and any(meets(self._box(), each) for each in boxes)):
            found = self._movement(before, frame, boxes)
        if found is None and rests:
            self._missing = 0
            self._still += 1
            return self._seen()
        if found is None and self._place is not None:
            reach = grown(self._box(), BESIDE if self._missing else START if self._still > 1 else REACH)
            near = [each for each in boxes if meets(reach, each)]
            matches = (each for n in range(len(self._templates)) for each in self._matches(n, frame, near))
            found = min((each for each in matches if meets(reach, (*each[2:], *each[2:]), 1)), default=None)
        if found is None:
            self._missing += 1
            self._still = 0
            return None
        _, n, x, y = found
        self._missing, self._still, self._place = 0, 0, (x, y)
        self._templates.insert(0, self._templates.pop(n))
        return self._seen()

    def _movement(self, before: Frame, frame: Frame, boxes: Sequence[Box]) -> _Match | None:
        """The best match of a template in what changed that was none before, if another one was and is no more."""
        for n, template in enumerate(self._templates):
            there = [match for match in self._matches(n, frame, boxes) if _differs(template, before, match)]
            gone = (
                [match for match in self._matches(n, before, boxes) if _differs(template, frame, match)]
                if there
                else []
            )
            if self._still > 1:
                # A hand that rested does not jump.
                there = [match for match in there if meets(grown(self._box(), START), (*match[2:], *match[2:]), 1)]
            if there and gone:
                self.left = evolve(_seen(template, *min(gone)[2:]), leaves=True)
                return min(there)
        return None

    def _matches(self, n: int, frame: Frame, boxes: Sequence[Box]) -> list[_Match]:
        """Where a template is alike in and beside the boxes."""
        template = self._templates[n]
        height, width = template.mask.shape
        found = dict[tuple[int, int], float]()
        for box in boxes:
            left, top = max(box[0] - width, 0), max(box[1] - height, 0)
            right, bottom = min(box[2], frame.shape[1] - width), min(box[3], frame.shape[0] - height)
            if right <= left or bottom <= top:
                continue
            total = np.zeros((bottom - top, right - left), np.uint16)
            for row, column in template.points.T:
                part = frame[top + row : bottom + row, left + column : right + column]
                value = np.uint8(template.patch[row, column])
                total += np.maximum(part, value) - np.minimum(part, value)
            for y, x in np.argwhere(total < ROUGHLY * template.points.shape[1]):
                found[int(x) + left, int(y) + top] = float(total[y, x])
        likely = sorted(found, key=lambda corner: found[corner])[:40]
        matches = [(_difference(template, frame, x, y), n, x, y) for x, y in likely]
        return [each for each in matches if each[0] < NEARLY]

    def _box(self) -> Box:
        return self._seen().box

    def _seen(self) -> Seen:
        assert self._place is not None
        return _seen(self._templates[0], *self._place)


def _seen(template: Template, x: int, y: int) -> Seen:
    height, width = template.mask.shape
    return Seen((x, y, x + width, y + height), (x + template.tip[0], y + template.tip[1]))


def follow(
    shots: Iterable[Shot], changed: Sequence[Sequence[Region]], templates: Sequence[Template]
) -> list[Seen | None]:
    """Where the pointer is in each frame but the first, given the regions that each of them changed."""
    follower, found = _Follower(templates), list[Seen | None]()
    for number, shot in enumerate(shots):
        if 0 < number <= len(changed):
            found.append(follower.find(shot.frame, changed[number - 1]) if templates else None)
            if number > 1 and found[-2] is None:
                found[-2] = follower.left
    return found


def _is_size(box: Box) -> bool:
    width, height = size(box)
    return 4 <= width <= 1.3 * height and LEAST_HEIGHT <= height <= MOST_SIDE


def _difference(template: Template, frame: Frame, x: int, y: int) -> float:
    height, width = template.mask.shape
    part = frame[y : y + height, x : x + width]
    return float(np.abs(part - template.patch)[template.mask].mean()) if part.shape == template.mask.shape else 255.0


def _thicker(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask and the pixels beside it."""
    padded = np.pad(mask, 1)
    return np.asarray(padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:] | mask)


def _differs(template: Template, frame: Frame, match: _Match) -> bool:
    return _difference(template, frame, *match[2:]) > ROUGHLY


def _filled(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with all between the first and the last pixel of each row."""
    after = np.logical_or.accumulate(mask, axis=1)
    before = np.logical_or.accumulate(mask[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(after & before)


def is_beam(mask: NDArray[np.bool_]) -> bool:
    """Whether a pointer of these pixels is narrow and the same upside down, or wider and the same both ways."""
    height, width = mask.shape
    if width <= 0.5 * height:
        return _same(mask, mask[::-1]) > 0.5
    return min(_same(mask, mask[::-1]), _same(mask, mask[:, ::-1])) > 0.62 and width <= 0.66 * height


def _same(mask: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Share of the pixels of either mask that both have, from 0 to 1."""
    return int((mask & other).sum()) / max(int((mask | other).sum()), 1)


def tip_of(mask: NDArray[np.bool_]) -> tuple[float, float]:
    """The point of a pointer of these pixels that points, from their left top corner.

    A text beam points with its middle. Others point with their top: there, the middle of the pixels is an arrow's
    corner or a hand's finger.
    """
    height, width = mask.shape
    if is_beam(mask):
        return width / 2, height / 2
    columns = np.flatnonzero(mask[: max(2, height // 8)].any(axis=0))
    return (min(float(columns.mean()), 0.4 * width) if len(columns) else 0.1 * width), 1.0
