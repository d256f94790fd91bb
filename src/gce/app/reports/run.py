"""What a report needs of one run, read once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import frozen

from gce.app.evaluation.baselines import best_of
from gce.app.evaluation.rewards import Rewards, from_stored
from gce.app.evaluation.scoring import stored_shares
from gce.app.evaluation.stored import iteration_records, stored_settings
from gce.app.settings.records import TrainSettings
from gce.app.transcripts import Sample, Transcript, sample_answers, stored_answers, transcripts_of
from gce.app.wiring.tasks import find_task
from gce.domain.measurements import Interval, IterationRecord
from gce.domain.tasks import ProblemSource, Task
from gce.ports.runs import RunReader

__all__ = ["ReportedRun", "Shares", "read_run"]

SAMPLED = 2
"""Answers of each moment, tier and outcome that a report shows."""
LAST_ROLLOUTS = 500
"""From which sample answers are chosen where no test was taken."""

Shares = Mapping[str, Interval]
"""Accuracy by tier."""


@frozen(slots=False)
class ReportedRun:
    """A run as far as it has come."""

    label: str
    """What the report calls it."""
    name: str
    settings: TrainSettings
    versions: Mapping[str, Any]
    records: Sequence[IterationRecord]
    evaluations: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] | None
    """None while it goes on."""
    answers: Sequence[Mapping[str, Any]]
    """To test problems at the end; of a run that goes on, the last rollouts."""
    card: Mapping[str, Any] | None
    """What `gce validity` measured."""
    sample: Sample
    """Of all its answers."""
    transcripts: Sequence[Transcript]
    """Of the sample."""

    @cached_property
    def task(self) -> Task:
        """The task, which is needed to draw problems again."""
        return find_task(self.settings.task)

    @cached_property
    def source(self) -> ProblemSource:
        """Draws its problems again."""
        return ProblemSource(self.task)

    @cached_property
    def tiers(self) -> tuple[str, ...]:
        """Names of the preset's tiers."""
        return tuple(tier.name for tier in self.task.tiers(self.settings.preset))

    def shares(self, what: str) -> Shares:
        """Test accuracy `before` or `after`; before also of a run that goes on."""
        found = (self.summary or {}).get(what)
        if found is None and what == "before":
            found = next((each["tiers"] for each in self.evaluations), None)
        return stored_shares(found or {})

    @cached_property
    def rewards(self) -> Mapping[str, Rewards]:
        """Mean rewards `before` and `after`; empty where all are 0 or 1, or the run goes on."""
        found = (self.summary or {}).get("mean_reward", {})
        return {what: from_stored(found[what]) for what in ("before", "after") if found.get(what)}

    @cached_property
    def blind(self) -> Shares:
        """The best answer that ignores the problem, in each tier."""
        floors = (self.summary or {}).get("floors", {})
        return best_of({name: stored_shares(row) for name, row in floors.items()})


def read_run(run: RunReader, label: str) -> ReportedRun:
    """Read what a report needs."""
    settings = stored_settings(run)
    sample = sample_answers(stored_answers(run), seed=settings.seed, each=SAMPLED)
    return ReportedRun(
        label,
        run.name,
        settings,
        run.config.get("versions", {}),
        iteration_records(run),
        list(run.read("evaluations")),
        run.summary(),
        run.answers("test-after") or list(deque(run.read("rollouts"), maxlen=LAST_ROLLOUTS)),
        run.card(),
        sample,
        transcripts_of(run, sample.chosen),
    )
