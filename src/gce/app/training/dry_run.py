"""What a training run or an evaluation would take: its work from the settings, its pace from a short measurement.

Writes nothing: no run, no downloaded or converted model. A model that would have to be fetched first, or that a server
charges for, is not measured.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from math import ceil

from attrs import evolve, frozen

from gce.app.evaluation.power import gain_found
from gce.app.evaluation.resolution import asked_for
from gce.app.evaluation.scoring import ask
from gce.app.progress import Work, duration
from gce.app.settings.checks import check_variants
from gce.app.settings.records import WARM_UP_PART, TrainSettings, parts_of_warm_up
from gce.app.training.final_tests import shifts_to_measure
from gce.app.training.forgetting import other_tasks
from gce.app.training.preparation import check_task, place_adapter
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.models import default_model, find_learning_model, find_model, is_at_hand
from gce.app.wiring.names import entry
from gce.app.wiring.system import peak_bytes
from gce.app.wiring.tasks import find_preset, find_task
from gce.domain.algorithms import ALGORITHMS, Algorithm
from gce.domain.answers import Answer
from gce.domain.evaluators.judges import MAX_TOKENS
from gce.domain.learning import TrainingBatch
from gce.domain.problems import Split
from gce.domain.tasks import Task, draw_problems
from gce.domain.text import counted
from gce.domain.traces import trace_of
from gce.errors import BadInput
from gce.ports.model import Learner, Sampler

__all__ = ["Trial", "asked_problems", "evaluation_lines", "measure", "training_lines", "work_of"]

MOST_TOKENS = 128
"""Of the first answers that are sampled to see how fast the model is."""
MOST_TOGETHER = 64
LEAST_TOGETHER = 16
SECONDS, MOST_SECONDS = 2.0, 20.0
"""A batch is followed by a larger one where it took less than the first, or is small and took less than the second."""


@frozen
class Trial:
    """What a few answers and one optimizer step took; see `measure`."""

    answers: int
    seconds: float
    tokens: int
    """Generated in all."""
    length: float
    """Tokens of an answer: those generated where it ended, the most allowed where it was cut off."""
    step: float | None = None
    """Seconds of an optimizer step; None where none was taken."""
    peak: int = 0
    """Bytes of memory of this process, at most so far."""

    @property
    def answer(self) -> float:
        """Seconds of a whole answer, as these were sampled: few at a time."""
        return self.seconds / max(self.tokens, 1) * self.length


def measure(
    settings: TrainSettings,
    model: Sampler,
    task: Task,
    tiers: Sequence[str],
    split: Split,
    *,
    asked: int,
    steps: bool = False,
) -> Trial:
    """Sample greedy answers, at first one of at most `MOST_TOKENS` tokens in each tier.

    Unless that took long, more whole ones are sampled together, up to the number `asked`, as a run does: a few answers
    take nearly as long as many, and the first batch also what a model does only once.
    With `steps` an optimizer step is taken on a batch of them, which changes the model in memory: it is not to be used
    further.

    Raises:
        BadInput: there is no problem to measure with.
    """
    evaluator, limit = find_evaluator(task, settings.executor.runner, settings.evaluator), settings.rollouts.max_tokens
    most, each, seconds, answers = min(MOST_TOKENS, limit or MOST_TOKENS), 1, 0.0, list[Answer]()
    while len(answers) < min(asked, MOST_TOGETHER):
        if seconds >= (SECONDS if len(answers) >= LEAST_TOGETHER else MOST_SECONDS):
            break
        problems = [problem for tier in tiers for problem in draw_problems(task, settings.preset, tier, split, each)]
        if len(problems) == len(answers):  # There are no more.
            break
        began = time.monotonic()
        answers = ask(model, task, evaluator, problems, seed=0, max_tokens=most)
        seconds = time.monotonic() - began
        most, each = limit or task.max_tokens, 4 * each
    if not answers:
        raise BadInput(f"task {task.name} has no {split} problems in preset {settings.preset} to measure with")
    tokens = [answer.completion.tokens or len(answer.completion.text.split()) for answer in answers]
    lengths = [
        task.token_budget(answer.problem, limit) if answer.completion.finish_reason == "length" else count
        for answer, count in zip(answers, tokens, strict=True)
    ]
    step = _step(settings, model, answers) if steps and isinstance(model, Learner) else None
    return Trial(len(answers), seconds, sum(tokens), sum(lengths) / len(lengths), step, peak_bytes())


def _step(settings: TrainSettings, model: Learner, answers: Sequence[Answer]) -> float:
    """Seconds of an optimizer step on a batch of these answers, each as often as it takes to fill it.

    Of the second step, unless the first took long: it includes what a model does only once.
    """
    traces = [trace_of(each.problem, each.completion, each.verdicts) for each in answers]
    size = settings.optimizer.batch
    batch = [evolve(traces[number % len(traces)], key=f"{number}") for number in range(size)]
    seconds = 0.0
    for _ in range(2):
        if seconds < MOST_SECONDS:
            began = time.monotonic()
            model.update(TrainingBatch(tuple(batch), (1.0,) * size))
            seconds = time.monotonic() - began
    return seconds


def work_of(settings: TrainSettings, task: Task) -> Work:
    """The steps of each stage of a run, at most: a young buffer has too few traces for all updates."""
    preset = find_preset(task, settings.preset)
    rollouts, optimizer = settings.rollouts, settings.optimizer
    sampled = rollouts.first_wave
    updates = float(optimizer.updates)
    if optimizer.epochs is not None:
        updates = optimizer.epochs * ceil(sampled / optimizer.batch)
    test = asked_problems(task, preset, "test", settings.evaluation.test)
    dev = asked_problems(task, preset, "dev", settings.evaluation.dev) / settings.evaluation.dev_every
    n, shifts = settings.evaluation.shift_problems, shifts_to_measure(evolve(settings, preset=preset), task)
    shifted = sum(asked_problems(other, its_preset, "test", n) for other, its_preset in shifts.values())
    also = other_tasks(evolve(settings, preset=preset), task).values()
    elsewhere = sum(asked_problems(other, its_preset, "dev", settings.evaluation.dev) for other, its_preset in also)
    return Work(
        settings.last_iteration,
        before={"test before": test, **({"other tasks before": elsewhere} if elsewhere else {})},
        each={"sample": sampled + rollouts.second_wave, "train": updates, "evaluate": dev},
        after={
            "test after": test,
            **({"shifts": shifted} if shifted else {}),
            **({"other tasks after": elsewhere} if elsewhere else {}),
        },
        warm_ups=parts_of_warm_up(settings.demonstrations.warm_up),
        warm_up={"train": min(WARM_UP_PART, settings.demonstrations.warm_up)},
    )


def asked_problems(task: Task, preset: str, split: Split, most: int) -> int:
    """The problems of a split in all tiers, at most so many in each, and no more than a list of questions has."""
    return asked_for(task, preset, [tier.name for tier in task.tiers(preset)], split, most)


def training_lines(settings: TrainSettings) -> list[str]:
    """What a run of these settings would do and take, in words.

    Raises:
        GceError: what the run itself would refuse of the settings, the task or the model.
    """
    task = find_task(settings.task)
    settings = evolve(settings, preset=find_preset(task, settings.preset))
    check_task(settings, task)
    check_variants(settings, entry(settings.objective.algorithm, ALGORITHMS, Algorithm, "algorithm"))
    work = work_of(settings, task)
    left = work.left(0)
    answers = left["sample"] + left["answer"] + sum(work.before.values())
    lines = [
        f"work, at most: iterations {settings.last_iteration:,}, rollouts {left['sample']:,.0f}, optimizer steps "
        f"{left['train']:,.0f}, greedy answers to test and dev problems {answers - left['sample']:,.0f}"
    ]
    lines += _judge_lines(settings, answers)
    settings = evolve(settings, model=evolve(settings.model, name=settings.model.name or default_model(task)))
    lines += gain_found(asked_problems(task, settings.preset, "test", settings.evaluation.test))
    if reason := is_at_hand(settings.model.name):
        return [*lines, *_bounds(answers, settings.rollouts.max_tokens or task.max_tokens, reason)]
    model = find_learning_model(settings, task)
    place_adapter(settings, task, model)
    found = measure(
        settings, model, task, task.training_tiers(settings.preset), "train", asked=int(answers), steps=True
    )
    seconds = answers * found.answer + left["train"] * (found.step or 0.0)
    return [*lines, *_measured(answers, seconds, found)]


def _judge_lines(settings: TrainSettings, answers: float) -> list[str]:
    """What each judge model would be asked, at most: a prompt with the problem and the answer for each grade."""
    given = settings.evaluators
    grades = answers * given.judge_repeats
    return [
        f"{name}: at most {grades:,.0f} grades ({answers:,.0f} answers, {counted(given.judge_repeats, 'grade')} each), "
        f"{grades * MAX_TOKENS:,.0f} generated tokens (replies of up to {MAX_TOKENS}), and a prompt with problem and "
        "answer for each; its time is not part of the estimate"
        for name in given.judges
    ]


def evaluation_lines(
    settings: TrainSettings, task: Task, tiers: Sequence[str], split: Split, answers: Mapping[str, int]
) -> list[str]:
    """The same of an evaluation that asks for so many answers by strategy, at least; of `settings`, what it shares.

    Raises:
        GceError: the model cannot be used, or there is no problem.
    """
    asked = sum(answers.values())
    lines = [
        f"work, at least: {counted(asked, 'answer')} ({', '.join(f'{name} {n:,}' for name, n in answers.items())})"
    ]
    if reason := is_at_hand(settings.model.name):
        return [*lines, *_bounds(asked, settings.rollouts.max_tokens or task.max_tokens, reason)]
    model = find_model(settings, task)
    if not isinstance(model, Sampler):
        raise BadInput(f"model {settings.model.name} cannot be evaluated: it has no sample method")
    found = measure(settings, model, task, tiers, split, asked=asked)
    return [*lines, *_measured(asked, asked * found.answer, found)]


def _bounds(answers: float, tokens: int, reason: str) -> list[str]:
    return [
        f"tokens: at most {answers * tokens:,.0f} generated ({answers:,.0f} answers of up to {tokens:,})",
        f"time, memory: not measured, as {reason}",
    ]


def _measured(answers: float, seconds: float, found: Trial) -> list[str]:
    step = "" if found.step is None else f", and one optimizer step in {found.step:.1f} s"
    answered = counted(found.answers, "greedy answer")
    most = "" if found.step is None else "; a step on fewer answers, as where many rewards are equal, takes less"
    return [
        f"tokens: about {answers * found.length:,.0f} generated ({found.length:.0f} per answer)",
        f"time: {'at most ' * bool(most)}about {duration(seconds)}, extrapolated from a batch of {found.answers}{most}",
        f"memory: {found.peak / 2**20:,.0f} MiB so far; a full batch takes more",
        f"measured now: {answered}, {found.tokens:,} tokens in {found.seconds:.1f} s{step}",
    ]
