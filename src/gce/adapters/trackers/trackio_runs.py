"""Trackio (https://huggingface.co/docs/trackio). `TRACKIO_DIR`, `TRACKIO_SPACE_ID` and its other variables hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from gce.domain.tracking import TrackedRun
from gce.errors import MissingExtra

__all__ = ["TrackioTracker"]


class TrackioTracker:
    """The port `Tracker` as a run of trackio, which goes by its name. What trackio prints is dropped."""

    def __init__(self) -> None:
        try:
            import trackio
        except ImportError as error:
            raise MissingExtra("trackio", "trackio") from error
        self._trackio: Any = trackio
        self._run: Any = None

    def begin(self, run: TrackedRun) -> str:
        """See `gce.ports.tracker.Tracker`."""
        project = os.environ.get("TRACKIO_PROJECT") or "gce"
        name = f"{os.path.basename(run.name)}-{run.identity[:8]}"
        with redirect_stdout(StringIO()):
            self._run = self._trackio.init(
                project=project, name=name, config=dict(run.settings), resume="allow", embed=False
            )
        return f"trackio show --project {project}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `gce.ports.tracker.Tracker`."""
        with redirect_stdout(StringIO()):
            self._run.log(dict(values), step=step)

    def end(self, *, complete: bool) -> None:
        """See `gce.ports.tracker.Tracker`."""
        with redirect_stdout(StringIO()):
            self._trackio.finish()  # Its run's own `finish` would be called once more, aloud, as Python ends.
