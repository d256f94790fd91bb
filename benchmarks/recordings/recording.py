"""The log that lies beside the video of a recording."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from gce.domain.serialization import from_plain, to_plain
from gce.domain.workflow.steps import Step

__all__ = ["Recording", "read_recordings", "write_log"]


@frozen
class Recording:
    """The truth about a recording."""

    size: tuple[int, int]
    """Width and height in pixels."""
    fps: int
    seconds: float
    cursor: str
    layout: str
    theme: str
    speed: float
    crf: int
    steps: tuple[Step, ...]
    silent: tuple[Step, ...]
    """Clicks after which nothing visible changes within 500 ms."""


def write_log(recording: Recording, folder: Path) -> None:
    """Write `log.json` into the folder of a recording."""
    (folder / "log.json").write_text(json.dumps(to_plain(recording), indent=1) + "\n", "utf-8")


def read_recordings(folder: Path) -> Iterator[tuple[Path, Recording]]:
    """Yield the video and the log of every recording in `folder`, by name.

    Raises:
        ValueError: a log is not of the format.
    """
    for log in sorted(folder.glob("*/log.json")):
        yield log.with_name("video.mp4"), from_plain(Recording, json.loads(log.read_text("utf-8")))
