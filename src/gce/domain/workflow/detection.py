"""From changes to steps: clicks, typing, scrolling and other pages.

Each changed region has one cause, the first of `CAUSES` that explains it. The wheel scrolls what the pointer rests in;
another page appears while the pointer rests. What blinks, and what also changes at other moments without the pointer,
changes by itself. What is left is clicked: a click is a change soon after the pointer has come to rest, where it
points, on the same line, or far away; what changes as it moves, or goes on changing as it comes to rest, is an effect
of hovering. What is typed is read elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import dist

import numpy as np
from attrs import evolve

from gce.domain.workflow.changes import Changes
from gce.domain.workflow.evidence import AWAY, MOST_BOXES, Background, Evidence, Frame, during, pixel
from gce.domain.workflow.pointer import track
from gce.domain.workflow.regions import MOST_SIDE, Box, area, around, meets, overlap, side
from gce.domain.workflow.steps import Step
from gce.domain.workflow.templates import Seen
from gce.domain.workflow.typed import typed

__all__ = ["CAUSES", "detect", "explained"]

CALM, BREAK, LONGEST = 0.34, 0.1, 1.2
"""Seconds without a change after which the next one begins anew, after a click and after others, and for how long one
goes on at most."""
NEW = 0.6
"""Share of the shapes that are others, from which a screen is another page."""
SMALL, LARGE = 0.005, 0.03
"""Share of the tiles that change while another page appears, and with which it begins to."""
SLOW, STILL = 4, 20
"""Pixels by which a pointer's tip moves in a frame before it rests, and by which it may differ where it rests."""
PRESS, BEFORE_PAGE, PRESSES = 0.04, 0.2, 0.3
"""Seconds from a press to the first frame that shows an effect, and to one that shows another page, on average; and
seconds of a change in which the pointer is pressed."""
LEAST_EFFECT, REMOTE = 25, 400
"""Pixels that a click changes at least, and where none of them is at the pointer."""
THIN = 3
"""Pixels: the width of a caret at most."""
OPENS = 40
"""Pixels from the top of what moves within which the pointer is on what opens."""
NEAR, ROW = 12, 300
"""Pixels from the tip within which a change is at the pointer; and to a mark on the line of the label that it is at."""
SOON = 0.35
"""Seconds before typing or scrolling in which what changes belongs to it."""
STARTS = 5
"""Frames in which a pointer leaves."""
LATE = 2.0
"""Seconds after which nobody clicks any more where the pointer has come to."""
AROUND, BIN, AGAIN = 3.0, 0.25, 7
"""Seconds before and after in which a place blinks that changes in so many bins of so many seconds."""

_Regions = set[tuple[int, int]]


def detect(found: Sequence[Changes], width: int, height: int) -> list[Step]:
    """The steps that changes of a recording of this size show, in order of time; typing without its text."""
    evidence = explained(found)
    typing = evidence.of("type")
    pages = [evolve(page, box=(0, 0, width, height)) for page in evidence.of("page")]
    pages = [page for page in pages if not during(page.start, typing, BREAK)]
    steps = [*pages, *typing, *evidence.of("scroll"), *_clicks(evidence)]
    return sorted(steps, key=lambda step: (step.start, step.kind))


def explained(found: Sequence[Changes]) -> Evidence:
    """What each of `CAUSES` explains of the changes of a recording, in order."""
    evidence = Evidence(found, track(found))
    for name, cause in CAUSES.items():
        evidence = evidence.explained(name, *cause(evidence))
    return evidence


def _moving(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    return {(t, n) for t, own in enumerate(evidence.pointer.own) for n in own}, []


def _blinking(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    """Places that change again and again: a caret, a clock, a spinner, a ticker."""
    few = [each for each in evidence.left() if len(each.regions) <= MOST_BOXES and not evidence.found[each.t].shift]
    changed = Background((each.seconds, box) for each in few for box in each.boxes)
    return {
        (each.t, n)
        for each in few
        for n, one in each.regions.items()
        if len(np.unique(changed.moments(one.box, each.seconds - AROUND, each.seconds + AROUND) // BIN)) >= AGAIN
    }, []


def _too_small(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    """Thin or faint changes, and those of the first frame, before which no pointer is known."""
    return {
        (each.t, n)
        for each in evidence.left()
        for n, one in each.regions.items()
        if not each.t or one.pixels < LEAST_EFFECT or one.box[2] - one.box[0] <= THIN
    }, []


def _scrolling(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    """Shifts the same way, at most half a second apart, of an area in which the pointer rests, as the wheel scrolls.

    A lone one counts only in an area that never shifts so without the pointer, as a list of messages does.
    """
    found, groups = evidence.found, list[list[int]]()
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
        below = _is_below(evidence, group[0], box, OPENS if len(group) == 1 else 0)
        (steps if below else others).append(step)
    steps = [step for step in steps if step.end > step.start or not any(_same_way(step, other) for other in others)]
    return {(each.t, n) for each in evidence.left() if during(each.seconds, steps, 0.25) for n in each.regions}, steps


def _is_below(evidence: Evidence, t: int, box: Box, opens: int) -> bool:
    """Whether a pointer rests in a box before and after a frame, below the first pixels of it; or none is known."""
    point, after = evidence.pointer.rests[t - 1] if t else None, _next(evidence.found, t)
    if point is None:
        return opens == 0
    if after is not None and dist(after.tip, point) > STILL:
        return False  # it moves on: rows light up and go out under it
    return not evidence.pointer.moves[t] and box[0] <= point[0] < box[2] and box[1] + opens <= point[1] < box[3]


def _same_way(step: Step, other: Step) -> bool:
    return step.distance * other.distance > 0 and overlap(step.box or (0, 0, 0, 0), other.box or (0, 0, 0, 0)) > 0.5


def _turning(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    """Pages: frames in which most shapes are others, with the large changes around them, while the pointer rests.

    They explain nothing: somebody may have clicked.
    """
    steps, starts = list[Step](), list[int]()
    start, end = 0, -1.0
    shares = np.array([each.share for each in evidence.found])
    for t, each in enumerate(evidence.found):
        # What a ticker or a film changes all the time is not counted.
        share = each.share - float(np.median(shares[max(0, t - 15) : t + 16]))
        if share < SMALL or each.shift:
            continue
        if each.seconds - end > CALM:
            start = 0
        if share >= LARGE and not start:
            start = t
        end = each.seconds
        if steps and each.seconds - steps[-1].end < CALM:
            steps[-1] = evolve(steps[-1], end=each.seconds)
        elif each.new >= NEW:
            start = start or t
            starts.append(start)
            steps.append(Step("page", evidence.found[start].seconds, each.seconds))
    scrolls = evidence.of("scroll")
    return set(), [
        page
        for t, page in zip(starts, steps, strict=True)
        if SOON <= page.start > evidence.pointer.came[t] + BREAK and not during(page.start, scrolls, SOON)
    ]


def _by_itself(evidence: Evidence) -> tuple[_Regions, list[Step]]:
    """Places that also change at other moments without the pointer."""
    alone = evidence.alone(evidence.of("page", "type"))
    return {
        (each.t, n)
        for each in evidence.left()
        for n, one in each.regions.items()
        if alone.is_elsewhen(one.box, each.seconds)
    }, []


CAUSES: Mapping[str, Callable[[Evidence], tuple[_Regions, list[Step]]]] = {
    "pointer": _moving,
    "blinking": _blinking,
    "too small": _too_small,
    "scrolling": _scrolling,
    "page": _turning,
    "typing": typed,
    "by itself": _by_itself,
}
"""In order: what an earlier one explains, a later one does not see."""


def _clicks(evidence: Evidence) -> list[Step]:
    """What is left without a cause, where a click explains it.

    Nobody clicks while typing or scrolling: such a change is the first key, or what the keys bring up.
    """
    itself = Counter[int]()
    for (t, n), cause in evidence.causes.items():
        itself[t] += evidence.found[t].regions[n].pixels if cause == "by itself" else 0
    clicks = list[Step]()
    began = ended = last = -CALM
    for burst in _bursts(evidence.left()):
        if burst[0].seconds - ended <= CALM and burst[0].seconds - began <= LONGEST:
            ended = burst[-1].seconds  # what the last click did
        elif (step := _clicked(evidence, burst, last, itself)) is not None:
            began, ended, last = burst[0].seconds, burst[-1].seconds, step.start
            clicks.append(step)
    busy = evidence.of("type", "scroll")
    return [click for click in clicks if not any(step.start - SOON <= click.start <= step.end for step in busy)]


def _bursts(frames: Sequence[Frame]) -> Iterator[list[Frame]]:
    """Frames that follow each other soon."""
    burst = list[Frame]()
    for each in frames:
        if burst and (each.seconds - burst[-1].seconds > BREAK or each.seconds - burst[0].seconds > LONGEST):
            yield burst
            burst = []
        burst.append(each)
    if burst:
        yield burst


def _clicked(evidence: Evidence, burst: Sequence[Frame], last: float, itself: Mapping[int, int]) -> Step | None:
    """The click of a burst, after the last one: at one of its first frames, if the pointer rests until then."""
    began, first = burst[0].seconds, burst[0].t
    if began - evidence.pointer.came[first] <= BREAK and evidence.found[first].share < LARGE:
        return None  # it hovers
    for each in burst:
        if each.seconds - began > PRESSES or _goes(evidence, each):
            return None
        box = _effect(evidence, each, last, itself[each.t])
        if box is not None and each.seconds >= SOON:
            turns = any(abs(page.start - each.seconds) < 0.01 for page in evidence.of("page"))
            seconds = round(max(0.0, each.seconds - (BEFORE_PAGE if turns else PRESS)), 3)
            return Step("click", seconds, seconds, point=evidence.pointer.rests[each.t - 1], box=box)
    return None


def _effect(evidence: Evidence, each: Frame, last: float, itself: int) -> Box | None:
    """What a click changes with a frame: at the tip of the pointer, or elsewhere soon after it has come there.

    `itself` are the pixels that change by themselves: what changes elsewhere with more of them does too. After a key,
    nothing is clicked until the pointer moves.
    """
    came, point = evidence.pointer.came[each.t], evidence.pointer.rests[each.t - 1]
    if any(came < step.end < each.seconds for step in evidence.of("type")):
        return None
    assert point is not None
    at = [box for box in each.boxes if meets(pixel(point), box, NEAR)]
    beside = [box for box in each.boxes if meets(pixel(point), box, ROW) and box[1] <= point[1] < box[3]]
    soon = last < came and each.seconds - came < LATE
    if at or (soon and (beside or sum(one.pixels for one in each.regions.values()) >= max(REMOTE, itself))):
        return min(at or beside, key=area, default=each.boxes[0])
    return None


def _goes(evidence: Evidence, each: Frame) -> bool:
    """Whether the pointer moves at a frame or one beside it, and so what changes may be an effect of hovering."""
    t, rests = each.t, evidence.pointer.rests
    before, after, large = rests[t - 1], _next(evidence.found, t), evidence.found[t].share >= LARGE
    if before is None or evidence.moved(t - 1) > (STILL if large else SLOW):
        return True
    if after is not None and dist(after.tip, before) > STILL:
        return True
    if after is None and evidence.moved(t) > SLOW and not large:
        return True
    # What is as small as a pointer, and under one that is elsewhere soon after, may be its start.
    soon = [rests[n] for n in range(t, min(t + STARTS, len(rests))) if evidence.pointer.moves[n]]
    small = all(side(box) <= MOST_SIDE for box in each.boxes)
    return small and any(tip is not None and dist(tip, before) > AWAY for tip in soon)


def _next(found: Sequence[Changes], t: int) -> Seen | None:
    """The pointer as it is seen at a frame, or the first time in the next three."""
    return next((each.pointer for each in found[t : t + 4] if each.pointer), None)
