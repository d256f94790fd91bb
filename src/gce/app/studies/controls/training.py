"""Controls that train: the run again with one thing changed, on the same budget, each in a run directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from statistics import fmean
from typing import Any

from gce.app.evaluation.demonstrations import EXAMPLES_DRAWN, Demonstration
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.options import SHOTS, UPDATES
from gce.app.settings.checks import check_variants
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import changed
from gce.app.studies.conditions import STUDIES
from gce.app.studies.controls.records import (
    Context,
    Control,
    ControlOptions,
    ControlWork,
    Row,
    RunFacts,
    compared,
    first_of_each_tier,
)
from gce.app.studies.running import PlannedRun, check_begun, run_all
from gce.app.training.dry_run import work_of
from gce.app.training.preparation import demonstrations_of
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.executors import find_executor
from gce.app.wiring.names import entry
from gce.app.wiring.runs import open_run
from gce.domain.algorithms import ALGORITHMS, Algorithm
from gce.domain.learning import Trace
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.traces import trace_of_record
from gce.errors import BadInput, SettingError

__all__ = ["admission_control", "longer_control", "sft_control"]

MOST_PASSES = 1e6
"""No limit: as many steps as are asked for, however few the traces."""
NO_ROLLOUTS = {
    "rollouts.strategy": ZERO_SHOT.name,
    "optimizer.restart": False,
    "curriculum.ladder": False,
    "objective.algorithm": "raft",
    "objective.importance_cap": None,
    "buffer.admission": "verified",
    "buffer.random_rates": None,
    "demonstrations.bootstrap": "none",
    "stopping.iterations": 0,
}
"""The warm-up alone, without what would contradict it."""

Changes = Callable[[RunFacts], Mapping[str, Any]]
"""(the run) -> the settings that differ from its own, by dotted name."""


def _same_budget(facts: RunFacts, options: ControlOptions, changes: Mapping[str, Any]) -> TrainSettings:
    """The run's settings with `changes`, its number of iterations, and no measurements but the test at the end.

    The whole test, so that with a larger n the control is only compared anew.
    """
    values = {
        "stopping.iterations": max(1, facts.iterations),
        "stopping.until": None,
        "stopping.patience": None,
        "stopping.minutes": None,
        "evaluation.dev": 0,
        "evaluation.shifts": 0,
        "evaluation.also_measure": (),
        "model.threads": options.threads or facts.settings.model.threads,
        **changes,
    }
    return changed(facts.settings, values)


def _trained(context: Context, name: str, what: str, changes: Mapping[str, Any], **figures: float) -> Row:
    """Train, or go on with what is there; then compare the answers to test problems."""
    facts, n = context.facts, context.options.n
    place = f"{facts.folder}/{name}"
    settings = _same_budget(facts, context.options, changes)
    run = PlannedRun(name, what, settings.seed, settings, place)
    check_begun(run)
    run_all([run], find_executor())
    if not run.done:
        raise BadInput(f"another process works on {place}: repeat the command when it has finished")
    with open_run(place) as reader:
        answers, tested = reader.answers("test-after"), stored_settings(reader).evaluation.test
        updates = (reader.summary() or {})["updates"]
    if tested < n:
        message = f"{place} was made by an earlier version and tested on {tested} problems per tier only"
        raise BadInput(message, hint="delete it, so that it is trained again")
    return compared(context, name, first_of_each_tier(answers, n), {"updates": updates, **figures})


def _work(changes: Changes) -> Callable[[RunFacts, ControlOptions], ControlWork]:
    def work(facts: RunFacts, options: ControlOptions) -> ControlWork:
        left = work_of(_same_budget(facts, options, changes(facts)), facts.task).left(0)
        return ControlWork(left["sample"] + left["answer"], left["train"])

    return work


def _unfit(changes: Changes) -> Callable[[RunFacts], str]:
    """Why the changed settings contradict each other, or are those of the run itself."""

    def unfit(facts: RunFacts) -> str:
        if not facts.iterations:
            return "the run has no rollouts"
        admission = changes(facts).get("buffer.admission")
        if admission == facts.settings.buffer.admission != "verified":
            return f"the run itself was trained with admission {admission}"
        algorithm = entry(facts.settings.objective.algorithm, ALGORITHMS, Algorithm, "algorithm")
        try:
            check_variants(changed(facts.settings, changes(facts)), algorithm)
        except SettingError as error:
            return f"not with the run's settings: {error}"
        return ""

    return unfit


def admission_control(condition: str, claim: str) -> Control:
    """The run with other rewards than the verifier's, by a condition of the study `ablations`."""
    found = STUDIES["ablations"][condition]

    def changes(facts: RunFacts) -> Mapping[str, Any]:
        rates = {"buffer.random_rates": facts.pass_rates()} if found.settings["buffer.admission"] == "random" else {}
        return {**found.settings, **rates}

    def measure(context: Context) -> Row:
        return _trained(context, condition, found.what, changes(context.facts))

    return Control(found.what.removeprefix("control: "), claim, measure, _work(changes), _unfit(changes))


def _warm_up_alone(facts: RunFacts, steps: int, shots: int) -> dict[str, Any]:
    """SFT on demonstrations alone, for so many optimizer steps."""
    return {
        **NO_ROLLOUTS,
        "demonstrations.warm_up": min(max(1, steps), UPDATES.high),
        "demonstrations.shots": min(max(1, shots), SHOTS.high),
    }


def _demonstrations(facts: RunFacts, changes: Mapping[str, Any]) -> list[Demonstration]:
    settings = changed(facts.settings, changes)
    evaluator = find_evaluator(facts.task, settings.executor.runner, settings.evaluator)
    found = demonstrations_of(settings, ZERO_SHOT, facts.task, evaluator)
    return [each for of_tier in found.values() for each in of_tier]


def _traces(facts: RunFacts) -> list[Trace]:
    """The traces that the run admitted to its buffer, oldest first."""
    with open_run(facts.name, verify=False) as run:
        return [trace_of_record(record) for record in run.read("traces")]


def _sft_changes(facts: RunFacts) -> dict[str, Any]:
    """As many demonstrations as the run had correct traces and demonstrations, and as many optimizer steps."""
    tiers = len(facts.task.training_tiers(facts.settings.preset))
    admitted = sum(record.admitted for record in facts.records)
    shots = ceil(admitted / (tiers * EXAMPLES_DRAWN))
    own = facts.settings.demonstrations
    return _warm_up_alone(facts, facts.updates, shots + (own.shots if own.warm_up else 0))


def _sft(context: Context) -> Row:
    facts = context.facts
    changes = _sft_changes(facts)
    traces, admitted = len(_demonstrations(facts, changes)), sum(record.admitted for record in facts.records)
    return _trained(context, "sft", SFT, changes, traces=traces, admitted=admitted)


SFT = "SFT on as many correct traces written by the task's rule, for as many optimizer steps"


def sft_control() -> Control:
    """Imitation of a rule's traces in place of the model's own."""
    claim = "imitating {traces} correct traces written by a rule gives as much as the run's own {admitted}"
    return Control(SFT, claim, _sft, _work(_sft_changes), lambda facts: facts.no_demonstrations)


def _size(trace: Trace) -> int:
    """Characters that are trained on: they stand for tokens, which demonstrations have only once they are encoded."""
    return sum(len(turn.completion.text) for turn in trace.turns if turn.trained and turn.completion is not None)


def _longer_changes(facts: RunFacts) -> dict[str, Any]:
    """Training on what the run began with, for as many trained tokens as the whole run took.

    What it began with is its SFT warm-up, or else the traces of the first iteration that admitted any.
    """
    traces, own = _traces(facts), facts.settings.demonstrations
    first = min((trace.iteration for trace in traces), default=0)
    begun = [_size(trace) for trace in traces if trace.iteration == first]
    if own.warm_up:
        begun = [_size(each.trace) for each in _demonstrations(facts, {})]
    began = fmean(begun or [1.0])
    trained, held = 0.0, list[int]()
    for record in facts.records:
        held += [_size(trace) for trace in traces if trace.iteration == record.iteration]
        trained += record.updates * (fmean(held) if held and record.tiers else began)
    steps = min(max(1, round(trained / began)), UPDATES.high)
    if own.warm_up:
        return _warm_up_alone(facts, steps, own.shots)
    return {
        "stopping.iterations": max(1, first),
        "optimizer.updates": steps,
        "optimizer.epochs": None,
        "optimizer.reuse": MOST_PASSES,
    }


def _longer(context: Context) -> Row:
    return _trained(context, "longer", LONGER, _longer_changes(context.facts), budget=context.facts.updates)


LONGER = "training on the first traces alone, for as many trained tokens: no rollouts of the improved model"


def longer_control() -> Control:
    """More optimizer steps in place of more rollouts."""
    claim = (
        "training longer on what the run began with ({updates} steps) gives as much as new rollouts ({budget} steps)"
    )
    return Control(LONGER, claim, _longer, _work(_longer_changes))
