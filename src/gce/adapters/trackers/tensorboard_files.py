"""TensorBoard event files, in the folder `tensorboard` of the run: `tensorboard --logdir RUN`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gce.domain.tracking import TrackedRun
from gce.errors import MissingExtra

__all__ = ["TensorboardTracker"]


class TensorboardTracker:
    """The port `Tracker` as event files; a resumed run adds a file, and TensorBoard shows both as one run."""

    def __init__(self) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError as error:
            raise MissingExtra("tensorboard", "tensorboard") from error
        self._events, self._summaries, self._new_writer = event_pb2, summary_pb2, EventFileWriter
        self._tensor = make_tensor_proto
        self._writer: Any = None

    def begin(self, run: TrackedRun) -> str:
        """See `gce.ports.tracker.Tracker`."""
        place = Path(run.folder) if run.folder else Path("runs") / f"{run.name}-{run.identity}"
        folder = place / "tensorboard"
        self._writer = self._new_writer(str(folder))
        rows = [f"| {name} | {value} |" for name, value in run.settings.items()]
        text = "\n".join(["| setting | value |", "| --- | --- |", *rows])
        kind = self._summaries.SummaryMetadata(plugin_data={"plugin_name": "text"}, data_class="DATA_CLASS_TENSOR")
        settings = self._summaries.Summary.Value(tag="settings", metadata=kind, tensor=self._tensor([text.encode()]))
        self._add(0, [settings])
        return f"tensorboard --logdir {place}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._add(step, [self._summaries.Summary.Value(tag=name, simple_value=value) for name, value in values.items()])

    def end(self, *, complete: bool) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._writer.close()

    def _add(self, step: int, values: list[Any]) -> None:
        summary = self._summaries.Summary(value=values)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()
