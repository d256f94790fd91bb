"""Measure how far a run's result can be trusted: four ways in which an evaluation can mislead.

It also measures the shortcut margin: accuracy minus that of the best prompt-blind baseline.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from gce.app.evaluation.baselines import best_of, shortcut_margins
from gce.app.evaluation.checkpoints import restore
from gce.app.evaluation.comparison import Measured, attempts
from gce.app.evaluation.conversations import converse
from gce.app.evaluation.scoring import accuracy, ask, check_coverage, stored_outcome, stored_shares
from gce.app.evaluation.shifts import shifts_of
from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import changed
from gce.app.terminal import Terminal
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.models import find_learning_model
from gce.app.wiring.tasks import find_task, same_problems, stored_problem
from gce.domain.answers import Answer
from gce.domain.diagnosis import falls, first_gains
from gce.domain.measurements import Interval, IterationRecord
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.statistics import difference_p, holm, interval, mean_difference, mean_over_tiers
from gce.domain.strategies.multi_turn import MULTI_TURN
from gce.domain.strategies.requests import Settings
from gce.domain.tasks import ProblemSource, Task
from gce.domain.text import counted
from gce.errors import BadInput
from gce.ports.evaluator import Evaluator
from gce.ports.model import Sampler
from gce.ports.runs import RunReader

__all__ = ["Line", "Validity", "judge_steps", "measure_validity"]


@frozen
class Line:
    """A measured share or difference of shares."""

    what: str
    value: float
    low: float
    high: float
    n: int
    """0 if there was nothing to measure."""
    failed: int = 0
    """Number of additional answers that failed."""

    @property
    def coverage(self) -> float:
        """Share of all requested answers that did not fail."""
        return self.n / (self.n + self.failed) if self.failed else 1.0


@frozen
class Validity:
    """The validity measurements of a finished run."""

    policy: str
    words: tuple[str, ...]
    lines: tuple[Line, ...]
    n: int
    """Maximum number of problems per tier for new measurements."""
    min_coverage: float

    @property
    def card(self) -> dict[str, Any]:
        """The validity card that is stored with the run."""
        return {"policy": self.policy, "words": list(self.words), "lines": to_plain(list(self.lines)), "n": self.n}

    def check(self) -> None:
        """Raise LowCoverage if too many answers of a measurement failed."""
        worst = min(self.lines, key=lambda line: line.coverage)
        check_coverage(worst.what, worst.failed, worst.n + worst.failed, self.min_coverage)


def measure_validity(run: RunReader, n: int, *, threads: int | None = None) -> Validity:
    """Measure a run's final model on `n` problems per tier, and evaluate the run's records.

    Raises:
        BadInput: the run has not ended, or its task or model differs from the one it was made with.
    """
    facts = _Facts.read(run)
    settings = changed(facts.settings, {"model.threads": threads})
    task = find_task(settings.task)
    source, evaluator = ProblemSource(task), find_evaluator(task, settings.executor.runner, settings.evaluator)
    same_problems(settings.task, task, run.config.get("problems", ""))
    model = find_learning_model(settings, task)
    last = f"{run.name}/checkpoints/last"
    restore(model, run.checkpoint()[1], last, settings.model.name)
    if model.info().identity != facts.policy:
        raise BadInput(
            f"{settings.model.name} with {last} is not the model that the run ended with: its weights differ"
        )
    measuring = _Measuring(model, source, evaluator, settings.preset, n, settings.rollouts.max_tokens, Terminal())
    lines = (
        *_distributional(measuring, facts),
        *_scope(measuring),
        *_process(source, facts.answers),
        *_margins(facts),
    )
    return Validity(facts.policy, (*_temporal(facts), *_shortcuts(facts)), lines, n, settings.stopping.min_coverage)


@frozen
class _Facts:
    """The relevant records of a run."""

    settings: TrainSettings
    policy: str
    records: tuple[IterationRecord, ...]
    before: Mapping[str, Interval]
    after: Mapping[str, Interval]
    blind: Mapping[str, Interval]
    """The best prompt-blind baseline of each tier, on the same test problems."""
    drawn: tuple[str, ...]
    """Keys of the problems that training sampled."""
    in_buffer: frozenset[str]
    """Those of them that have traces in the buffer."""
    answers: tuple[dict[str, Any], ...]
    """Answers to test problems after training."""

    @classmethod
    def read(cls, run: RunReader) -> _Facts:
        summary = run.summary()
        if summary is None:
            raise BadInput(f"the run {run.name} has not finished: let it finish, or resume it")
        return cls(
            stored_settings(run),
            summary["policy"],
            tuple(iteration_records(run)),
            stored_shares(summary["before"]),
            stored_shares(summary["after"]),
            best_of({name: stored_shares(row) for name, row in summary["floors"].items()}),
            tuple(dict.fromkeys(rollout["problem"] for rollout in run.read("rollouts"))),
            frozenset(trace["problem"] for trace in run.read("traces")),
            tuple(run.answers("test-after")),
        )


@frozen
class _Measuring:
    """How greedy accuracy is measured."""

    model: Sampler
    source: ProblemSource
    evaluator: Evaluator
    preset: str
    n: int
    max_tokens: int | None
    terminal: Terminal

    @property
    def task(self) -> Task:
        """The task of the problems."""
        return self.source.task

    def ask(self, what: str, problems: Sequence[Problem]) -> list[Answer]:
        """Return greedy answers."""
        sampler: Sampler = self.model
        advance = self.terminal.stage(what, len(problems))
        return ask(sampler, self.task, self.evaluator, problems, seed=0, max_tokens=self.max_tokens, on_answer=advance)

    def tests(self, preset: str, tiers: Sequence[str]) -> list[Problem]:
        """Return test problems."""
        return [problem for tier in tiers for problem in self.source.first(preset, tier, "test", self.n)]


def _mean(what: str, shares: Mapping[str, Interval]) -> Line:
    found = [share for share in shares.values() if share.n]
    failed = sum(share.failed for share in shares.values())
    mean = mean_over_tiers(found)
    if mean is None:
        return Line(what, 0.0, 0.0, 1.0, 0, failed)
    return Line(what, mean.value, mean.low, mean.high, sum(share.n for share in found), failed)


def _distributional(measuring: _Measuring, facts: _Facts) -> Iterator[Line]:
    """Compare distributions; all means are over the sampled tiers, except for the held-out tiers."""
    task, preset = measuring.task, measuring.preset
    drawn: dict[str, list[Problem]] = {}
    met = set()
    for key in reversed(facts.drawn):
        problem = stored_problem(measuring.source, {"problem": key})
        if problem.digest not in met and len(drawn.setdefault(problem.tier, [])) < measuring.n:
            met.add(problem.digest)
            drawn[problem.tier].append(problem)
    trained = [tier for tier in task.training_tiers(preset) if tier in drawn]
    fresh = measuring.ask("fresh problems", measuring.tests(preset, trained))
    again = measuring.ask("trained on", [problem for tier in trained for problem in drawn[tier]])
    first, second = accuracy(fresh), accuracy(again)
    yield _mean("fresh problems of trained tiers", first)
    yield _mean("problems that training sampled", second)
    # A task from a file may have tiers without test problems.
    both = [(second[tier], share) for tier, share in first.items() if share.n and second[tier].n]
    if both:
        apart = mean_difference(*zip(*both, strict=True))
        n = sum(share.n for pair in both for share in pair)
        yield Line("the second minus the first, points", apart.value, apart.low, apart.high, n)
    kept = [answer for answer in again if answer.problem.key in facts.in_buffer]
    yield _mean("those of them that are in the buffer", accuracy(kept))
    for tier in task.tiers(preset):
        if tier.held_out:
            asked = measuring.ask(tier.name, measuring.tests(preset, [tier.name]))
            yield _mean(f"held out: {tier.name}", accuracy(asked))
    taught = {(task.name, each) for each in facts.settings.demonstrations.warm_up_also}
    for what, (shifted, other) in shifts_of(task, preset, without=taught).items():
        tiers = [tier for tier in shifted.training_tiers(other) if tier in trained]
        elsewhere = evolve(measuring, source=ProblemSource(shifted), evaluator=find_evaluator(shifted))
        asked = elsewhere.ask(what, elsewhere.tests(other, tiers))
        yield _mean(f"shift: {what}", accuracy(asked))


def _temporal(facts: _Facts) -> list[str]:
    """Describe the largest decline and the first genuine gains."""
    fell = falls(facts.records)
    looks = sum(bool(record.dev) for record in facts.records)
    if not looks:
        return ["Temporal: there was no evaluation on dev during the run."]
    words = [f"Temporal: no tier ended below its best accuracy in {counted(looks, 'evaluation')} on dev."]
    if fell:
        tier, worst = max(fell.items(), key=lambda item: item[1].best - item[1].last)
        points = 100 * (worst.best - worst.last)
        words = [f"Temporal: the largest decline is {points:.0f} points, in {tier} since iteration {worst.iteration}."]
    if facts.before:
        gains = first_gains(facts.records, facts.before)
        listed = ", ".join(f"{tier} {'none' if when is None else when}" for tier, when in gains.items())
        words.append(
            f"First iteration with a significant gain (sequential test, 5 % over all tiers and evaluations): {listed}."
        )
    return words


def _scope(measuring: _Measuring) -> Iterator[Line]:
    task, preset = measuring.task, measuring.preset
    problems = measuring.tests(preset, [tier.name for tier in task.tiers(preset)])
    if not problems:
        return
    advance = measuring.terminal.stage("attempts", len(problems))
    settings = Settings(max_tokens=measuring.max_tokens)
    model, evaluator = measuring.model, measuring.evaluator
    answers = converse(MULTI_TURN, model, task, evaluator, problems, settings, on_end=lambda *_: advance())
    found = attempts(Measured(tuple(answers), 0.0))
    failed = sum(answered.last.failed for answered in answers)
    yield evolve(_line("scope: right at the first attempt", found.first), failed=failed)
    yield _line("scope: right at the third at latest", found.trajectory)
    yield _line("scope: of wrong ones, recovered", found.recovered)


def _line(what: str, share: Interval) -> Line:
    return Line(what, share.share, share.low, share.high, share.n)


def _process(source: ProblemSource, answers: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Yield shares of answers by the verdict on their steps, and the relative position of the first false step."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    places = []
    for answer in answers:
        if stored_outcome(answer) == "failed":
            continue
        kind, place = judge_steps(source.task, stored_problem(source, answer), answer["text"])
        kinds[answer["right"]].append(kind)
        if not answer["right"] and place is not None:
            places.append(place)
    for right, name in ((True, "right"), (False, "wrong")):
        judged = [kind for kind in kinds[right] if kind != "not judged"]
        wanted = "true" if right else "false"
        said = "only true steps" if right else "a false step"
        yield _line(f"process: {name} answers with {said}", interval(judged.count(wanted), len(judged)))
        skipped = len(kinds[right]) - len(judged)
        yield _line(f"process: {name} answers that cannot be judged", interval(skipped, len(kinds[right])))
    if places:
        middle = statistics.median(places)
        low, high = (
            (statistics.quantiles(places, n=4, method="inclusive")[i] for i in (0, 2))
            if len(places) > 1
            else (middle, middle)
        )
        yield Line("process: where the first false step stands (median, quartiles)", middle, low, high, len(places))


def judge_steps(task: Task, problem: Problem, text: str) -> tuple[str, float | None]:
    """Return the verdict on the written steps, and the position of the first false one in (0, 1].

    `true` if every step is true, `false` if one is false, `not judged` if one is unreadable or there are none.
    """
    steps = task.judge_steps(problem, text)
    false = [place for place, step in enumerate(steps) if step.status == "false"]
    if false:
        return "false", (false[0] + 1) / len(steps)
    if not steps or any(step.status == "unreadable" for step in steps):
        return "not judged", None
    return "true", None


def _margins(facts: _Facts) -> Iterator[Line]:
    for tier, gap in shortcut_margins(facts.after, facts.blind).items():
        yield Line(f"shortcut margin, points: {tier}", gap.value, gap.low, gap.high, facts.after[tier].n)


def _shortcuts(facts: _Facts) -> Iterator[str]:
    """Say in which tiers the model is above the best prompt-blind baseline; a test for each tier, so with Holm's."""
    p_values = {
        tier: difference_p(facts.after[tier], facts.blind[tier]) for tier in shortcut_margins(facts.after, facts.blind)
    }
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    above = [tier for tier, p in adjusted.items() if p < 0.05 and facts.after[tier].share > facts.blind[tier].share]
    named = ", ".join(above) or "no tier"
    if adjusted:
        yield (
            f"Shortcuts: accuracy is significantly above the best prompt-blind baseline in {named} "
            f"(score test with Holm's correction over {len(adjusted)} tiers; the margins have intervals tier by tier)."
        )
