"""From changes to steps: clicks, typing, scrolling and other pages.

Each step of a person has a cause. A click is a change soon after the pointer has come to rest, where it points, on the
same line, or far away; what changes as it moves, or goes on changing as it comes to rest, is an effect of hovering.
The wheel scrolls what the pointer rests in. Another page appears while the pointer rests. Typing is a row of small
changes that grows to the right. What also changes at other moments without the pointer moves by itself, and carets,
clocks and spinners do: they are no step. What is typed is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import dist

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from gce.domain.workflow.changes import Changes
from gce.domain.workflow.pointer import Track, steady, track
from gce.domain.workflow.regions import MOST_SIDE, Box, Region, area, around, common, covered, grown, meets, side
from gce.domain.workflow.steps import Step
from gce.domain.workflow.templates import Seen

__all__ = ["detect"]

CALM, BREAK, LONGEST = 0.34, 0.1, 1.2
"""Seconds without a change after which the next one begins anew, after a click and after others, and for how long one
goes on at most."""
NEW = 0.6
"""Share of the shapes that are others, from which a screen is another page."""
SMALL, LARGE = 0.005, 0.03
"""Share of the tiles that change while another page appears, and with which it begins to."""
SLOW = 4
"""Pixels a frame that a pointer moves which is about to rest."""
PRESS, BEFORE_PAGE = 0.04, 0.2
"""Seconds from a press to the first frame that shows an effect, and to one that shows another page, on average."""
LEAST_EFFECT, REMOTE = 25, 400
"""Pixels that a click changes at least, and where none of them is at the pointer."""
THIN = 3
"""Pixels: the width of a caret at most."""
OPENS = 40
"""Pixels from the top of what moves within which the pointer is on what opens."""
STILL, ROUGHLY_STILL = 7, 20
"""Pixels by which the pointer's tip may differ where it rests, and where it is known roughly."""
NEAR = 12
"""Pixels from the tip within which a change is at the pointer."""
MOST_GLYPH = 48
"""Pixels: the height and width of what one key changes at most, twice in width."""
SOON = 0.35
"""Seconds before typing or scrolling in which what changes belongs to it."""
HOVER, LATELY = 10, 30
"""Frames after which a pointer that left a place has no effect there, and after which nobody clicks where it rests."""
MOST_BOXES = 16
"""Of a frame, that are remembered to tell what changes by itself."""
STARTS = 5
"""Frames in which a pointer leaves."""
ROW = 300
"""Pixels from the tip to a mark on the same line, whose label it points at."""
LATE = 2.0
"""Seconds after which nobody clicks any more where the pointer has come to."""
AWAY = 40
"""Pixels from a pointer beyond which it has no effect as it moves."""
HAND, SURELY = 0.2, 1.0
"""Seconds that a hand takes from the keys to the mouse, and after which what grows is typed, in spite of movements."""
AFTER_ACT = 1.0
"""Seconds after a key or another page in which it has effects."""
PAUSE, FASTEST, SLOWEST = 0.9, 0.07, 0.5
"""Seconds between two keys at most, and on average at least and at most: bars grow faster, or slowly all along."""
PLACES, PLACE = 3, 4
"""Ends of what is typed, at least, and the pixels that tell two apart."""
TRAIL, QUARTER = 0.65, 0.25
"""Share of a change that is common with the one before from which a thing moves, and takes its trail along; and the
quantile of a run, as letters are deleted, too."""


@frozen(eq=False)
class _Frame:
    """A frame's changes that neither the pointer nor a blinking place explains."""

    t: int
    seconds: float
    regions: tuple[Region, ...]

    @property
    def boxes(self) -> tuple[Box, ...]:
        return tuple(region.box for region in self.regions)


_Alone = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Seconds, and boxes (n, 4)."""


def detect(found: Sequence[Changes], width: int, height: int) -> list[Step]:
    """The steps that changes of a recording of this size show, in order of time; typing without its text."""
    marked = steady(found)
    pointer = track(found, marked)
    scrolls = _scrolls(found, pointer)
    rest = [
        _Frame(t, each.seconds, left)
        for t, each in enumerate(found)
        if t and not _during(each.seconds, scrolls, 0.25)  # before the first change, no pointer is known
        if (left := tuple(one for n, one in enumerate(each.regions) if _counts(one, n, marked[t] | pointer.own[t])))
    ]
    moves = [each.seconds for each, moves in zip(found, pointer.moves, strict=True) if moves]
    runs = [
        (step, frames)
        for step, frames in _typing(rest, pointer)
        if step.end - step.start > SURELY
        or not any(step.start - SOON < when < step.start or step.end < when < step.end + HAND for when in moves)
    ]
    turned = _pages(found, (0, 0, width, height))
    acts = [*(step for step, _ in runs), *(evolve(page, end=page.start) for _, page in turned)]
    alone = _alone([each for each in rest if not _during(each.seconds, acts, AFTER_ACT)], pointer)
    runs = [
        (step, frames) for step, frames in runs if step.box and not _elsewhen(step.box, step.start, alone, inside=True)
    ]
    typed = _in_one_place(step for step, _ in runs)
    keys = frozenset[int]().union(*(frames for _, frames in runs))
    rest = [each for each in rest if each.t not in keys]
    own = [tuple(one for one in each.regions if _by_itself(one.box, each, alone, pointer)) for each in rest]
    itself = {each.t: sum(one.pixels for one in gone) for each, gone in zip(rest, own, strict=True)}
    rest = [
        _Frame(each.t, each.seconds, left)
        for each, gone in zip(rest, own, strict=True)
        if (left := tuple(one for one in each.regions if one not in gone))
    ]
    moved = [-1.0, *_movements(pointer, found)]
    pages = [
        page
        for t, page in turned
        if page.start >= SOON and page.start - moved[t] > BREAK
        if not _during(page.start, typed, 0.1) and not _during(page.start, scrolls, SOON)
    ]
    clicks = _clicks(rest, pages, typed, pointer, found, itself)
    # Nobody clicks while typing or scrolling: such a change is the first key, or what the keys bring up.
    busy = [*typed, *scrolls]
    clicks = [click for click in clicks if not any(step.start - SOON <= click.start <= step.end for step in busy)]
    return sorted([*scrolls, *pages, *typed, *clicks], key=lambda step: (step.start, step.kind))


def _counts(region: Region, number: int, explained: frozenset[int]) -> bool:
    return number not in explained and region.pixels >= LEAST_EFFECT and region.box[2] - region.box[0] > THIN


def _during(seconds: float, steps: Sequence[Step], after: float) -> bool:
    return any(step.start <= seconds <= step.end + after for step in steps)


def _scrolls(found: Sequence[Changes], pointer: Track) -> list[Step]:
    """Shifts the same way, at most half a second apart, of an area in which the pointer rests, as the wheel scrolls.

    A lone one counts only in an area that never shifts so without the pointer, as a list of messages does.
    """
    groups = list[list[int]]()
    for t, each in enumerate(found):
        if each.shift:
            last = found[groups[-1][-1]] if groups else None
            if last is not None and each.seconds - last.seconds < 0.5 and last.shift * each.shift > 0:
                groups[-1].append(t)
            else:
                groups.append([t])
    steps, others = list[Step](), list[Step]()
    for group in groups:
        first, last, box = found[group[0]], found[group[-1]], around([found[t].area for t in group])
        distance = float(sum(found[t].shift for t in group))
        step = Step("scroll", first.seconds, last.seconds, box=box, distance=distance)
        below = _is_below(found, pointer, group[0], box, OPENS if len(group) == 1 else 0)
        (steps if below else others).append(step)
    return [step for step in steps if step.end > step.start or not any(_same_way(step, other) for other in others)]


def _is_below(found: Sequence[Changes], pointer: Track, t: int, box: Box, opens: int) -> bool:
    """Whether a pointer rests in a box before and after a frame, below the first pixels of it; or none is known."""
    point, after = pointer.rests[t - 1] if t else None, _next(found, t)
    if point is None:
        return opens == 0
    if after is not None and dist(after.tip, point) > ROUGHLY_STILL:
        return False  # it moves on: rows light up and go out under it
    return not pointer.moves[t] and box[0] <= point[0] < box[2] and box[1] + opens <= point[1] < box[3]


def _same_way(step: Step, other: Step) -> bool:
    return step.distance * other.distance > 0 and _alike(step.box or (0, 0, 0, 0), other.box or (0, 0, 0, 0))


def _alike(box: Box, other: Box) -> bool:
    """Whether two changes may be of one thing: they are about as large, and most of the smaller one is common."""
    shared = common(box, other)
    least = min(area(box), area(other))
    inside = max(shared[2] - shared[0], 0) * max(shared[3] - shared[1], 0)
    return max(area(box), area(other)) < 5 * least and inside > 0.5 * least


def _pages(found: Sequence[Changes], screen: Box) -> list[tuple[int, Step]]:
    """Frames in which most shapes are others, with the large changes around them; and the number of the first."""
    steps = list[tuple[int, Step]]()
    start, end = 0, -1.0
    shares = np.array([each.share for each in found])
    for t, each in enumerate(found):
        # What a ticker or a film changes all the time is not counted.
        share = each.share - float(np.median(shares[max(0, t - 15) : t + 16]))
        if share < SMALL or each.shift:
            continue
        if each.seconds - end > CALM:
            start = 0
        if share >= LARGE and not start:
            start = t
        end = each.seconds
        if steps and each.seconds - steps[-1][1].end < CALM:
            steps[-1] = steps[-1][0], evolve(steps[-1][1], end=each.seconds)
        elif each.new >= NEW:
            start = start or t
            steps.append((start, Step("page", found[start].seconds, each.seconds, box=screen)))
    return steps


def _typing(rest: Sequence[_Frame], pointer: Track) -> list[tuple[Step, frozenset[int]]]:
    """Runs of small changes along a line, or several, with the frames that each explains."""
    runs = list[list[tuple[_Frame, Box]]]()
    for each in rest:
        small = [box for box in each.boxes if box[3] - box[1] <= MOST_GLYPH and box[2] - box[0] <= 2 * MOST_GLYPH]
        if pointer.moves[each.t] or len(small) > 8:
            continue
        alone = len(small) == len(each.boxes) <= 3
        for box in small:
            run = next((run for run in reversed(runs) if _follows(run, each, box)), None)
            if run is not None:
                if len(each.boxes) <= 3 or box[2] - box[0] <= MOST_GLYPH:
                    run.append((each, box))
            elif box[2] - box[0] <= MOST_GLYPH and (alone or (len(small) == 1 and _is_apart(box, each.boxes))):
                runs.append([(each, box)])
    found = list[tuple[Step, frozenset[int]]]()
    for run in runs:
        start, end = run[0][0].seconds, run[-1][0].seconds
        gaps = len({each.t for each, _ in run}) - 1
        human = FASTEST * gaps <= end - start <= SLOWEST * gaps
        boxes = [box for _, box in run]
        if human and (_grows(boxes) or _grows_left(boxes)):
            keys = frozenset(each.t for each, box in run if len(each.boxes) <= 3 or box[2] - box[0] > 2 * THIN)
            found.append((Step("type", start, end, box=around(boxes)), keys))
    return found


def _in_one_place(runs: Iterable[Step]) -> list[Step]:
    """Typing, where runs at the same time are one: lines beside each other, or else the larger place."""
    steps = list[Step]()
    for step in sorted(runs, key=lambda run: run.start):
        last = steps[-1] if steps else None
        if last is None or step.start > last.end or step.box is None or last.box is None:
            steps.append(step)
            continue
        near = meets(last.box, step.box, MOST_GLYPH // 2)
        box = around([last.box, step.box]) if near else max(last.box, step.box, key=area)
        steps[-1] = evolve(last, end=max(last.end, step.end), box=box)
    return steps


def _is_apart(box: Box, boxes: Sequence[Box]) -> bool:
    """Whether nothing else of a frame is beside a box, as other parts of the outline of a field would be."""
    return not any(meets(box, other, NEAR) for other in boxes if other is not box)


def _follows(run: Sequence[tuple[_Frame, Box]], each: _Frame, box: Box) -> bool:
    """Whether a change can be the next key of a run: beside the last one, or at the start of the next line."""
    last, before = run[-1]
    if each.seconds - last.seconds > PAUSE:
        return False
    height = max(before[3] - before[1], box[3] - box[1])
    if abs((box[1] + box[3]) - (before[1] + before[3])) < 0.6 * height:
        return box[0] - before[2] < height and before[0] - box[2] < height
    first = min(one[0] for _, one in run)
    return 0.5 * height < box[1] - before[1] < 2.2 * height and abs(box[0] - first) < height


def _grows(boxes: Sequence[Box]) -> bool:
    """Whether a line grows to the right: most changes are to the right of the one before, or on a later line."""
    left, _, right, _ = around(boxes)
    lines = [after[1] > before[3] for before, after in pairwise(boxes)]
    steps = [line or after[2] > before[2] for line, (before, after) in zip(lines, pairwise(boxes), strict=True)]
    shared = [_shared(before, after) for before, after in pairwise(boxes)]
    wide = right - left > 1.3 * min(box[3] - box[1] for box in boxes)
    places = {box[2] // PLACE for box in boxes}
    grows = sum(steps) >= 0.5 * len(steps) > sum(lines)
    return len(places) >= PLACES and wide and grows and float(np.quantile(shared, QUARTER)) < TRAIL


def _grows_left(boxes: Sequence[Box]) -> bool:
    """Whether a line grows to the left and its end stays, as of a number that is aligned to the right."""
    ends, places = [box[2] for box in boxes], {box[0] // PLACE for box in boxes}
    steps = [after[0] < before[0] for before, after in pairwise(boxes)]
    grown_by = max(box[0] for box in boxes) - boxes[-1][0]
    return len(places) >= PLACES and sum(steps) > 0.5 * len(steps) and 2 * (max(ends) - min(ends)) < grown_by


def _shared(box: Box, other: Box) -> float:
    """Share of the smaller of two changes that is common, from 0 to 1."""
    return max(covered(box, other), covered(other, box))


def _alone(rest: Sequence[_Frame], pointer: Track) -> _Alone:
    """What changes away from a pointer that moves, or has rested for long."""
    alone = list[tuple[float, Box]]()
    for each in rest:
        recent = [t for t in range(max(each.t - LATELY, 0), each.t + 1) if pointer.rests[t] is not None]
        if not recent:
            continue
        if any(pointer.moves[t] for t in recent[-2:]) or not any(pointer.moves[t] for t in recent):
            alone += [
                (each.seconds, box)
                for box in each.boxes[:MOST_BOXES]
                if not any(meets(_pixel(pointer.rests[t]), box, AWAY) for t in recent[-HOVER:])
            ]
    boxes = np.array([box for _, box in alone], np.int64).reshape(-1, 4)
    return np.array([seconds for seconds, _ in alone]), boxes


def _by_itself(box: Box, each: _Frame, alone: _Alone, pointer: Track) -> bool:
    """Whether a place also changes at other moments without the pointer; around the pointer, the same place."""
    point = pointer.rests[each.t - 1]
    return _elsewhen(box, each.seconds, alone, inside=point is None or not meets(_pixel(point), box, NEAR))


def _elsewhen(box: Box, seconds: float, alone: _Alone, *, inside: bool) -> bool:
    """Whether a box, or what it is inside of, changes by itself at two other moments."""
    times, boxes = alone
    shared = (np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])).clip(0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    least, most = np.minimum(areas, area(box)), np.maximum(areas, area(box))
    same = (most < 5 * least) & (shared > 0.5 * least)
    moments = times[(same | inside & (shared > 0.8 * area(box))) & (abs(times - seconds) > 0.5)]
    return bool(len(moments)) and float(np.ptp(moments)) > 0.5


def _pixel(point: tuple[float, float] | None) -> Box:
    assert point is not None
    return int(point[0]), int(point[1]), int(point[0]) + 1, int(point[1]) + 1


def _goes(t: int, pointer: Track, found: Sequence[Changes]) -> bool:
    """Whether the pointer moves at a frame or one beside it, and so what changes may be an effect of hovering."""
    before, after = pointer.rests[t - 1], _next(found, t)
    large = found[t].share >= LARGE
    if before is None or _moved(t - 1, pointer) > (ROUGHLY_STILL if large else SLOW):
        return True
    if after is not None:
        return dist(after.tip, before) > (STILL if found[t - 1].pointer else ROUGHLY_STILL)
    return _moved(t, pointer) > STILL and not large


def _next(found: Sequence[Changes], t: int) -> Seen | None:
    """The pointer as it is seen at a frame, or the first time in the next three."""
    return next((each.pointer for each in found[t : t + 4] if each.pointer), None)


def _leaves(t: int, pointer: Track) -> bool:
    """Whether the pointer is elsewhere soon after a frame, so that what changes under it may be its start."""
    before = pointer.rests[t - 1]
    soon = [pointer.rests[n] for n in range(t, min(t + STARTS, len(pointer.rests))) if pointer.moves[n]]
    return before is not None and any(tip is not None and dist(tip, before) > AWAY for tip in soon)


def _moved(t: int, pointer: Track) -> float:
    """Pixels by which the pointer's tip moved with a frame."""
    before, after = pointer.rests[t - 1] if t else None, pointer.rests[t]
    return dist(before, after) if before and after and pointer.moves[t] else 0.0


def _clicks(
    rest: Sequence[_Frame],
    pages: Sequence[Step],
    typed: Sequence[Step],
    pointer: Track,
    found: Sequence[Changes],
    itself: Mapping[int, int],
) -> list[Step]:
    """Changes at the tip of a pointer that rests, elsewhere soon after it has come there, and other pages.

    `itself` are the pixels that change by themselves at each frame: what changes elsewhere with more of them does too.
    """
    steps = list[Step]()
    began = ended = -1.0
    used = clicked = False
    moved = _movements(pointer, found)
    last = -1.0  # click or key
    for each in rest:
        goes = _goes(each.t, pointer, found) or (
            all(side(box) <= MOST_SIDE for box in each.boxes) and _leaves(each.t, pointer)
        )
        came = moved[each.t - 1] if each.t else -1.0
        if each.seconds - ended > (CALM if clicked else BREAK) or each.seconds - began > LONGEST:
            hovers = each.seconds - came <= BREAK and found[each.t].share < LARGE
            began, used, clicked = each.seconds, hovers, False
        ended = each.seconds
        point = pointer.rests[each.t - 1] if each.t else None
        if used or each.seconds - began > 0.3 or each.seconds < SOON or point is None or goes:
            used = used or goes
            continue
        last = max([last, *(step.end for step in typed if step.end < each.seconds)])
        place = _pixel(point)
        turns = any(abs(page.start - each.seconds) < 0.01 for page in pages)
        at = [box for box in each.boxes if meets(place, box, NEAR)]
        # A pointer that looks as before has not changed itself.
        same = found[each.t - 1].pointer
        under = None if same is not None and found[each.t].pointer == same else pointer.boxes[each.t - 1]
        at = [box for box in at if under is None or covered(box, grown(under, 4)) < 0.9]
        beside = [box for box in each.boxes if meets(place, box, ROW) and box[1] <= point[1] < box[3]]
        beside = [box for box in beside if under is None or not meets(under, box, 4)]
        soon = came > last and each.seconds - came < LATE
        keys = any(step.end > came for step in typed if step.end < each.seconds)
        if (
            not turns
            and (keys or not at)
            and not (soon and (beside or sum(one.pixels for one in each.regions) >= max(REMOTE, itself[each.t])))
        ):
            continue
        used = clicked = True
        seconds = round(max(0.0, each.seconds - (BEFORE_PAGE if turns else PRESS)), 3)
        last = each.seconds
        box = min(at or beside, key=area, default=each.boxes[0])
        steps.append(Step("click", seconds, seconds, point=point, box=box))
    return steps


def _movements(pointer: Track, found: Sequence[Changes]) -> list[float]:
    """When the pointer's tip last moved, at each frame."""
    last, moved = -1.0, list[float]()
    for t, each in enumerate(found):
        if t and pointer.moves[t] and pointer.rests[t] != pointer.rests[t - 1]:
            last = each.seconds
        moved.append(last)
    return moved
