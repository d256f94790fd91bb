"""Forgetting during a run: loss on a fixed English text and pass rates on other tasks, before and after training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from hashlib import sha256
from importlib import resources
from math import fsum, isfinite
from typing import Any, Literal

from attrs import frozen

from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.scoring import RESUME, accuracy, answer_record, ask, check_answers, stored_shares
from gce.app.evaluation.shifts import shift_slug
from gce.app.settings.records import TrainSettings
from gce.app.shown import Part
from gce.app.tables.cells import count_words, difference_cell, share_cell
from gce.app.training.final_tests import FinalTests
from gce.app.training.first_tests import taken, taken_once
from gce.app.training.state import Run
from gce.app.training.time_limit import stage
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.tasks import find_task_and_preset
from gce.domain.figures import Table
from gce.domain.forgetting import Forgetting, PassageLoss, TaskChange, loss_change
from gce.domain.measurements import Interval
from gce.domain.problems import Message, Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import mean_over_tiers
from gce.domain.tasks import Task, draw_problems
from gce.errors import BadInput, GceError, ModelError, SettingError, one_line
from gce.ports.evaluator import Evaluator
from gce.ports.model import LearningModel, Scorer
from gce.ports.runs import Runs

__all__ = [
    "ENGLISH_TEXT",
    "FORGETTING",
    "BeforeTraining",
    "OtherTask",
    "answers_to_other",
    "english_passages",
    "forgetting_after",
    "forgetting_before",
    "forgetting_parts",
    "losses",
    "other_tasks",
    "planned_other_tasks",
]

FORGETTING = "Forgetting: what training cost elsewhere"
ENGLISH_TEXT = "63c8ca14680db52ff7b785abe781f9058b22d7b241e3fbaea8941fca279b93a4"
"""SHA-256 of the text, `gce/data/english_text.txt`: sixteen passages of plain prose, written for this package."""
ASKED = (Message("user", "Write a short passage of English prose."),)
"""What each passage is scored as the answer to; its end-of-turn token does not count."""
Moment = Literal["before", "after"]
NO_SCORES = "the model gives no log-probabilities"


@frozen(eq=False, slots=False)
class OtherTask:
    """A task that is measured and not trained on."""

    name: str
    """As it was given."""
    task: Task
    preset: str
    evaluator: Evaluator
    n: int
    """Dev problems a tier that are asked for."""

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Its dev problems, the same for every run, drawn when they are first needed."""
        tiers = self.task.tiers(self.preset)
        drawn = (draw_problems(self.task, self.preset, tier.name, "dev", self.n) for tier in tiers)
        return tuple(problem for of_tier in drawn for problem in of_tier)


def other_tasks(settings: TrainSettings, task: Task) -> dict[str, tuple[Task, str]]:
    """Return task and preset of `evaluation.also_measure`, by the names given.

    Raises:
        BadInput: there is no such task or preset.
        SettingError: one is trained on, or is named twice, or no dev problems are measured.
    """
    name = "evaluation.also_measure"
    given = settings.evaluation.also_measure
    trained = {(task.name, preset) for preset in (settings.preset, *settings.demonstrations.warm_up_also)}
    found: dict[str, tuple[Task, str]] = {}
    for each in given:
        other, preset = find_task_and_preset(each)
        if (other.name, preset) in trained:
            message = f"{{{name}}} takes tasks that are not trained on, and {each} is trained on: leave it out"
            raise SettingError(name, "other tasks", each, message)
        found[each] = other, preset
    places = {(other.name, preset) for other, preset in found.values()}
    if len({shift_slug(each) for each in found}) < len(given) or len(places) < len(given):
        raise SettingError(name, "different tasks", given, f"{{{name}}} names a task twice: {', '.join(given)}")
    if given and not settings.evaluation.dev:
        message = f"{{{name}}} measures dev problems, and {{evaluation.dev}} is 0: give their number per tier"
        raise SettingError(name, "dev problems", given, message)
    return found


def planned_other_tasks(settings: TrainSettings, task: Task) -> tuple[OtherTask, ...]:
    """Return the same with each task's own verifier; nothing is drawn yet."""
    runner, n = settings.executor.runner, settings.evaluation.dev
    return tuple(
        OtherTask(name, other, preset, find_evaluator(other, runner), n)
        for name, (other, preset) in other_tasks(settings, task).items()
    )


@cache
def english_passages() -> tuple[str, ...]:
    """Return the passages of the fixed text.

    Raises:
        BadInput: the installed file is not the one of `ENGLISH_TEXT`.
    """
    text = (resources.files("gce") / "data" / "english_text.txt").read_bytes()
    if sha256(text).hexdigest() != ENGLISH_TEXT:
        raise BadInput("the installed gce/data/english_text.txt was changed: install gce again")
    return tuple(text.decode().strip().split("\n\n"))


def losses(model: Scorer, passages: Sequence[str]) -> tuple[PassageLoss, ...]:
    """Return the loss of each passage under the model as it is.

    Raises:
        GceError: the model could not score one, or gave a log-probability that is not finite.
    """
    found = []
    for passage in passages:
        *scores, _end = model.log_probabilities(ASKED, passage)
        if not scores or not all(map(isfinite, scores)):
            raise ModelError("the model gave no finite log-probabilities of the text")
        found.append(PassageLoss(-fsum(scores), len(scores)))
    return tuple(found)


@frozen(eq=False)
class BeforeTraining:
    """What was measured of the untrained model."""

    text: Mapping[str, Any]
    """Losses by passage as plain data, or why there are none."""
    tasks: Mapping[str, Mapping[str, Interval]]
    """Pass rates by name and tier."""
    seconds: float
    """What it took."""
    earlier: float
    """What of that an earlier part of the run took."""


def forgetting_before(run: Run, others: Sequence[OtherTask]) -> BeforeTraining:
    """Measure the untrained model, or read what an earlier part of the run found.

    Raises:
        LowCoverage: too many answers to one of the tasks failed.
    """
    known = taken(run)
    advance = _stage(run, "before", [each for each in others if _moment(each) not in known])
    takes = {"before, English text": partial(_text_losses, run.model)}
    takes |= {_moment(each): partial(_pass_rates, run, each, "before", advance) for each in others}
    found, seconds, earlier = [], 0.0, 0.0
    for moment, take in takes.items():
        record, anew = taken_once(run, moment, take, run.clock.now())
        found.append(record)
        seconds += record["seconds"]
        earlier += 0.0 if anew else record["seconds"]
    text, *tasks = found
    rates = {each.name: stored_shares(record["tiers"]) for each, record in zip(others, tasks, strict=True)}
    return BeforeTraining(text, rates, seconds, earlier)


def forgetting_after(
    run: Run, final: FinalTests, others: Sequence[OtherTask], before: BeforeTraining, runs: Runs
) -> Forgetting:
    """Measure the trained model, and compare; tests that an earlier part of the run took are not taken again.

    Raises:
        LowCoverage: too many answers to one of the tasks failed.
    """
    text = _text_losses(run.model)
    why = before.text.get("why", "") or text.get("why", "")
    change = None if why else loss_change(ENGLISH_TEXT, _stored_losses(before.text), _stored_losses(text))
    advance = _stage(run, "after", [each for each in others if not final.holds(_slug(each), each.n)])
    after = {
        each.name: final.result(_slug(each), each.n, partial(_pass_rates, run, each, "after", advance))
        for each in others
    }
    with runs.read(run.store.name, verify=False) as reader:
        tasks = {
            each.name: TaskChange(
                each.task.name,
                each.preset,
                each.n,
                before.tasks[each.name],
                stored_shares(after[each.name]["tiers"]),
                stored_gain(*map(reader.each_answer, answers_to_other(each.name))),
            )
            for each in others
        }
    return Forgetting(change, why, tasks)


def answers_to_other(name: str) -> tuple[str, str]:
    """Return the names of a run's answers to another task, before and after training."""
    return f"other-{shift_slug(name)}-before", f"other-{shift_slug(name)}-after"


def _moment(other: OtherTask) -> str:
    return f"before, {_slug(other)}"


def _slug(other: OtherTask) -> str:
    return f"other-{shift_slug(other.name)}"


def _stage(run: Run, moment: Moment, others: Sequence[OtherTask]) -> Callable[[], None]:
    """Begin a stage with the problems of these tasks, where there are any."""
    left = sum(len(each.problems) for each in others)
    return stage(run, f"other tasks {moment}", left) if left else lambda: None


def _text_losses(model: LearningModel) -> dict[str, Any]:
    """The losses on the passages as plain data, or why there are none: a run does not end for the lack of them."""
    if not isinstance(model, Scorer) or "score" not in model.info().capabilities:
        return {"why": NO_SCORES}
    try:
        return {"losses": to_plain(losses(model, english_passages()))}
    except GceError as error:
        return {"why": one_line(str(error))}


def _stored_losses(text: Mapping[str, Any]) -> list[PassageLoss]:
    return [from_plain(PassageLoss, each) for each in text["losses"]]


def _pass_rates(run: Run, other: OtherTask, moment: Moment, advance: Callable[[], None]) -> dict[str, Any]:
    """Greedy pass rates by tier as plain data; the answers are kept."""
    answers = ask(run.model, other.task, other.evaluator, other.problems, seed=run.settings.seed, on_answer=advance)
    run.store.write_answers(answers_to_other(other.name)[moment == "after"], map(answer_record, answers))
    coverage = run.settings.stopping.min_coverage
    check_answers(f"dev problems of {other.name} {moment} training", answers, coverage, hint=RESUME)
    return {"tiers": to_plain(accuracy(answers))}


def forgetting_parts(found: Forgetting) -> list[Part]:
    """What a run has forgotten, with what to conclude; a table where other tasks were measured."""
    parts, rows, text = list[Part](), list[tuple[str, ...]](), found.text
    for name, task in found.tasks.items():
        means = (_mean_cell(task.before), _mean_cell(task.after))
        rows.append((f"{name}, %", *means, "-" if task.gain is None else difference_cell(task.gain.mean)))
        n = count_words({tier: each.n + each.failed for tier, each in task.before.items()}, task.asked)
        parts.append(f"{name}: mean greedy accuracy on dev problems, {n}; differences in points, paired by problem.")
    if rows:
        parts.insert(0, Table(("", "before", "after", "after - before"), tuple(rows)))
    if text is None:
        return [*parts, f"Loss on English text was not measured: {found.no_text}."]
    change = difference_cell(text.difference, digits=3, scale=1.0)
    return [
        *parts,
        f"English text: {text.before:.3f} nats per token before, {text.after:.3f} after, {change}; {text.passages} "
        "fixed passages; a loss that rises is forgetting.",
    ]


def _mean_cell(shares: Mapping[str, Interval]) -> str:
    mean = mean_over_tiers(shares.values())
    return "-" if mean is None else share_cell(mean.value, mean.low, mean.high)
