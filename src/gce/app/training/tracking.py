"""A run that an experiment tracker follows: who watches the run is told as before, and the tracker too.

What a tracker raises never ends a run: it is said once, and the tracker is not called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define

from gce.app.evaluation.baselines import best_of
from gce.app.evaluation.scoring import stored_shares
from gce.app.evaluation.shifts import shift_slug
from gce.app.tables.summary import BEST_BLIND
from gce.app.training.records import stored_rewards
from gce.app.training.state import Watcher
from gce.domain.forgetting import Forgetting
from gce.domain.measurements import IterationRecord
from gce.domain.serialization import from_plain
from gce.domain.tracking import TrackedRun, forgetting_values, iteration_values, result_values
from gce.errors import one_line
from gce.ports.tracker import Tracker

__all__ = ["TrackedWatcher"]


@define
class TrackedWatcher:
    """Passes on what a watcher is told, and tells the tracker the numbers."""

    watcher: Watcher
    tracker: Tracker | None
    """None for nobody; so it is after it raised something."""

    def stage(self, name: str, total: int) -> Callable[[], None]:
        """See `gce.app.training.state.Watcher`."""
        return self.watcher.stage(name, total)

    def say(self, *lines: str) -> None:
        """See `gce.app.training.state.Watcher`."""
        self.watcher.say(*lines)

    def iteration(self, record: IterationRecord) -> None:
        """See `gce.app.training.state.Watcher`."""
        self.watcher.iteration(record)
        self._tell(lambda tracker: tracker.log(record.iteration, iteration_values(record)))

    @contextmanager
    def following(self, run: TrackedRun) -> Iterator[None]:
        """Begin to track the run, and end that when the block ends, however it does."""
        self._tell(lambda tracker: self.say(f"tracked: {tracker.begin(run)}"))
        try:
            yield
        except BaseException:
            self._tell(lambda tracker: tracker.end(complete=False))
            raise
        self._tell(lambda tracker: tracker.end(complete=True))

    def result(self, summary: Mapping[str, Any]) -> None:
        """Tell the tracker the accuracy, or reward, on test problems, baselines, shifts, and what was forgotten."""
        baselines = {name: stored_shares(row) for name, row in summary["floors"].items()}
        rows = {"accuracy_before": stored_shares(summary["before"]), "accuracy": stored_shares(summary["after"])}
        values = result_values({**rows, "prompt_blind": best_of(baselines)})
        rewards = stored_rewards(summary)
        names = {"before": "reward_before", "after": "reward", BEST_BLIND: "prompt_blind_reward"}
        values |= result_values({name: rewards[row] for row, name in names.items() if row in rewards})
        shifts = {shift_slug(what): stored_shares(each["tiers"]) for what, each in summary.get("shifts", {}).items()}
        values |= result_values(shifts, of="shift")
        if "forgetting" in summary:
            values |= forgetting_values(from_plain(Forgetting, summary["forgetting"]))
        self._tell(lambda tracker: tracker.log(summary["iterations"], values))

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        if self.tracker is None:
            return
        try:
            what(self.tracker)
        except Exception as error:  # It may be anybody's, and so may what it raises.
            self.tracker = None
            said = one_line(f"{type(error).__name__}: {error}")
            self.watcher.say(f"warning: the run continues without tracking: {said}")
