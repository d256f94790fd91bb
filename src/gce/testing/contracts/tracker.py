"""What every experiment tracker must do: a check over the Tracker port, which runs without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gce.domain.tracking import TrackedRun
from gce.ports.tracker import Tracker

__all__ = ["check_tracker"]

Values = Mapping[str, Mapping[int, float]]
"""By name of the metric, then by step."""
SETTINGS: Mapping[str, str | int | float | bool] = {
    "model.name": "gce-tiny",
    "seed": 7,
    "optimizer.learning_rate": 0.25,
    "curriculum.ladder": True,
}


def check_tracker(make: Callable[[], Tracker], read: Callable[[], Values], folder: str) -> None:
    """Assert the docstring of `Tracker`: a run that is cut off, then resumed under its identity, is one record.

    Args:
        make: a new tracker that records where the others did.
        read: what was recorded, all in all.
        folder: an empty directory for the run's files.
    """
    run = TrackedRun("a run", "00c0ffee00c0ffee", folder, SETTINGS)
    tracker = make()
    place = tracker.begin(run)
    assert isinstance(place, str) and place and "\n" not in place, f"begin says where the record is, not {place!r}"
    tracker.log(1, {"train/solve_rate": 0.25, "train/solve_rate/T0": 0.125, "train/loss": 2.0})
    tracker.log(2, {"train/solve_rate": 0.5, "train/completions/mean length": 3})
    tracker.end(complete=False)

    resumed = make()
    resumed.begin(run)
    resumed.log(2, {"train/solve_rate": 0.75})
    resumed.log(3, {"train/solve_rate": 1.0, "test/accuracy.x-y": 0.5})
    resumed.log(3, {})
    resumed.end(complete=True)

    recorded = read()
    expected: Values = {
        "train/solve_rate": {1: 0.25, 2: 0.75, 3: 1.0},
        "train/solve_rate/T0": {1: 0.125},
        "train/loss": {1: 2.0},
        "train/completions/mean length": {2: 3.0},
        "test/accuracy.x-y": {3: 0.5},
    }
    found = {name: dict(recorded.get(name, {})) for name in expected}
    assert found == expected, found
