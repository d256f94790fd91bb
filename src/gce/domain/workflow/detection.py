"""From pictures of a screen to the steps of whoever used it.

A click is a change at the pointer while it rests, typing is a line that grows to the right, scrolling is content that
moves up or down, and a new page is most of what was to be seen replaced. What changes while the pointer moves is what
it hovers over. A click that changes nothing, or something far away alone, leaves no trace at the pointer and is not seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import evolve, field, frozen

from gce.domain.workflow.changes import BLOCK, Change, Grey, Patch, around, changes, overlap
from gce.domain.workflow.pointer import Place, track
from gce.domain.workflow.steps import Box, Step

__all__ = ["detect"]

RESTS = 0.1
"""Seconds that the pointer has rested before a change counts as a click."""
SAME = 6
"""Pixels by which the sides of the same element differ at most."""
LAG = 0.1
"""Seconds from a click until the screen shows it, as a rule."""
LEAST_SIDE = 8
"""Pixels of the longer side of what a click changes."""
NEAR = 14
"""Pixels from the pointer within which a click changes something."""
ONE_CLICK = 0.55
"""Seconds in which changes at a resting pointer belong to one click: pressed, released, answered."""
AFTER_SCROLL = 0.35
"""Seconds after scrolling in which changes at the pointer are those of what came to lie under it."""
NEW_PAGE = 0.45
"""Share of what is to be seen that a new page replaces."""
ONE_PAGE, ONE_SCROLL = 0.8, 0.6
"""Seconds between changes that belong to one step."""
ANIMATED = 0.25
"""Share of all pictures in which a block changes that is part of an animation."""
CARET = 4
"""Widest caret, in pixels."""
CARET_KNOWN = 1.6
"""Seconds in which a blinking caret shows itself again."""
LINE = 52
"""Highest line of text, in pixels."""
LETTER = 64
"""Widest change by one letter, in pixels."""
PAUSE = 1.2
"""Longest pause between letters, in seconds."""
LETTERS = 3
"""Fewest letters of a typed text."""


@frozen
class _Typing:
    """A line that grows."""

    box: Box
    right: int
    begun: float
    last: float
    letters: int
    members: tuple[tuple[float, Patch], ...] = field(repr=False)

    def grown(self, time: float, patch: Patch) -> _Typing | None:
        """With one more letter; None where the patch is not the next one."""
        x0, y0, x1, y1 = patch.box
        shared = min(y1, self.box[3]) - max(y0, self.box[1])
        if not 0 < time - self.last <= PAUSE or shared < 0.4 * min(y1 - y0, self.box[3] - self.box[1]):
            return None
        if self.letters == 1 and self.box[0] - 8 <= x0 <= self.box[0] + 24 and x1 <= self.right:
            # The first letter made a placeholder go.
            return evolve(self, right=x1, last=time, letters=2, members=(*self.members, (time, patch)))
        if not self.right - 24 <= x0 <= self.right + 24 or x1 <= self.right - 2:
            return None
        box = min(self.box[0], x0), min(self.box[1], y0), max(self.box[2], x1), max(self.box[3], y1)
        grows = x1 > self.right + 1
        return _Typing(
            box, max(self.right, x1), self.begun, time, self.letters + grows, (*self.members, (time, patch))
        )


def detect(frames: Iterable[tuple[float, Grey]]) -> tuple[Step, ...]:
    """The steps in pictures of one size with their times in seconds."""
    count = 0

    def counted() -> Iterable[tuple[float, Grey]]:
        nonlocal count
        for each in frames:
            count += 1
            yield each

    found = list(changes(counted()))
    found = _without_animations(found, count)
    pointer = track(found)
    typed, consumed = _typing(found, pointer)
    steps = [*_steps(found, pointer, consumed, typed), *typed]
    return tuple(sorted(steps, key=lambda step: (step.time, step.kind == "page")))


def _without_animations(found: Sequence[Change], count: int) -> list[Change]:
    """Changes less the patches that lie where the picture hardly ever rests."""
    often = Counter(
        block for change in found for block in {each for patch in change.patches for each in _blocks(patch.box)}
    )
    most = max(ANIMATED * count, 12)
    moving = {block for block, times in often.items() if times > most}
    kept = []
    for change in found:
        patches = tuple(
            patch
            for patch in change.patches
            if patch.mask is None or sum(each in moving for each in _blocks(patch.box)) * 2 < len(_blocks(patch.box))
        )
        if change.share < 0.25 and moving:
            patches = tuple(each for each in patches if each.mask is not None or not _mostly(each.box, moving))
        if patches:
            kept.append(evolve(change, patches=patches))
    return kept


def _mostly(box: Box, moving: set[tuple[int, int]]) -> bool:
    blocks = _blocks(box)
    return 2 * sum(each in moving for each in blocks) >= len(blocks)


def _blocks(box: Box) -> list[tuple[int, int]]:
    x0, y0, x1, y1 = (each // BLOCK for each in box)
    return [(y, x) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]


def _at(box: Box, x: float, y: float, margin: float) -> bool:
    return box[0] - margin <= x <= box[2] + margin and box[1] - margin <= y <= box[3] + margin


def _is_caret(patch: Patch) -> bool:
    return patch.width <= CARET and 8 <= patch.height <= LINE


def _typing(found: Sequence[Change], pointer: Sequence[Place]) -> tuple[list[Step], set[int]]:
    """Typed texts, and the identities of the patches that they consist of."""
    open_lines: list[_Typing] = []
    done: list[_Typing] = []
    for change, place in zip(found, pointer, strict=True):
        if change.shift or change.share > 0.04 or place.stirred:
            continue
        for patch in change.patches:
            if patch.height > LINE:
                continue
            for number, line in enumerate(open_lines):
                if (grown := line.grown(change.time, patch)) is not None and patch.width <= LETTER:
                    open_lines[number] = grown
                    break
            else:
                if not _is_caret(patch) and patch.width <= LETTER:
                    begun = _Typing(patch.box, patch.box[2], change.time, change.time, 1, ((change.time, patch),))
                    open_lines.append(begun)
        done += [line for line in open_lines if change.time - line.last > PAUSE]
        open_lines = [line for line in open_lines if change.time - line.last <= PAUSE]
    typed = [line for line in (*done, *open_lines) if line.letters >= LETTERS]
    consumed = {id(patch) for line in typed for _, patch in line.members}
    return [_typed(line, found, pointer) for line in typed], consumed


def _typed(line: _Typing, found: Sequence[Change], pointer: Sequence[Place]) -> Step:
    where = next((p.seen for p in reversed(pointer) if p.seen is not None and p.seen.time <= line.last), None)
    last = max(time for time, patch in line.members if not _is_caret(patch))
    read_at = last
    for change, place in zip(found, pointer, strict=True):
        if change.time <= line.last:
            continue
        if place.stirred and place.seen is not None and overlap(place.seen.box, line.box) is None:
            read_at = change.time
            break
        if change.replaced >= NEW_PAGE or change.shift:
            break
    x, y = (where.x, where.y) if where else (-1.0, -1.0)
    return Step("type", line.begun, last, x, y, line.box, read_at=read_at)


def _steps(
    found: Sequence[Change], pointer: Sequence[Place], consumed: set[int], typed: Sequence[Step]
) -> list[Step]:
    """Clicks, scrolling and new pages."""
    steps: list[Step] = []
    clicked = scrolled = paged = -9.0
    arrived = -9.0
    focused: list[Box] = []
    """What the last click changed: a field shows when a click elsewhere takes the focus from it."""
    carets: list[tuple[float, Box]] = []
    for change, place in zip(found, pointer, strict=True):
        time, where = change.time, place.seen
        if place.stirred:
            arrived = time
        rests = where is not None and not place.stirred and time - arrived >= RESTS
        x, y = (where.x, where.y) if where else (-1.0, -1.0)
        largest = around(change.patches)
        if change.shift:
            if time - scrolled <= ONE_SCROLL and steps and steps[-1].kind == "scroll":
                steps[-1] = evolve(steps[-1], end=time, amount=steps[-1].amount + change.shift)
            else:
                steps.append(Step("scroll", time, time, x, y, largest, amount=change.shift))
            scrolled = time
            continue
        near = [
            patch
            for patch in change.patches
            if id(patch) not in consumed
            and where is not None
            and _at(patch.box, x, y, NEAR)
            and not _is_caret(patch)
            and max(patch.width, patch.height) >= LEAST_SIDE
        ]
        is_page = change.replaced >= NEW_PAGE
        new_caret = _new_caret(change, carets, consumed, typed)
        carets = [
            *((t, box) for t, box in carets if time - t <= CARET_KNOWN),
            *((time, patch.box) for patch in change.patches if change.share < 0.05),
        ]
        left = [
            patch
            for patch in change.patches
            for box in focused
            if not _is_caret(patch) and max(map(abs, np.subtract(patch.box, box))) <= SAME
        ]
        if rests and (near or is_page or new_caret or left) and time - scrolled > AFTER_SCROLL:
            known = time - clicked <= ONE_CLICK or (is_page and not near and clicked > arrived)
            if not known:
                box = (near or new_caret or left or [Patch(largest, None)])[0].box
                focused = [box]
                begun = max(time - LAG, 0.0)
                steps.append(Step("click", begun, begun, x, y, box))
                clicked = time
        if is_page:
            if time - paged > ONE_PAGE:
                steps.append(Step("page", time, time, x, y, largest))
            paged = time
    return steps


def _new_caret(
    change: Change, carets: Sequence[tuple[float, Box]], consumed: set[int], typed: Sequence[Step]
) -> list[Patch]:
    """Carets that were not blinking there or on the same line before."""
    if change.share > 0.05:
        return []
    return [
        patch
        for patch in change.patches
        if _is_caret(patch)
        and id(patch) not in consumed
        and not any(_at(box, patch.box[0], patch.box[1] + patch.height / 2, 24) for _, box in carets)
        and not any(step.time <= change.time and _at(step.box, patch.box[0], patch.box[1] + 4, 24) for step in typed)
    ]
