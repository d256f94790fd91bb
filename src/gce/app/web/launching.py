"""From what a client asked for to a job: a command of gce with its files. Every name has been checked before."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from gce.app.settings.checks import check_variants
from gce.app.settings.config_file import settings_toml
from gce.app.settings.records import TrainSettings
from gce.app.training.preparation import check_task
from gce.app.web.asks import AskModel, EvaluateModel, Offered, Train
from gce.app.web.jobs import JobRecord, Jobs
from gce.app.wiring.tasks import find_preset, find_task, find_tiers
from gce.domain.algorithms import ALGORITHMS
from gce.errors import BadInput, SettingError

__all__ = ["Launcher", "Taken"]

WORKER = "gce.app.web.worker"
SECONDS_OF_AN_ANSWER = 600.0


class Taken(BadInput):
    """A run of that name is there."""


@frozen
class Launcher:
    """Puts jobs into the queue."""

    jobs: Jobs
    offered: Offered

    def train(self, asked: Train, settings: TrainSettings, adapter: Path | None) -> JobRecord:
        """A training run, or an estimate of one.

        Raises:
            Taken: there is a run of that name.
            BadInput: a setting cannot be used.
        """
        if settings.model.adapter:
            message = "{model.adapter} is a path: give the id of a run instead"
            raise SettingError("model.adapter", "no path", settings.model.adapter, message)
        self.offered.check_settings(settings)
        task = find_task(settings.task)
        check_task(evolve(settings, preset=find_preset(task, settings.preset)), task)
        check_variants(settings, ALGORITHMS[settings.objective.algorithm])
        settings = evolve(settings, model=evolve(settings.model, adapter=_last(adapter)))
        files = {"run.toml": "\n".join(settings_toml(settings)) + "\n"}
        configured = ("train", "--config", "{job}/run.toml")
        if asked.dry_run:
            title = f"estimate of {asked.name}: {settings.task}" if asked.name else f"estimate: {settings.task}"
            return self.jobs.submit("dry-run", title, (*configured, "--dry-run"), planned=asked.name, files=files)
        busy = {job.run for job in self.jobs.each() if not self.jobs.status(job).is_over}

        def taken(name: str) -> bool:
            return name in busy or os.path.lexists(self.jobs.root / name)

        now = time.strftime("%Y%m%d-%H%M%S")
        name = asked.name or next(each for n in count() if not taken(each := f"{now}-{n}" if n else now))
        if taken(name):
            raise Taken(f"there is a run {name} already: give another name")
        folder = self.jobs.root / name
        arguments, again = (*configured, "--run-dir", str(folder)), ("train", "--run-dir", str(folder), "--resume")
        return self.jobs.submit("train", f"{name}: {settings.task}", arguments, again=again, run=name, files=files)

    def of_run(self, folder: Path) -> JobRecord | None:
        """The newest job of the run in a directory of the served folder; None where it was made elsewhere."""
        run = str(folder.relative_to(self.jobs.root))
        return next((job for job in self.jobs.each() if job.run == run), None)

    def resume(self, folder: Path, settings: TrainSettings, discard_after: int | None = None) -> JobRecord:
        """Continue a run, as `gce train --resume` does; Taken where a job of the run waits or runs."""
        self.offered.check_settings(evolve(settings, model=evolve(settings.model, adapter="")))
        job = self.of_run(folder)
        if job is not None and not self.jobs.status(job).is_over:
            raise Taken("a job of the run is in the queue or runs already")
        run, again = str(folder.relative_to(self.jobs.root)), ("train", "--run-dir", str(folder), "--resume")
        discarded = () if discard_after is None else ("--discard-after", str(discard_after))
        return self.jobs.submit("train", f"{run}: continued", (*again, *discarded), again=again, run=run)

    def evaluate(self, asked: EvaluateModel, adapter: Path | None) -> JobRecord:
        """An evaluation, whose answers the job keeps."""
        self.offered.check(task=asked.task, model=asked.model)
        task = find_task(asked.task)
        find_tiers(task, find_preset(task, asked.preset), asked.tiers)
        if own := [name for name in asked.strategies if _is_own(name)]:
            raise SettingError("strategies", "strategies of gce", own[0], "{strategies} must be strategies of gce")
        given = {
            name: ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in asdict(asked, recurse=False).items()
            if name != "run" and value not in (None, "", ())
        }
        options = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
        options += ["--adapter", _last(adapter)] if adapter else []
        arguments = ("evaluate", *options, "--answers", "{job}/answers.jsonl")
        return self.jobs.submit("evaluate", f"evaluate: {asked.task}", arguments)

    def answer(self, asked: AskModel, adapter: Path | None) -> JobRecord:
        """A model's answer to one problem."""
        self.offered.check(task=asked.task, model=asked.model)
        if _is_own(asked.strategy):
            raise SettingError("strategy", "a strategy of gce", asked.strategy, "{strategy} must be a strategy of gce")
        return self._work("answer", f"answer: {asked.problem}", {**asdict(asked), "adapter": _last(adapter)})

    def simulate(self, what: str, asked: Any, strategies: Sequence[str], adapter: Path | None) -> JobRecord:
        """One simulation; see `gce.app.web.api.simulations`."""
        self.offered.check(task=getattr(asked, "task", self.offered.tasks[0]), model=asked.model)
        how = {"strategies": list(strategies), "adapter": _last(adapter)}
        return self._work("simulate", f"simulate: {what}", {**asdict(asked), **how}, do=what)

    def _work(self, what: str, title: str, asked: Mapping[str, Any], *, do: str = "") -> JobRecord:
        files = {"request.json": json.dumps({**asked, "do": do or what})}
        arguments = ("{job}/request.json",)
        return self.jobs.submit(what, title, arguments, files=files, module=WORKER, seconds=SECONDS_OF_AN_ANSWER)


def _is_own(strategy: str) -> bool:
    """Whether the name of a strategy is that of code or of a file."""
    return ":" in strategy or "/" in strategy or strategy.endswith(".toml")


def _last(run: Path | None) -> str:
    """The newest checkpoint of a run's directory."""
    if run is None:
        return ""
    if not (run / "checkpoints" / "last").exists():
        raise BadInput("the run has no checkpoint yet: choose another run")
    return str(run / "checkpoints" / "last")
