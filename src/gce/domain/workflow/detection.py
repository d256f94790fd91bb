"""From changes to steps: clicks, typing, scrolling and other pages.

A click is a change while the pointer rests, that begins where it points or is another page; what changes while it moves
is taken for an effect of hovering. Typing is a row of small changes that grows to the right. Places that change again
and again, such as carets, clocks and spinners, are no step. What is typed is read elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from gce.domain.workflow.changes import Box, Changes
from gce.domain.workflow.pointer import Track, meets, steady, track
from gce.domain.workflow.steps import Step

__all__ = ["detect"]

CALM = 0.34
"""Seconds without a large change after which the next one begins anew."""
NEW = 0.5
"""Share of the shapes that are others, from which a screen is another page."""
PRESS = 0.04
"""Seconds from a press to the first frame that shows its effect, on average."""
NEAR = 12
"""Pixels from the tip within which a change is at the pointer."""
MOST_GLYPH = 48
"""Pixels: the height and width of what one key changes at most, twice in width."""
PAUSE = 1.3
"""Seconds between two keys at most."""


@frozen(eq=False)
class _Frame:
    """A frame's changes that neither the pointer nor a blinking place explains."""

    t: int
    seconds: float
    boxes: tuple[Box, ...]
    pixels: int


def detect(found: Sequence[Changes], width: int, height: int) -> list[Step]:
    """The steps that changes of a recording of this size show, in order of time; typing without its text."""
    marked = steady(found, width, height)
    pointer = track(found, marked)
    scrolls = _scrolls(found)
    pages = _pages(found, (0, 0, width, height))
    rest = [
        _Frame(t, each.seconds, boxes, sum(each.regions[n].pixels for n in left))
        for t, each in enumerate(found)
        if not _during(each.seconds, scrolls, 0.25)
        and (left := [n for n in range(len(each.regions)) if n not in marked[t] and n not in pointer.own[t]])
        and (boxes := tuple(each.regions[n].box for n in left))
    ]
    typed, keys = _typing(rest)
    clicks = _clicks([each for each in rest if each.t not in keys], pages, pointer, found)
    return sorted([*scrolls, *pages, *typed, *clicks], key=lambda step: (step.start, step.kind))


def _during(seconds: float, steps: Sequence[Step], after: float) -> bool:
    return any(step.start <= seconds <= step.end + after for step in steps)


def _scrolls(found: Sequence[Changes]) -> list[Step]:
    """Frames that are shifted the same way, at most half a second apart."""
    steps = list[Step]()
    for each in found:
        if not each.shift:
            continue
        last = steps[-1] if steps else None
        if last is not None and each.seconds - last.end < 0.5 and last.distance * each.shift > 0 and last.box:
            box = _around([last.box, each.area])
            steps[-1] = evolve(last, end=each.seconds, distance=last.distance + each.shift, box=box)
        else:
            steps.append(Step("scroll", each.seconds, each.seconds, box=each.area, distance=float(each.shift)))
    return steps


def _around(boxes: Sequence[Box]) -> Box:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _pages(found: Sequence[Changes], screen: Box) -> list[Step]:
    """Frames in which most shapes are others, with the large changes after them."""
    steps = list[Step]()
    for each in found:
        last = steps[-1] if steps else None
        if last is not None and each.share > 0.005 and not each.shift and each.seconds - last.end < CALM:
            steps[-1] = evolve(last, end=each.seconds)
        elif each.new >= NEW:
            steps.append(Step("page", each.seconds, each.seconds, box=screen))
    return steps


def _typing(rest: Sequence[_Frame]) -> tuple[list[Step], set[int]]:
    """Runs of small changes along a line, or several; and the frames that they explain."""
    runs = list[list[tuple[_Frame, Box]]]()
    for each in rest:
        small = [box for box in each.boxes if box[3] - box[1] <= MOST_GLYPH and box[2] - box[0] <= 2 * MOST_GLYPH]
        if len(small) != len(each.boxes) or len(small) > 3:
            continue
        for box in small:
            run = next((run for run in reversed(runs) if _follows(run[-1][0], run[-1][1], each, box)), None)
            if run is not None:
                run.append((each, box))
            elif box[2] - box[0] <= MOST_GLYPH:
                runs.append([(each, box)])
    steps, keys = list[Step](), set[int]()
    for run in runs:
        places = {box[2] // 4 for _, box in run}
        if len(places) >= 3 and _grows([box for _, box in run]):
            steps.append(Step("type", run[0][0].seconds, run[-1][0].seconds, box=_around([box for _, box in run])))
            keys |= {each.t for each, _ in run}
    return steps, keys


def _follows(last: _Frame, before: Box, each: _Frame, box: Box) -> bool:
    """Whether a change can be the key after another one: beside it, or at the start of the next line."""
    if each.seconds - last.seconds > PAUSE:
        return False
    height = max(before[3] - before[1], box[3] - box[1])
    same_line = abs((box[1] + box[3]) - (before[1] + before[3])) < height
    if same_line:
        return box[0] - before[2] < height and before[0] - box[2] < height
    return 0 < box[1] - before[1] < 2.2 * height and box[0] < before[2]


def _grows(boxes: Sequence[Box]) -> bool:
    """Whether most changes are to the right of the one before, or on a later line."""
    steps = [(after[2] > before[2]) or (after[1] > before[3]) for before, after in zip(boxes, boxes[1:], strict=False)]
    return sum(steps) >= 0.5 * len(steps)


def _clicks(rest: Sequence[_Frame], pages: Sequence[Step], pointer: Track, found: Sequence[Changes]) -> list[Step]:
    """Changes at the tip of a pointer that rests, and what else begins a page."""
    steps = list[Step]()
    ended = -1.0
    for each in rest:
        begins = each.seconds - ended > CALM
        ended = each.seconds
        point = pointer.rests[each.t - 1] if each.t else None
        if not begins or point is None or _moves_at(pointer, found, each.t):
            continue
        place = (int(point[0]), int(point[1]), int(point[0]) + 1, int(point[1]) + 1)
        turns = any(abs(page.start - each.seconds) < 0.01 for page in pages)
        at = [box for box in each.boxes if meets(place, box, NEAR)]
        if not at and not turns and each.pixels < 400:
            continue
        seconds = max(0.0, each.seconds - (0.2 if turns else PRESS))
        box = min(at, key=lambda box: (box[2] - box[0]) * (box[3] - box[1]), default=each.boxes[0])
        steps.append(Step("click", round(seconds, 3), round(seconds, 3), point=point, box=box))
    return steps


def _moves_at(pointer: Track, found: Sequence[Changes], t: int) -> bool:
    """Whether the pointer moves with this frame, or did with the one before."""
    return pointer.moves[t] or pointer.moves[t - 1]
