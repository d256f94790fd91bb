"""MLflow (https://mlflow.org). `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME` and its other variables hold."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from gce.domain.tracking import TrackedRun
from gce.errors import MissingExtra

__all__ = ["MlflowTracker"]

IDENTITY = "gce.identity"
"""The tag by which a resumed run is found again."""
_MOST = 100
"""Parameters in one request."""


class MlflowTracker:
    """The port `Tracker` as a run of MLflow."""

    def __init__(self) -> None:
        try:
            from mlflow import entities
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingExtra("mlflow", "mlflow") from error
        self._entities: Any = entities
        self._new_client: Any = MlflowClient
        self._client: Any = None
        self._run = ""

    def begin(self, run: TrackedRun) -> str:
        """See `gce.ports.tracker.Tracker`."""
        self._client = self._new_client()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "gce"
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        earlier = self._client.search_runs([experiment], f"tags.`{IDENTITY}` = '{run.identity}'", max_results=1)
        if earlier:
            self._run = earlier[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
        else:
            made = self._client.create_run(experiment, run_name=run.name, tags={IDENTITY: run.identity})
            self._run = made.info.run_id
            # A parameter cannot be changed later: those of a resumed run are those that it began with.
            params = [self._entities.Param(name, str(value)) for name, value in run.settings.items()]
            for start in range(0, len(params), _MOST):
                self._client.log_batch(self._run, params=params[start : start + _MOST])
        return f"experiment {name}, run {self._run} at {self._client.tracking_uri}"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `gce.ports.tracker.Tracker`."""
        now = time.time_ns() // 1_000_000
        metrics = [self._entities.Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def end(self, *, complete: bool) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._client.set_terminated(self._run, "FINISHED" if complete else "KILLED")
