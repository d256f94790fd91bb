"""The loop: plan, sample, judge, admit, learn, measure, commit; again.

Each iteration takes the state that the one before left and leaves the next one, which is committed before it is handed
out. Nothing here knows a vendor, a terminal or a particular task.
"""

from __future__ import annotations

from collections.abc import Iterator

from gce.app.evaluation.scoring import RESUME, ask, check_answers
from gce.app.training.ahead import Sampling, sampling
from gce.app.training.credit import credited
from gce.app.training.cut_off import first_cut_off
from gce.app.training.first_wave import first_wave_lines
from gce.app.training.records import ALL_ITERATIONS, commit, iteration_record
from gce.app.training.sampler_difference import sampler_difference
from gce.app.training.sampling import Sampled, rewards_by_tier, without_failed
from gce.app.training.state import Run, RunState, next_state
from gce.app.training.time_limit import in_minutes, is_over, stage
from gce.app.training.updates import admit_traces, learn, warm_up
from gce.domain.answers import Answer
from gce.domain.measurements import IterationRecord
from gce.domain.text import counted

__all__ = ["iterate", "why_stop"]


def iterate(run: Run, state: RunState) -> Iterator[tuple[RunState, IterationRecord]]:
    """One iteration after another, each committed before it is handed out, until there is a reason to stop.

    Raises:
        TimeIsUp: the run's time is over within an iteration, of which nothing is committed.
    """
    with sampling(run) as sample:
        while not why_stop(run, state):
            state, record = _iteration(run, state, sample)
            yield state, record


def _iteration(run: Run, state: RunState, sample: Sampling) -> tuple[RunState, IterationRecord]:
    number = state.iteration + 1
    warming_up = state.updates < run.settings.demonstrations.warm_up
    wave = Sampled(state.drawn, [], 0.0) if warming_up else sample(state, number)

    began = run.clock.now()
    sampled = credited(run, number, wave.rollouts)
    rollouts = without_failed(sampled)
    showed = rewards_by_tier(run.tiers, rollouts)
    if not warming_up and state.iteration == state.warm_ups:
        for line in first_wave_lines(run, rollouts):
            run.watcher.say(line)
    elif cut_off := first_cut_off(run, rollouts):
        run.watcher.say(cut_off)
    apart = None if warming_up else sampler_difference(run, number, rollouts)
    buffer, admitted = admit_traces(run, state.buffer, number, rollouts)
    reports = warm_up(run, state) if warming_up else learn(run, number, buffer, rollouts, showed)
    updates = state.updates + len(reports)

    learned = run.clock.now()
    dev = _dev_answers(run) if _dev_is_due(run, state, updates, warming_up=warming_up) else []
    looked = run.clock.now()

    seconds = {"sample": wave.seconds, "train": learned - began, "evaluate": looked - learned}
    record = iteration_record(
        run, state, sampled, buffer, admitted, reports, dev, seconds, apart, staleness=wave.staleness
    )
    state = next_state(state, record, showed, wave.drawn, buffer, updates, warming_up=warming_up)
    commit(run, state, record, sampled, admitted)
    run.watcher.iteration(record)
    return state, record


def _dev_is_due(run: Run, state: RunState, updates: int, *, warming_up: bool) -> bool:
    """After the warm-up, after every `dev_every` iterations, and after the last one."""
    number, settings = state.iteration + 1, run.settings
    if warming_up:
        return updates >= settings.demonstrations.warm_up
    return number % settings.evaluation.dev_every == 0 or number - state.warm_ups == settings.stopping.iterations


def _dev_answers(run: Run) -> list[Answer]:
    settings = run.settings
    if not run.dev:
        return []
    advance = stage(run, "evaluate", len(run.dev))
    seed, max_tokens = settings.seed, settings.rollouts.max_tokens
    answers = ask(run.model, run.task, run.evaluator, run.dev, seed=seed, max_tokens=max_tokens, on_answer=advance)
    check_answers("dev problems", answers, settings.stopping.min_coverage, hint=RESUME)
    return answers


def why_stop(run: Run, state: RunState) -> str:
    """The reason to begin no further iteration, in words, or nothing."""
    stopping = run.settings.stopping
    warming_up = state.updates < run.settings.demonstrations.warm_up
    if not warming_up and state.iteration - state.warm_ups >= stopping.iterations:
        return f"{ALL_ITERATIONS}{' after the warm-up' if state.warm_ups else ''} done"
    if stopping.until is not None and state.best is not None and state.best[1] >= stopping.until:
        return f"dev accuracy reached {stopping.until:.0%} in iteration {state.best[0]}"
    if stopping.patience is not None and state.looks_since_best >= stopping.patience:
        return f"no gain on dev problems in {counted(stopping.patience, 'look')}"
    if run.deadline is not None:
        records = list(run.store.read("iterations"))
        # A warm-up, without rollouts, says nothing of how long the first iteration with them takes.
        tells = records and (warming_up or records[-1]["tiers"])
        if is_over(run, needed=sum(records[-1]["seconds"].values()) if tells else 0.0):
            return f"another iteration would exceed {in_minutes(stopping.minutes or 0.0)}"
    return ""
