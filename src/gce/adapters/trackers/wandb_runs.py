"""Weights & Biases (https://docs.wandb.ai). `WANDB_PROJECT`, `WANDB_MODE=offline` and its other variables hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gce.domain.tracking import TrackedRun
from gce.errors import MissingExtra

__all__ = ["WandbTracker"]


class WandbTracker:
    """The port `Tracker` as a run of wandb."""

    def __init__(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtra("wandb", "wandb") from error
        self._wandb: Any = wandb
        self._run: Any = None

    def begin(self, run: TrackedRun) -> str:
        """See `gce.ports.tracker.Tracker`."""
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "gce",
            name=run.name,
            id=run.identity,
            resume="allow",
            config=dict(run.settings),
            dir=run.folder or None,
            reinit="create_new",
            settings=self._wandb.Settings(console="off", silent=True),
        )
        # Steps of wandb's own only ever rise, but a resumed run may log an iteration again.
        self._run.define_metric("iteration", hidden=True)
        self._run.define_metric("*", step_metric="iteration")
        return f"wandb sync {os.path.dirname(self._run.dir)}" if self._run.offline else str(self._run.url)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._run.log({"iteration": step, **values})

    def end(self, *, complete: bool) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._run.finish(exit_code=0 if complete else 1)
