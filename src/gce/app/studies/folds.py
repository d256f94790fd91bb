"""Cross-fitting over a list of questions: K runs, each tested on one fold and trained on the others, and their pool.

Every question is a test question once, of a model that was not trained on it. Each fold is a run of its own in
DIR/fold-K, so that what is there is never run again, as in a study.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen

from gce.app.evaluation.baselines import conclusion, heuristics_line, reference_rows
from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.one_outcome import cut_off_words
from gce.app.evaluation.resolution import half_width, listed
from gce.app.evaluation.rewards import MOMENTS, Rewards, from_stored
from gce.app.evaluation.scoring import stored_accuracy, stored_shares
from gce.app.notebook import tell
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.settings.values import changed, settings_from
from gce.app.shown import Part, html_of, lines_of
from gce.app.studies.running import PlannedRun, check_begun, resolved, run_all
from gce.app.tables.cells import closing_line, gain_line
from gce.app.tables.summary import means_beside_blind, score_tables
from gce.app.training.cut_off import TESTS, answers_cut_off
from gce.app.training.same_answer import same_answer_of
from gce.app.training.unearned import Unearned, unearned_between, unearned_lines
from gce.app.wiring.executors import find_executor
from gce.app.wiring.files import check_apart
from gce.app.wiring.runs import open_run
from gce.app.wiring.tasks import check_no_function, find_preset, find_task, fold_name, in_fold, task_name
from gce.domain.measurements import Interval, MeanReward
from gce.domain.outcomes import pooled_rate, pooled_reward
from gce.domain.paired import Gain
from gce.domain.serialization import OMIT_DEFAULT
from gce.domain.statistics import Estimate
from gce.domain.tasks import Listed, Task
from gce.domain.text import counted
from gce.errors import BadInput, SettingError

__all__ = ["CrossFit", "cross_fit"]

Measured = TypeVar("Measured", Interval, MeanReward)

REFERENCES = ("floors", "heuristics")
"""Rows of a summary beside those of the model."""


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
    floors: Mapping[str, Mapping[str, Interval]] = field(factory=dict)
    """Accuracy of prompt-blind baselines on the same questions, each fitted without the fold that it answers."""
    heuristics: Mapping[str, Mapping[str, Interval]] = field(factory=dict)
    mean_reward: Mapping[str, Rewards] = field(factory=dict, metadata=OMIT_DEFAULT)
    """Mean rewards by the rows of the table of accuracy; empty where no reward is partial."""
    cut_off: int = 0
    """Answers after training that ended at the maximum tokens."""
    same_answer: str = field(default="", metadata=OMIT_DEFAULT)
    """What is said where most answers after training are the same."""

    def __str__(self) -> str:
        """The table."""
        return "\n".join(lines_of(self._parts()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self._parts())

    def _parts(self) -> list[Part]:
        n, tiers = sum(share.n for share in self.after.values()), list(self.after)
        rows = {"before": self.before, "after": self.after, **reference_rows(self.floors, self.heuristics)}
        parts: list[Part] = [f"Greedy accuracy, % (95 % Wilson interval), {n} questions in {self.folds} folds"]
        parts += score_tables(rows, self.mean_reward, tiers)
        right = Gain(self.difference, self.gained, self.lost, self.p)
        parts.append(gain_line(right, "question"))
        if self.reward:
            parts.append(gain_line(self.reward, "question", rewards=True))
        if self.floors:
            named = {} if self.mean_reward else self.floors
            parts.append(conclusion(named, graded=bool(self.mean_reward)))
        parts += heuristics_line(self.heuristics)
        parts.append(closing_line(right, self.reward, n, means_beside_blind(self.mean_reward)))
        if said := cut_off_words(TESTS, self.cut_off, n):
            parts.append(f"warning: {said}")
        if self.same_answer:
            parts.append(f"warning: {self.same_answer}")
        if self.unearned:
            parts += unearned_lines(self.unearned, task=self.task, run=f"{self.directory}/fold-1")
        return parts


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
    if isinstance(model := given.get("model"), str):
        given["model"] = {"name": model}
    elif model is not None and not isinstance(model, (Mapping, ModelSettings)):
        raise BadInput(f"expected the name of a model, which is loaded anew for each fold, got {model!r:.60}")
    settings = settings_from(given) if settings is None else settings
    name = str(run)
    check_apart(Path(name))
    check_no_function(task)
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
    tell(f"{counted(n, 'question')} in {folds} folds: 95 % interval about +-{100 * half_width(n):.0f} points")
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
    summaries = []
    for fold in range(1, folds + 1):
        with open_run(f"{name}/fold-{fold}") as run:
            for moment, found in answers.items():
                found += run.answers(f"test-{moment}")
            summaries.append(run.summary() or {})
    before, after = answers["before"], answers["after"]
    gain = stored_gain(before, after)
    if gain is None:
        raise BadInput(f"no question in {name} was judged both before and after training")
    shares = (stored_accuracy(before), stored_accuracy(after))
    reward = stored_gain(before, after, rewards=True)
    parts = [in_fold(task, fold, folds) for fold in range(1, folds + 1)]
    unearned = unearned_between(lambda: before, lambda: after, parts)
    floors, heuristics = (_by_row((_shares(each, kind) for each in summaries), pooled_rate) for kind in REFERENCES)
    return CrossFit(
        *(name, folds, *shares, gain.mean, gain.gained, gain.lost, gain.p, reward, unearned, task_is_called),
        floors=floors,
        heuristics=heuristics,
        mean_reward=_mean_rewards(summaries),
        cut_off=answers_cut_off(after)[0],
        same_answer=same_answer_of(after, parts),
    )


def _mean_rewards(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Rewards]:
    """By the rows of the table of accuracy, over all folds; nothing where no reward is partial."""
    if not any("mean_reward" in each for each in summaries):
        return {}
    tested, floors, heuristics = (
        _by_row((_rewards(each, kind) for each in summaries), pooled_reward) for kind in ("tested", *REFERENCES)
    )
    return {**tested, **reference_rows(floors, heuristics)}


def _by_row(
    folds: Iterable[Mapping[str, Mapping[str, Measured]]], pool: Callable[[Iterable[Measured]], Measured]
) -> dict[str, dict[str, Measured]]:
    """The rows of all folds, with what is in each tier pooled."""
    found: dict[str, dict[str, list[Measured]]] = {}
    for rows in folds:
        for name, row in rows.items():
            for tier, each in row.items():
                found.setdefault(name, {}).setdefault(tier, []).append(each)
    return {name: {tier: pool(each) for tier, each in row.items()} for name, row in found.items()}


def _rows(found: Mapping[str, Any], kind: str) -> Mapping[str, Mapping[str, Any]]:
    """The rows of a part of a summary: "tested" are the tests before and after."""
    return {moment: found[moment] for moment in MOMENTS} if kind == "tested" else found[kind]


def _shares(summary: Mapping[str, Any], kind: str) -> dict[str, dict[str, Interval]]:
    return {name: stored_shares(row) for name, row in _rows(summary, kind).items()}


def _rewards(summary: Mapping[str, Any], kind: str) -> dict[str, Rewards]:
    """Mean rewards; of a fold in which each reward is 0 or 1, the shares."""
    if "mean_reward" in summary:
        return {name: from_stored(row) for name, row in _rows(summary["mean_reward"], kind).items()}
    return {
        name: {tier: MeanReward(each.n, float(each.correct), each.low, each.high) for tier, each in row.items()}
        for name, row in _shares(summary, kind).items()
    }
