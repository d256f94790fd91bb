"""Run the conditions of a study with each seed, every run in its own directory.

Finished runs are never repeated, so a study can be continued later, and several processes may work on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from gce.app.notebook import tell, watch_of
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import changed, with_recipe
from gce.app.studies.conditions import STUDIES, check_common, check_stored, values_of
from gce.app.training.run import resume, train
from gce.app.wiring.files import check_apart
from gce.app.wiring.models import default_model, with_sampler_chosen
from gce.app.wiring.runs import open_run, runs_of
from gce.app.wiring.tasks import find_preset, find_task
from gce.domain.tasks import Task
from gce.errors import BadInput, RunInUse, SettingError
from gce.ports.executor import Executor

__all__ = ["PlannedRun", "check_begun", "plan_runs", "resolved", "run_all"]


@frozen
class PlannedRun:
    """A run that a study requires."""

    condition: str
    what: str
    """The condition in words."""
    seed: int
    settings: TrainSettings
    name: str
    """In its storage: for most, its directory."""
    task: Task | None = field(default=None, kw_only=True)
    """Where the name in the settings is not enough."""
    measure_before: bool = field(default=False, kw_only=True)
    """Whether the test is also taken before the first iteration."""

    @property
    def begun(self) -> bool:
        """True if there is such a run."""
        return self.name in runs_of(self.name).find(self.name)

    @property
    def done(self) -> bool:
        """True if the run has ended."""
        return runs_of(self.name).find(self.name).get(self.name, False)


def plan_runs(
    study: str,
    name: str,
    seeds: Sequence[int],
    conditions: Sequence[str],
    common: Mapping[str, Any],
    *,
    check: bool = True,
) -> list[PlannedRun]:
    """Return all runs of a study with these `common` settings, by seed; of all conditions if none is named.

    Existing runs may have other settings if `check` is false.

    Raises:
        BadInput: an unknown condition, settings that the conditions vary, or an existing run with other settings.
    """
    available = STUDIES[study]
    chosen = conditions or tuple(available)
    for condition in chosen:
        if condition not in available:
            raise BadInput(f"study {study} has no condition {condition!r}: choose from {', '.join(available)}")
    check_common(common, available)
    check_apart(Path(name))
    wanted = []
    for condition, seed in [(condition, seed) for seed in seeds for condition in chosen]:
        values = values_of(available[condition], common, seed)
        if values is None:
            tell(f"skipped: task {common.get('task')} has no variant for {condition}")
        else:
            place = f"{name}/{condition}/seed-{seed}"
            wanted.append(PlannedRun(condition, available[condition].what, seed, _settings(values), place))
    for run in wanted if check else ():
        check_begun(run)
    return wanted


def check_begun(run: PlannedRun) -> None:
    """A run that is there must be the one that is wanted; SettingError where it has other settings."""
    if run.begun:
        with open_run(run.name) as reader:
            check_stored(reader.config.get("settings", {}), run.settings, run.name)


def _settings(values: Mapping[str, Any]) -> TrainSettings:
    settings = with_recipe("gce", values)
    return resolved(settings, find_task(settings.task))


def resolved(settings: TrainSettings, task: Task) -> TrainSettings:
    """The settings as a run of this task stores them: with its model and preset named; SettingError for an adapter.

    Distribution shifts, which no table of a study shows, are measured only where that is asked for.
    """
    if settings.model.adapter:
        message = "the runs of a study start from the base model: leave out {model.adapter}"
        raise SettingError("model.adapter", "none", settings.model.adapter, message)
    settings = with_sampler_chosen(changed(settings, {"model.name": settings.model.name or default_model(task)}))
    if settings.evaluation.shifts is None and settings.evaluation.shift_problems:
        settings = changed(settings, {"evaluation.shifts": 0})
    return evolve(settings, preset=find_preset(task, settings.preset))


def run_all(wanted: Sequence[PlannedRun], executor: Executor) -> None:
    """Run what is not done and resume what was interrupted; skip runs that another process has open."""
    numbered = [(f"{number}/{len(wanted)}", run) for number, run in enumerate(wanted, 1)]
    for _ in executor.map(_run_one, numbered):
        pass


def _run_one(numbered: tuple[str, PlannedRun]) -> Sequence[None]:
    number, run = numbered
    if run.done:
        return ()
    tell(f"[{number}] {run.condition}, seed {run.seed}: {run.what}")
    before, begun = run.measure_before, run.begun
    try:
        if begun:
            changes = {"stopping.min_coverage": run.settings.stopping.min_coverage}
            resume(run.name, changes, task=run.task, measure_before=before, watch=watch_of(True))
        else:
            train(run.settings, task=run.task, run=run.name, measure_before=before, watch=watch_of(True))
    except BadInput as error:
        if not isinstance(error, RunInUse) and (begun or not run.begun):
            raise
        # Another process has the run open, or started it while this one loaded the model.
        tell(f"skipped, as another process runs it: {error}")
    return ()
