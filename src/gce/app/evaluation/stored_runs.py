"""Read a run's stored settings, iterations and best iteration."""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.evaluation.scoring import stored_shares
from gce.app.settings.records import TrainSettings
from gce.app.settings.stored import from_stored
from gce.domain.measurements import Interval, IterationRecord
from gce.domain.serialization import from_plain
from gce.errors import BadInput
from gce.ports.runs import AnswerReader, RunReader, RunWriter

__all__ = ["base_of", "best_iteration", "iteration_records", "stored_settings"]


def stored_settings(run: AnswerReader) -> TrainSettings:
    """Return the settings of a `gce train` run, of this version or an earlier one; BadInput for any other run."""
    settings = run.config.get("settings")
    if not isinstance(settings, dict):
        raise BadInput(f"expected a run that gce train made in {run.name}, got another program's")
    return from_stored(settings)


def base_of(run: RunReader) -> str | None:
    """Return the name of the run's base model; None if another program made the run."""
    return stored_settings(run).model.name if "settings" in run.config else None


def iteration_records(run: RunReader | RunWriter) -> list[IterationRecord]:
    """Return all committed iterations, oldest first."""
    return [from_plain(IterationRecord, record) for record in run.read("iterations")]


def best_iteration(run: RunReader) -> int:
    """Return the iteration with the best mean accuracy on dev, as the loop does; the earlier one wins a tie.

    Raises:
        BadInput: the run has no evaluation on dev.
    """
    records = [record for record in run.read("iterations") if record.get("dev")]
    found: dict[int, Mapping[str, Interval]] = {each["iteration"]: stored_shares(each["dev"]) for each in records}
    if not found:
        raise BadInput(f"{run.name} has no evaluation on dev, so no checkpoint is best", hint="leave out {checkpoint}")
    return max(found, key=lambda number: sum(each.share for each in found[number].values()) / len(found[number]))
