"""From names behind `--track` to experiment trackers, and the identity by which they know a run again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gce.adapters.runs.directory_store import DirectoryRuns
from gce.adapters.system.durable_files import write_file
from gce.adapters.trackers.mlflow_runs import MlflowTracker
from gce.adapters.trackers.tensorboard_files import TensorboardTracker
from gce.adapters.trackers.trackio_runs import TrackioTracker
from gce.adapters.trackers.wandb_runs import WandbTracker
from gce.app.options import ChoiceOrOwn
from gce.app.wiring.names import called, entry
from gce.errors import BadInput
from gce.ports.runs import Runs
from gce.ports.tracker import Tracker

__all__ = ["TRACKER", "TRACKERS", "TRACK_HELP", "find_tracker", "folder_of", "identity_of"]

TRACKERS: Mapping[str, Callable[[], Tracker]] = {
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
    "tensorboard": TensorboardTracker,
    "trackio": TrackioTracker,
}
"""By name, what makes one; MissingExtra where its package is not installed."""
TRACKER = ChoiceOrOwn(tuple(TRACKERS))
TRACK_HELP = f"log every iteration to an experiment tracker: {TRACKER.expected}"
_IDENTITY_FILE = "tracking_id"


def find_tracker(tracker: str | Tracker) -> Tracker:
    """A tracker by its name, or by module:ATTR of a function that makes one; one that is given itself is taken.

    Raises:
        BadInput: nothing of that name, or it is no tracker.
        MissingExtra: its package is not installed.
    """
    name, found = "track=...", tracker
    if isinstance(tracker, str):
        name = tracker
        build: Any = entry(tracker, TRACKERS, object, "tracker")
        found = called(tracker, build)
    if not isinstance(found, Tracker):
        raise BadInput(f"{name} is {type(found).__name__}, expected a tracker (see gce.ports.tracker)")
    return found


def folder_of(runs: Runs, name: str) -> str:
    """The directory of a run; empty for one that is kept elsewhere."""
    return name if isinstance(runs, DirectoryRuns) else ""


def identity_of(folder: str) -> str:
    """The identity of the run in this directory, 16 hexadecimal digits: made once, then read from its `tracking_id`.

    A run without a directory gets a new one each time.
    """
    path = Path(folder) / _IDENTITY_FILE
    if folder:
        try:
            kept = path.read_bytes()[:100].decode("ascii", "replace").strip()
        except OSError:
            kept = ""
        if len(kept) == 16 and set(kept) <= set("0123456789abcdef"):
            return kept
    made = blake2b(f"{os.path.abspath(folder)} {os.getpid()} {time.time_ns()}".encode(), digest_size=8).hexdigest()
    if folder:
        write_file(path, f"{made}\n".encode())
    return made
