"""A tracker that keeps what it is told in memory: for tests, and for a look from a notebook."""

from __future__ import annotations

from collections.abc import Mapping

from gce.domain.tracking import TrackedRun

__all__ = ["MemoryTracker"]


class MemoryTracker:
    """The port `Tracker` in memory; `fails` names a method that raises RuntimeError."""

    def __init__(self, *, fails: str = "") -> None:
        self.runs: list[TrackedRun] = []
        self.values: dict[str, dict[int, float]] = {}
        """By name of the metric, then by step."""
        self.ended: list[bool] = []
        self.calls = 0
        self._fails = fails

    def begin(self, run: TrackedRun) -> str:
        """See `gce.ports.tracker.Tracker`."""
        self._called("begin")
        self.runs.append(run)
        return "in memory"

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._called("log")
        for name, value in values.items():
            self.values.setdefault(name, {})[step] = value

    def end(self, *, complete: bool) -> None:
        """See `gce.ports.tracker.Tracker`."""
        self._called("end")
        self.ended.append(complete)

    def _called(self, method: str) -> None:
        self.calls += 1
        if method == self._fails:
            raise RuntimeError(f"{method} failed")
