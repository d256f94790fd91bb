"""From a screen recording to its workflow: steps from grey pictures, then texts and pictures from coloured ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from gce.app.wiring.recordings import Video, jpeg, text_reader
from gce.domain.workflow.detection import detect
from gce.domain.workflow.steps import Box, Step, Workflow

__all__ = ["Recording", "read_recording"]

MOST_STEPS = 1000
"""Steps whose pictures and texts are read."""
MARGIN = 4
"""Pixels around a text that is read."""
SURE = 0.9
"""Certainty from which on a text is a label."""
LABEL = (420, 80)
"""Widest and highest element that may have a label, in pixels."""
BEFORE = 0.05
"""Seconds before a click at which its element is looked at."""


@frozen
class Recording:
    """A workflow, with a picture of each step."""

    workflow: Workflow
    pictures: tuple[bytes, ...]
    """JPEG files, one a step; none after `MOST_STEPS`."""
    reads: bool
    """Whether texts were read; the extra may not be installed."""


def read_recording(path: Path, *, text: bool = True) -> Recording:
    """Detect the steps of a video file, and read the texts in it.

    Raises:
        BadInput: it is no video that can be read, or too large.
        MissingExtra: what decodes videos is not installed.
    """
    video, size, end = Video(path), (0, 0), 0.0

    def greys() -> Any:
        nonlocal size, end
        for time, picture in video.greys():
            size, end = (picture.shape[1], picture.shape[0]), time
            yield time, picture

    steps = detect(greys())
    reader = text_reader() if text else None
    first = steps[:MOST_STEPS]
    # Decoded once more: which pictures are needed is known only now, and all of them would fill the memory.
    looks = sorted({_look(step) for step in first})
    wanted = dict(zip(looks, map(_kept(first, reader), looks, video.pictures(looks)), strict=False))
    found = [evolve(step, text=wanted[_look(step)][1].get(step.box, "")) for step in first if _look(step) in wanted]
    shown = tuple(wanted[_look(step)][0] for step in first if _look(step) in wanted)
    return Recording(Workflow(*size, end, (*found, *steps[len(found) :])), shown, reader is not None)


def _look(step: Step) -> float:
    return step.read_at if step.kind == "type" else max(step.time - BEFORE, 0.0) if step.kind == "click" else step.end


def _kept(
    steps: tuple[Step, ...], reader: Callable[[np.ndarray], tuple[str, float]] | None
) -> Callable[[float, np.ndarray], tuple[bytes, dict[Box, str]]]:
    """What is kept of a picture at a time: a small one, and the texts in the boxes of the steps that are read then."""

    def kept(time: float, picture: np.ndarray) -> tuple[bytes, dict[Box, str]]:
        texts = {step.box: _text(step, picture, reader) for step in steps if _look(step) == time and reader is not None}
        return jpeg(picture), texts

    return kept


def _text(step: Step, picture: np.ndarray, reader: Callable[[np.ndarray], tuple[str, float]] | None) -> str:
    x0, y0, x1, y1 = step.box
    is_label = step.kind == "click" and x1 - x0 <= LABEL[0] and y1 - y0 <= LABEL[1]
    if reader is None or not (step.kind == "type" or is_label):
        return ""
    part = picture[max(y0 - MARGIN, 0) : y1 + MARGIN, max(x0 - MARGIN, 0) : x1 + MARGIN]
    if min(part.shape[:2]) < 4:
        return ""
    text, sure = reader(np.ascontiguousarray(part))
    if step.kind == "type":
        return text.removesuffix("|").rstrip()  # The caret stands behind what was typed.
    return text if sure >= SURE else ""
