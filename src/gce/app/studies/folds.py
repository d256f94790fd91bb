"""Cross-fitting over a list of questions: K runs, each tested on one fold and trained on the others, and their pool.

Every question is a test question once, of a model that was not trained on it. Each fold is a run of its own in
DIR/fold-K, so that what is there is never run again, as in a study.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.resolution import half_width, listed
from gce.app.evaluation.scoring import stored_accuracy
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import changed, settings_from
from gce.app.studies.running import PlannedRun, check_begun, resolved, run_all
from gce.app.tables.cells import gain_line
from gce.app.tables.layout import table
from gce.app.tables.summary import accuracy_rows
from gce.app.terminal import put
from gce.app.training.unearned import Unearned, unearned_between, unearned_lines
from gce.app.wiring.executors import find_executor
from gce.app.wiring.files import check_apart
from gce.app.wiring.runs import open_run
from gce.app.wiring.tasks import find_preset, find_task, fold_name, in_fold, task_name
from gce.domain.measurements import Interval
from gce.domain.paired import Gain
from gce.domain.serialization import OMIT_DEFAULT
from gce.domain.statistics import Estimate
from gce.domain.tasks import Listed, Task
from gce.domain.text import counted
from gce.errors import BadInput, SettingError

__all__ = ["CrossFit", "cross_fit"]


@frozen(repr=False)
class CrossFit:
    """The result of all folds together."""

    directory: str
    folds: int
    before: Mapping[str, Interval]
    """Greedy accuracy by tier over all questions, before training."""
    after: Mapping[str, Interval]
    """Each question by the model that was not trained on it."""
    difference: Estimate
    """After less before, paired by question; of the mean of tiers."""
    gained: int
    """Questions that were right after training alone."""
    lost: int
    p: float
    """Two-sided exact McNemar of these."""
    reward: Gain | None = None
    """The same for mean rewards; None where no reward is partial."""
    unearned: Unearned | None = field(default=None, metadata=OMIT_DEFAULT)
    """What is said where mean rewards rose and right answers did not; None where they rose together, or neither."""
    task: str = field(default="", metadata=OMIT_DEFAULT)
    """Its name in settings."""

    def __str__(self) -> str:
        """The table."""
        n = sum(share.n for share in self.after.values())
        return "\n".join(
            [
                f"Greedy accuracy, % (95 % Wilson interval), {n} questions in {self.folds} folds",
                table(*accuracy_rows({"before": self.before, "after": self.after}, list(self.after))),
                gain_line(Gain(self.difference, self.gained, self.lost, self.p), "question"),
                *([gain_line(self.reward, "question", rewards=True)] if self.reward else []),
                *(self._warning() if self.unearned else []),
            ]
        )

    __repr__ = __str__

    def _warning(self) -> list[str]:
        assert self.unearned is not None
        return unearned_lines(self.unearned, task=self.task, run=f"{self.directory}/fold-1")


def cross_fit(
    settings: TrainSettings | None = None,
    *,
    task: str | Task | None = None,
    folds: int = 5,
    run: str | Path,
    **given: Any,
) -> CrossFit:
    """Train once for each fold of a list of questions on the others, and test on all questions.

    What is kept in `run` is not run again: the same call goes on after an interruption.

    Args:
        settings: as in `train`; all questions of a fold are tested, whatever `evaluation.test` says.
        task: a name or a `Task` with a list of questions.
        folds: how many, from 2 to the number of questions in the smallest tier.
        run: the directory where the folds are kept.
        given: settings, as in `train`; the model by its name, for it is loaded anew for each fold.

    Raises:
        BadInput: the task has no list of questions, or too few; or a fold that is there has other settings.
        GceError: as in `train`.
    """
    if settings is not None and given:
        raise ValueError(f"expected settings as a whole or one by one, got both: {', '.join(sorted(given))}")
    if isinstance(given.get("model"), str):
        given["model"] = {"name": given["model"]}
    settings = settings_from(given) if settings is None else settings
    name = str(run)
    check_apart(Path(name))
    found = task if isinstance(task, Task) else find_task(task or settings.task)
    wanted = _planned(settings, task, found, folds, name)
    for each in wanted:
        check_begun(each)
    run_all(wanted, find_executor())
    if missing := [each.condition for each in wanted if not each.done]:
        raise BadInput(f"another process has {', '.join(missing)}: repeat the command when it has finished")
    return _pooled(name, folds, found, task_name(found) if isinstance(task, Task) else task or settings.task)


def _planned(settings: TrainSettings, given: str | Task | None, task: Task, folds: int, run: str) -> list[PlannedRun]:
    preset = find_preset(task, settings.preset)
    if not isinstance(task.draw, Listed):
        message = f"task {task.name} draws new problems for each run: {{folds}} needs a task with a list of questions"
        raise SettingError("folds", "none", folds, message)
    parts = [in_fold(task, fold, folds) for fold in range(1, folds + 1)]
    sizes = [[listed(part, preset, tier.name) for tier in task.tiers(preset)] for part in parts]
    n = sum(map(sum, sizes))
    put(
        f"{counted(n, 'question')} in {folds} folds: 95 % interval about +-{100 * half_width(n):.0f} points", error=True
    )
    planned = []
    for fold, (part, of_tiers) in enumerate(zip(parts, sizes, strict=True), 1):
        name = task_name(task) if isinstance(given, Task) else fold_name(given or settings.task, fold, folds)
        own = resolved(changed(settings, {"task": name, "evaluation.test": max(of_tiers)}), part)
        what = f"tested on {sum(of_tiers)} of {n} questions"
        place = f"{run}/fold-{fold}"
        kept = part if isinstance(given, Task) else None
        planned.append(PlannedRun(f"fold-{fold}", what, settings.seed, own, place, task=kept, measure_before=True))
    return planned


def _pooled(name: str, folds: int, task: Task, task_is_called: str) -> CrossFit:
    answers: dict[str, list[dict[str, Any]]] = {"before": [], "after": []}
    for fold in range(1, folds + 1):
        with open_run(f"{name}/fold-{fold}") as run:
            for moment, found in answers.items():
                found += run.answers(f"test-{moment}")
    before, after = answers["before"], answers["after"]
    gain = stored_gain(before, after)
    if gain is None:
        raise BadInput(f"no question in {name} was judged both before and after training")
    rows = (stored_accuracy(before), stored_accuracy(after))
    reward = stored_gain(before, after, rewards=True)
    unearned = unearned_between(
        lambda: before, lambda: after, [in_fold(task, fold, folds) for fold in range(1, folds + 1)]
    )
    return CrossFit(name, folds, *rows, gain.mean, gain.gained, gain.lost, gain.p, reward, unearned, task_is_called)
