"""A recorded workflow as an environment: a model's actions beside the recorded ones.

What is asked is stated, step by step; the model has to find where on the screen it is. A page that comes is not asked
for, and neither is a text that could not be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from attrs import frozen

from gce.domain.workflow.steps import Box, Step, Workflow

__all__ = ["Replayed", "asked", "illegal", "most_actions", "replayed", "screen"]

WITHIN = 12
"""Pixels that a click may be beside the element."""
ALIKE = 0.8
"""Similarity from which on a typed text is the recorded one, which was read from pictures."""
_ACTION = re.compile(r"(?:click (-?[0-9]{1,5}) (-?[0-9]{1,5})|scroll (up|down)|type (\S.{0,199}))")
FORMS = "click X Y, type TEXT, scroll up or scroll down"


@frozen
class Replayed:
    """How far actions came."""

    done: int
    """Steps."""
    right: bool
    """Whether the last action was a step."""
    over: bool


def asked(workflow: Workflow) -> tuple[Step, ...]:
    """The steps that actions can repeat."""
    return tuple(step for step in workflow.steps if step.kind in ("click", "scroll") or (step.kind == "type" and step.text))


def most_actions(workflow: Workflow) -> int:
    """Actions of an episode: half as many again as there are steps."""
    count = len(asked(workflow))
    return count + max(count // 2, 1)


def illegal(action: str) -> str:
    """What is wrong with an action; empty where it is one."""
    return "" if _ACTION.fullmatch(action.strip()) else f"Expected {FORMS}."


def replayed(workflow: Workflow, actions: Sequence[str]) -> Replayed:
    """Compare actions with the steps, in order; an action that is none is wrong."""
    steps, done, right = asked(workflow), 0, False
    most = most_actions(workflow)
    for action in actions[:most]:
        if done == len(steps):
            break
        right = _is(action, steps[done], workflow)
        done += right
    return Replayed(done, right, done == len(steps) or len(actions) >= most)


def _is(action: str, step: Step, workflow: Workflow) -> bool:
    found = _ACTION.fullmatch(action.strip())
    if found is None:
        return False
    x, y, way, text = found.groups()
    if step.kind == "click":
        x0, y0, x1, y1 = _target(step, workflow)
        return x is not None and x0 - WITHIN <= int(x) <= x1 + WITHIN and y0 - WITHIN <= int(y) <= y1 + WITHIN
    if step.kind == "scroll":
        return way == ("down" if step.amount > 0 else "up")
    return text is not None and SequenceMatcher(None, text, step.text, autojunk=False).ratio() >= ALIKE


def _target(step: Step, workflow: Workflow) -> Box:
    """The clicked element, or the point where only something larger changed."""
    x0, y0, x1, y1 = step.box
    if (x1 - x0) * (y1 - y0) * 20 > workflow.width * workflow.height:
        return round(step.x), round(step.y), round(step.x), round(step.y)
    return min(x0, round(step.x)), min(y0, round(step.y)), max(x1, round(step.x)), max(y1, round(step.y))


def screen(workflow: Workflow, found: Replayed) -> str:
    """What is asked, what there is on the screen, and how far it is."""
    steps = asked(workflow)
    clicks = [step for step in steps if step.kind == "click"]
    names = {id(step): f'"{step.text}"' if step.text else f"element {n}" for n, step in enumerate(clicks, 1)}
    pages = [step.time for step in workflow.steps if step.kind == "page"]
    now = steps[min(found.done, len(steps) - 1)].time if steps else 0.0
    here = [step for step in clicks if sum(page < step.time for page in pages) == sum(page < now for page in pages)]
    told = "\n".join(f"{n}. {_told(step, names)}" for n, step in enumerate(steps, 1))
    boxes = [(_target(step, workflow), names[id(step)]) for step in here]
    shown = "\n".join(
        f"{name}: left {x0}, top {y0}, right {x1}, bottom {y1}"
        for (x0, y0, x1, y1), name in sorted(dict.fromkeys(boxes), key=lambda each: (each[0][1], each[0][0]))
    )
    return (
        f"Repeat a recorded workflow on a screen of {workflow.width} x {workflow.height} pixels, one action a turn, "
        f"between <action> and </action>: {FORMS}.\n\nSteps:\n{told}\n\nOn the screen now:\n{shown or 'nothing to click'}"
        f"\n\nDone: {found.done} of {len(steps)}."
    )


def _told(step: Step, names: dict[int, str]) -> str:
    if step.kind == "click":
        return f"click on {names[id(step)]}"
    return f'type "{step.text}"' if step.kind == "type" else f"scroll {'down' if step.amount > 0 else 'up'}"
