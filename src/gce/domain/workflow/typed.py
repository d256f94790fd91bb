"""Typing: rows of small changes that grow to the right, or to the left where a number is aligned to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from attrs import evolve

from gce.domain.workflow.evidence import Evidence, Frame
from gce.domain.workflow.regions import Box, area, around, meets, overlap
from gce.domain.workflow.steps import Step

__all__ = ["typed"]

MOST_GLYPH = 48
"""Pixels: the height and width of what one key changes at most, twice in width."""
NEAR = 12
"""Pixels within which two parts of the outline of a field are beside each other."""
FEW = 3
"""Regions that one key changes at most, as a rule."""
PAUSE, FASTEST, SLOWEST = 0.9, 0.07, 0.5
"""Seconds between two keys at most, and on average at least and at most: bars grow faster, or slowly all along."""
PLACES, PLACE = 3, 4
"""Ends of what is typed, at least, and the pixels that tell two apart."""
TRAIL, QUARTER = 0.65, 0.25
"""Share of a change that is common with the one before from which a thing moves, and takes its trail along; and the
quantile of a run, as letters are deleted, too."""

_Run = list[tuple[Frame, Box]]


def typed(evidence: Evidence) -> tuple[set[tuple[int, int]], list[Step]]:
    """What keys explain: all that changes in a frame with one, unless the place also changes by itself; typing."""
    runs = [
        (Step("type", run[0][0].seconds, run[-1][0].seconds, box=around(box for _, box in run)), run)
        for run in _runs(evidence)
        if _is_typed(run)
    ]
    alone = evidence.alone([*(step for step, _ in runs), *evidence.of("page")])
    runs = [(step, run) for step, run in runs if step.box and not alone.is_elsewhen(step.box, step.start)]
    keys = {(each.t, n) for _, run in runs for each, _ in run for n in each.regions}
    return keys, _in_one_place(step for step, _ in runs)


def _runs(evidence: Evidence) -> list[_Run]:
    """Small changes along a line, or several, while the pointer rests."""
    runs = list[_Run]()
    for each in evidence.left():
        if evidence.pointer.moves[each.t]:
            continue
        small = [box for box in each.boxes if box[3] - box[1] <= MOST_GLYPH and box[2] - box[0] <= 2 * MOST_GLYPH]
        alone = len(small) == len(each.boxes) <= FEW
        for box in small:
            glyph = box[2] - box[0] <= MOST_GLYPH
            run = next((run for run in reversed(runs) if _follows(run, each, box)), None)
            if run is not None and (glyph or len(each.boxes) <= FEW):
                run.append((each, box))
            elif run is None and glyph and (alone or (len(small) == 1 and _is_apart(box, each.boxes))):
                runs.append([(each, box)])
    return runs


def _is_typed(run: _Run) -> bool:
    """Whether a run has a person's pace and grows."""
    gaps = len({each.t for each, _ in run}) - 1
    boxes = [box for _, box in run]
    paced = FASTEST * gaps <= run[-1][0].seconds - run[0][0].seconds <= SLOWEST * gaps
    return paced and (_grows(boxes) or _grows_left(boxes))


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


def _follows(run: _Run, each: Frame, box: Box) -> bool:
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
    shared = [overlap(before, after) for before, after in pairwise(boxes)]
    wide = right - left > 1.3 * min(box[3] - box[1] for box in boxes)
    places = {box[2] // PLACE for box in boxes}
    grows = len(places) >= PLACES and wide and sum(steps) >= 0.5 * len(steps) > sum(lines)
    return grows and float(np.quantile(shared, QUARTER)) < TRAIL


def _grows_left(boxes: Sequence[Box]) -> bool:
    """Whether a line grows to the left and its end stays, as of a number that is aligned to the right."""
    ends, places = [box[2] for box in boxes], {box[0] // PLACE for box in boxes}
    steps = [after[0] < before[0] for before, after in pairwise(boxes)]
    grown_by = max(box[0] for box in boxes) - boxes[-1][0]
    return len(places) >= PLACES and sum(steps) > 0.5 * len(steps) and 2 * (max(ends) - min(ends)) < grown_by
