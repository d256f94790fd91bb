"""The result of a run: what `gce.train` and `gce.resume` return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal

from attrs import frozen

from gce.app.answers import Answers
from gce.app.evaluation.scoring import stored_shares
from gce.app.evaluation.shifts import Distribution, stored_distribution
from gce.app.loaded_model import LoadedModel
from gce.app.settings.records import TrainSettings
from gce.app.shown import html_of, lines_of
from gce.app.training.records import result_parts
from gce.domain.forgetting import Forgetting
from gce.domain.measurements import Interval
from gce.domain.serialization import from_plain
from gce.domain.tasks import Task
from gce.errors import BadInput
from gce.ports.runs import RunReader, Runs

__all__ = ["Result"]


@frozen(eq=False, repr=False)
class Result:
    """The result of a run. Printing it shows the table at the end of `gce train` and where the run is kept."""

    name: str
    """The path of the run's directory; `memory` for a run in memory."""
    settings: TrainSettings
    model: LoadedModel
    """The model after the last iteration, as `gce.load_model` returns it: to talk to, evaluate and train further."""
    summary: Mapping[str, Any]
    """What `summary.json` holds: see docs/summary.md."""
    runs: Runs
    """Where the run is kept."""
    task: Task
    """The task that the model was trained on."""

    def __str__(self) -> str:
        return (
            "\n".join(lines_of(result_parts(self._tiers, self.summary, self.name))).strip("\n") + f"\nrun: {self.name}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of([*result_parts(self._tiers, self.summary, self.name), f"run: {self.name}"])

    @property
    def _tiers(self) -> tuple[str, ...]:
        return tuple(tier.name for tier in self.task.tiers(self.settings.preset))

    @property
    def before(self) -> dict[str, Interval]:
        """Greedy accuracy on test problems by tier before the first iteration; empty where it was not measured."""
        return stored_shares(self.summary["before"])

    @property
    def after(self) -> dict[str, Interval]:
        """The same after the last iteration."""
        return stored_shares(self.summary["after"])

    @property
    def shifts(self) -> dict[str, Distribution]:
        """Greedy accuracy on the task's distribution shifts after training, by what differs; empty if not measured."""
        return {what: stored_distribution(plain) for what, plain in self.summary.get("shifts", {}).items()}

    @property
    def forgetting(self) -> Forgetting | None:
        """Loss on English text and pass rates on `also_measure`, before and after; None if not measured."""
        plain = self.summary.get("forgetting")
        return None if plain is None else from_plain(Forgetting, plain)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of all parts of the run."""
        return float(self.summary["seconds"])

    def run(self) -> AbstractContextManager[RunReader]:
        """Open the run for reading, in a `with` statement.

        `read("rollouts")` yields every rollout, and `each_answer("test-before")` or `each_answer("test-after")` every
        answer to a test problem; `each_answer("shift-eleven-jobs")` those to the distribution shift of this name.
        """
        return self.runs.read(self.name)

    def answers(self, moment: Literal["before", "after"] = "after") -> Answers:
        """Answers to test problems `before` or `after` training, with prompts and verdicts."""
        if moment not in ("before", "after"):
            raise BadInput(f"expected answers of before or after, got {moment!r:.60}")

        def read() -> Iterator[dict[str, Any]]:
            with self.run() as run:
                yield from run.answers(f"test-{moment}")

        return Answers(read)
