"""Experiment trackers: where the numbers of a run are sent while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from gce.domain.tracking import TrackedRun

__all__ = ["Tracker"]


@runtime_checkable
class Tracker(Protocol):
    """Records one run: `begin`, any number of `log`, `end`, each called by one thread.

    It may raise whatever it likes: the run says so once, goes on, and calls the tracker no more.
    """

    def begin(self, run: TrackedRun) -> str:
        """Start recording, or go on with the record of this identity, where the tool allows it.

        Returns where the record can be seen, as a person would open it: a URL, a path or a command.
        """
        ...

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Record numbers of an iteration by name. A step may come again: of a number recorded twice, the last counts.

        Names are made of letters, digits, `_`, `-`, `.`, space and `/`.
        """
        ...

    def end(self, *, complete: bool) -> None:
        """Make durable what was logged; `complete` is False where the run was cut off and may be resumed."""
        ...
