"""What the controls of a run share: the run as they need it, their options, and the result of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.demonstrations import demonstrations_for_training
from gce.app.evaluation.scoring import check_coverage, stored_accuracy
from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.app.options import MOST_ANSWERS
from gce.app.settings.records import TrainSettings
from gce.app.training.state import Watcher
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.tasks import find_task, same_problems
from gce.domain.measurements import IterationRecord, MeanReward, add_counts
from gce.domain.paired import Gain
from gce.domain.statistics import Estimate, mean_over_tiers
from gce.domain.tasks import Task
from gce.errors import BadInput, SettingError
from gce.ports.runs import RunReader

__all__ = [
    "Answers",
    "Context",
    "Control",
    "ControlOptions",
    "ControlWork",
    "Row",
    "RunFacts",
    "compared",
    "first_of_each_tier",
]

Answers = Sequence[Mapping[str, Any]]
"""Stored answers."""


@frozen(kw_only=True)
class ControlOptions:
    """Sizes of what the controls measure."""

    n: int = 100
    """Test problems per tier, at most those that the run was tested on."""
    pass_problems: int = 30
    """Test problems per tier for pass@k."""
    pass_samples: int = 64
    """Samples per problem for pass@k: the largest k."""
    tune: int = 20
    """Dev problems per tier on which temperature and prompt of the base are tuned."""
    threads: int | None = None
    decontaminate: Path | None = None
    """A file of digests of the pretraining text's problems."""

    def __attrs_post_init__(self) -> None:
        if (answers := self.pass_problems * self.pass_samples) > MOST_ANSWERS:
            expected = f"at most {MOST_ANSWERS:,} answers per tier"
            message = f"{{pass_problems}} times {{pass_samples}} must be {expected}, got {answers:,}"
            raise SettingError("pass_samples", expected, answers, message)


@frozen(slots=False)
class RunFacts:
    """A finished run, as its controls need it."""

    name: str
    settings: TrainSettings
    task: Task
    policy: str
    records: tuple[IterationRecord, ...]
    before: Answers
    """Answers to test problems before training; empty where they were not measured."""
    after: Answers

    @classmethod
    def read(cls, run: RunReader) -> RunFacts:
        """Read them.

        Raises:
            BadInput: the run has not ended, was not tested, or its task is not to be found or another one.
        """
        summary = run.summary()
        if summary is None:
            raise BadInput(f"the run {run.name} has not finished: let it finish, or resume it")
        after = run.answers("test-after")
        if not after:
            raise BadInput(f"the run {run.name} has no answers to test problems, which its controls are compared with")
        settings = stored_settings(run)
        task = find_task(settings.task)
        same_problems(settings.task, task, run.config.get("problems", ""))
        records = tuple(iteration_records(run))
        return cls(run.name, settings, task, summary["policy"], records, run.answers("test-before"), after)

    @property
    def folder(self) -> str:
        """Where the runs of the controls are kept; a run that goes on gets new ones."""
        last = self.records[-1].iteration if self.records else 0
        return str(Path(self.name, "validity", f"iteration-{last}"))

    @property
    def iterations(self) -> int:
        """Number of iterations with rollouts."""
        return sum(bool(record.tiers) for record in self.records)

    @property
    def updates(self) -> int:
        """Number of optimizer steps, those of an SFT warm-up included."""
        return sum(record.updates for record in self.records)

    @property
    def rollouts(self) -> int:
        """Number of rollouts."""
        return sum(count.rollouts for record in self.records for count in record.tiers.values())

    @cached_property
    def no_demonstrations(self) -> str:
        """Why the task has no traces written by a rule; empty where it has some."""
        settings, task = self.settings, self.task
        evaluator = find_evaluator(task, settings.executor.runner, settings.evaluator)
        try:
            demonstrations_for_training(task, evaluator, settings.preset, task.training_tiers(settings.preset), 1)
        except BadInput:
            return f"task {task.name} has no demonstrations"
        return ""

    def pass_rates(self) -> dict[str, float]:
        """Share of right rollouts over the whole run, by tier."""
        tiers = dict.fromkeys(tier for record in self.records for tier in record.tiers)
        counts = {tier: add_counts([each.tiers[tier] for each in self.records if tier in each.tiers]) for tier in tiers}
        return {tier: count.correct / count.rollouts for tier, count in counts.items()}


@frozen
class Context:
    """What a control is measured with."""

    facts: RunFacts
    options: ControlOptions
    watcher: Watcher


@frozen
class Row:
    """The result of a control."""

    asked: Mapping[str, Any] = field(factory=dict)
    """The options that it follows from: with others it is another result."""
    figures: Mapping[str, Any] = field(factory=dict)
    """Numbers and names that its claim and its conclusion name."""
    mean: Estimate | None = None
    """Accuracy of the control, mean of tiers."""
    gain: Gain | None = None
    """Run minus control on the same test problems; None where nothing is compared."""
    over_base: Estimate | None = None
    """Control minus base; None where the base was not tested."""
    n: int = 0
    """Number of judged answers or problems."""
    failed: int = 0
    seconds: float = 0.0
    curves: Mapping[str, tuple[tuple[int, MeanReward], ...]] = field(factory=dict)
    """pass@k by policy: k, and its estimate."""


@frozen
class ControlWork:
    """The most that a control has to do."""

    answers: float = 0.0
    steps: float = 0.0
    """Optimizer steps."""


@frozen
class Control:
    """A way to get the run's result without what the run claims to be the cause of it."""

    what: str
    """What is done, for a person."""
    claim: str
    """What a sceptic says, with the row's figures in braces; it follows "that"."""
    measure: Callable[[Context], Row]
    work: Callable[[RunFacts, ControlOptions], ControlWork]
    unfit: Callable[[RunFacts], str] = lambda _facts: ""
    """Why this run cannot have the control; empty where it can."""
    asked: Callable[[ControlOptions], Mapping[str, Any]] = lambda options: {"n": options.n}
    """See `Row.asked`."""
    is_compared: bool = True
    """Whether its accuracy is compared with the run's, and counts in the correction for several comparisons."""


def compared(context: Context, what: str, answers: Answers, figures: Mapping[str, Any] | None = None) -> Row:
    """Return the row of a control with these answers, at most one for each test problem.

    Raises:
        LowCoverage: too many of them failed.
    """
    facts = context.facts
    rates = stored_accuracy(answers)
    n, failed = sum(each.n for each in rates.values()), sum(each.failed for each in rates.values())
    check_coverage(what, failed, n + failed, facts.settings.stopping.min_coverage)
    over_base = stored_gain(facts.before, answers)
    return Row(
        figures=figures or {},
        mean=mean_over_tiers([each for each in rates.values() if each.n]),
        gain=stored_gain(answers, facts.after),
        over_base=None if over_base is None else over_base.mean,
        n=n,
        failed=failed,
    )


def first_of_each_tier(answers: Iterable[Mapping[str, Any]], n: int) -> list[Mapping[str, Any]]:
    """Return the answers to the first n problems of each tier."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for answer in answers:
        of_tier = found.setdefault(answer["tier"], [])
        if len(of_tier) < n:
            of_tier.append(answer)
    return [answer for of_tier in found.values() for answer in of_tier]
