"""Measure the controls of a run, one after another; each is kept in the run's card as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from gce.app.evaluation.checkpoints import restore
from gce.app.progress import duration
from gce.app.settings.values import changed
from gce.app.studies.controls.conclusions import Controls, conclusions, stored
from gce.app.studies.controls.records import Context, Control, ControlOptions, ControlWork, Row, RunFacts
from gce.app.studies.controls.table import CONTROLS
from gce.app.terminal import Terminal
from gce.app.training.dry_run import measure
from gce.app.training.preparation import place_adapter
from gce.app.wiring.models import find_learning_model, is_at_hand
from gce.app.wiring.runs import open_run, runs_of
from gce.app.wiring.system import SystemClock
from gce.domain.figures import Table
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = ["estimated_controls", "measure_controls"]


def measure_controls(
    name: str,
    options: ControlOptions,
    chosen: Sequence[str] = (),
    *,
    on_row: Callable[[Controls], None] = lambda _controls: None,
) -> Controls:
    """Measure what is not there yet; the same call goes on after an interruption.

    Args:
        name: a finished run.
        options: sizes; a control that was measured with other ones is measured again.
        chosen: names in `CONTROLS` to measure; empty for all.
        on_row: called at the beginning and after each control, with what is finished.

    Returns:
        All controls of the run, those of earlier calls included.

    Raises:
        BadInput: the run has not ended, or was not tested.
        GceError: as `gce.train` and `gce.evaluate`.
    """
    context, controls = _begun(name, options)
    wanted = _wanted(chosen)
    left_out = {each: why for each in CONTROLS if (why := CONTROLS[each].unfit(context.facts))}
    controls = Controls({each: row for each, row in controls.rows.items() if each not in left_out}, left_out)
    on_row(controls)
    say = context.watcher.say
    clock, is_checked = SystemClock(), False
    for number, each in enumerate(wanted, 1):
        control, where = CONTROLS[each], f"[{number}/{len(wanted)}] {each}"
        if each in left_out:
            say(f"{where}: left out, {left_out[each]}")
            continue
        asked = control.asked(context.options)
        if _fits(controls.rows.get(each), asked):
            say(f"{where}: kept from an earlier call")
            continue
        say(f"{where}: {control.what}")
        if not is_checked:
            _check_model(context.facts)
            is_checked = True
        began = clock.now()
        row = evolve(control.measure(context), asked=asked, seconds=round(clock.now() - began, 1))
        controls = evolve(controls, rows={**controls.rows, each: row})
        controls = _keep(context.facts, controls)
        say(f"{each}: {duration(row.seconds)}. {conclusions(controls)[each]}")
        on_row(controls)
    return controls


def _begun(name: str, options: ControlOptions) -> tuple[Context, Controls]:
    with open_run(name) as run:
        facts, card = RunFacts.read(run), run.card() or {}
    found = stored(card, name) if card.get("policy") == facts.policy else Controls()
    context = Context(facts, options, Terminal())
    tested = facts.settings.evaluation.test
    if tested < options.n:
        context.watcher.say(f"{name} was tested on {tested} problems per tier: so are its controls")
        context = evolve(context, options=evolve(options, n=tested))
    return context, found


def _wanted(chosen: Sequence[str]) -> list[str]:
    return [name for name in CONTROLS if name in chosen or not chosen]


def _fits(row: Row | None, asked: Mapping[str, Any]) -> bool:
    return row is not None and all(row.asked.get(name) == value for name, value in asked.items())


def _check_model(facts: RunFacts) -> None:
    """BadInput where the run's model is not the one that it ended with: its controls would be of another one."""
    model = find_learning_model(facts.settings, facts.task)
    with open_run(facts.name, verify=False) as run:
        restore(model, run.checkpoint()[1], f"{facts.name}/checkpoints/last", facts.settings.model.name)
    if model.info().identity != facts.policy:
        raise BadInput(f"{facts.settings.model.name} is not the model that {facts.name} ended with: its weights differ")


def _keep(facts: RunFacts, controls: Controls) -> Controls:
    """Write the controls into the run's card, beside what else it has of the same model, and return all of them."""
    with open_run(facts.name, verify=False) as run:
        card: Mapping[str, Any] = run.card() or {}
    others = card if card.get("policy") == facts.policy else {}
    meanwhile = stored(others, facts.name).rows  # By another process, perhaps.
    controls = evolve(controls, rows={**meanwhile, **controls.rows})
    runs_of(facts.name).write_card(facts.name, {**others, "policy": facts.policy, "controls": controls.plain})
    return controls


def estimated_controls(name: str, options: ControlOptions, chosen: Sequence[str] = ()) -> tuple[Table, list[str]]:
    """Return how much work and time each control that is not finished would take, and lines about the estimate.

    Raises:
        BadInput: as `measure_controls`.
    """
    context, controls = _begun(name, options)
    facts, options = context.facts, context.options
    left: dict[str, tuple[Control, ControlWork]] = {}
    for each in _wanted(chosen):
        control = CONTROLS[each]
        if not control.unfit(facts) and not _fits(controls.rows.get(each), control.asked(options)):
            left[each] = (control, control.work(facts, options))
    answers, steps = (sum(getattr(work, kind) for _, work in left.values()) for kind in ("answers", "steps"))
    pace, lines = _pace(facts, options, int(answers)) if left else (None, ["nothing is left to measure"])
    rows = [
        (each, f"{work.answers:,.0f}", f"{work.steps:,.0f}", "-" if pace is None else duration(_seconds(work, pace)))
        for each, (_, work) in left.items()
    ]
    total = ControlWork(answers, steps)
    rows.append(("all", f"{answers:,.0f}", f"{steps:,.0f}", "-" if pace is None else duration(_seconds(total, pace))))
    return Table(("control", "answers, at most", "optimizer steps", "time, about"), tuple(rows)), lines


def _seconds(work: ControlWork, pace: tuple[float, float]) -> float:
    return work.answers * pace[0] + work.steps * pace[1]


def _pace(facts: RunFacts, options: ControlOptions, asked: int) -> tuple[tuple[float, float] | None, list[str]]:
    """Seconds of an answer and of an optimizer step, and how they were measured."""
    settings = changed(facts.settings, {"model.threads": options.threads or facts.settings.model.threads})
    if reason := is_at_hand(settings.model.name):
        return None, [f"time: not measured, as {reason}"]
    model = find_learning_model(settings, facts.task)
    place_adapter(settings, facts.task, model)
    tiers = facts.task.training_tiers(settings.preset)
    found = measure(settings, model, facts.task, tiers, "train", asked=asked, steps=True)
    step = found.step or 0.0
    words = (
        f"measured now: {counted(found.answers, 'answer')} in {found.seconds:.1f} s, one optimizer step in {step:.1f} s"
    )
    return (found.answer, step), [f"{words}; larger batches are faster"]
