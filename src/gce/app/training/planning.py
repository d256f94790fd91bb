"""What training would take on more workers: `gce plan`, from a run's own stage times or from those measured here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import fmean, median

from attrs import evolve, frozen

from gce.app.evaluation.stored_runs import iteration_records, stored_settings
from gce.app.progress import duration
from gce.app.tables.layout import table
from gce.app.wiring.executors import RAY, default_threads
from gce.app.wiring.models import HF, HTTP, LLAMA, ONNX
from gce.app.wiring.runs import open_run
from gce.domain.scaling import Cluster, Forecast, Iteration, forecast, largest_part, resized, shares_of
from gce.domain.text import counted
from gce.errors import BadInput
from gce.ports.runs import RunReader

__all__ = ["MEASURED", "WORKERS", "Plan", "plan"]

WORKERS = (1, 8, 64, 1000)
DRIVER = 0.0006
"""Seconds per rollout of the process of the run, measured: see docs/explanation/scaling.md."""
READ = 500
"""Records of rollouts that are read to learn their size."""

MEASURED = Iteration(
    rollouts=512,
    shares=4,
    sampling=20.4,
    learning=7.1,
    dev_shares=2,
    evaluating=22.7,
    tokens=309.0,
    parameters=1_951_104,
    adapter_bytes=655_360,
    record_bytes=1_700,
)
"""An iteration of the default run with `--threads 1`: see docs/explanation/scaling.md."""


@frozen
class Plan:
    """Forecasts of an iteration for several numbers of workers."""

    source: str
    iteration: Iteration
    """With one worker and one learner."""
    iterations: int
    rows: tuple[Forecast, ...]

    def __str__(self) -> str:
        """The table."""
        head = ["workers", "sample", "driver", "learn", "evaluate", "send", "iteration", "speed-up", "tokens/s", "busy"]
        head += ["GB sent", "all", "bound by"]
        priced = any(row.price for row in self.rows)
        rows = []
        for row in self.rows:
            total = row.total * self.iterations
            cells = [f"{row.cluster.workers:,}", *map(_seconds, row.seconds.values())]
            cells += [_seconds(row.total), f"{row.speedup:.1f}", f"{row.tokens:,.0f}", f"{100 * row.busy:.0f} %"]
            cells += [f"{row.sent / 1e9:,.2f}", duration(total), row.bound]
            rows.append([*cells, f"{row.price * self.iterations:,.2f}"] if priced else cells)
        one = self.iteration
        about = (
            f"{counted(self.iterations, 'iteration')} of {one.rollouts:,} rollouts in {counted(one.shares, 'share')}, "
            f"{one.tokens:,.0f} tokens each; a model of {_millions(one.parameters)} parameters, whose adapter takes "
            f"{one.adapter_bytes / 1e6:,.1f} MB"
        )
        return "\n".join([self.source, about, "", table([*head, "price"] if priced else head, rows)])


def plan(
    run: str | Path | None = None,
    *,
    workers: Sequence[int] = WORKERS,
    learners: int = 1,
    model_size: float = 0.0,
    rollouts: int = 0,
    tokens: float = 0.0,
    iterations: int = 0,
    speed: float = 1.0,
    bandwidth: float = 10.0,
    price: float = 0.0,
) -> Plan:
    """What training would take with so many workers.

    Args:
        run: a run whose stage times are taken; MEASURED if there is none.
        workers: numbers of workers, a row each.
        learners: learner processes.
        model_size: parameters of another model than the measured one; 0 for the same.
        rollouts: per iteration; 0 as measured.
        tokens: mean tokens of a rollout, prompt included; 0 as measured.
        iterations: 0 for those of the run, or 6.
        speed: of each worker and learner, relative to the measured ones.
        bandwidth: into each worker, in gigabits per second.
        price: per worker and hour.

    Raises:
        BadInput: the run is not finished, learned nothing, or was made by another program.
    """
    if run is None:
        found, source, done = MEASURED, "the default run, as measured with one thread (docs/explanation/scaling.md)", 6
    else:
        with open_run(run) as reader:
            found, done = measured_in(reader)
        source = f"as measured in {run}"
    found = resized(found, parameters=model_size, rollouts=rollouts, tokens=tokens)
    if rollouts and found.shares > 1:
        found = evolve(found, shares=shares_of(rollouts))
    clusters = (
        Cluster(each, speed=speed, learners=learners, driver=DRIVER, bandwidth=bandwidth / 8 * 1e9, price=price)
        for each in workers
    )
    return Plan(source, found, iterations or done, tuple(forecast(found, each) for each in clusters))


def measured_in(run: RunReader) -> tuple[Iteration, int]:
    """The median iteration of a run as it would be with one worker, and how many iterations it has.

    Raises:
        BadInput: it is not finished, learned nothing, or was made by another program.
    """
    settings, records = stored_settings(run), iteration_records(run)
    summary = run.summary()
    taught = [record for record in records if record.updates and record.tiers]
    if not taught or summary is None:
        raise BadInput(f"expected a finished run that learned from its rollouts, got {run.name}")
    # Worker processes and threads both take whole shares.
    ray = settings.executor.kind == RAY
    workers = settings.executor.workers if ray else settings.model.threads or default_threads()
    sampled = [sum(tier.rollouts for tier in record.tiers.values()) for record in taught]
    rollouts = round(median(sampled))
    answered = round(median(sum(found.n for found in (record.dev or {}).values()) for record in taught))
    # Models of other libraries compute all rollouts of a call together.
    dealt = not settings.model.name.startswith((HF, LLAMA, ONNX, *HTTP))
    shares, dev_shares = (shares_of(rollouts), shares_of(answered)) if dealt else (1, 1)
    state = run.checkpoint()[1]
    sizes = [len(json.dumps(record)) for record in islice(run.read("rollouts"), READ)]
    last = records[-1].metrics
    return Iteration(
        rollouts=rollouts,
        shares=shares,
        sampling=median(record.seconds["sample"] for record in taught) / largest_part(shares, workers),
        learning=median(record.seconds["train"] for record in taught) * settings.optimizer.learner_processes,
        dev_shares=dev_shares,
        evaluating=median(record.seconds["evaluate"] for record in taught) / largest_part(dev_shares, workers),
        tokens=(last.tokens if last else 0) / max(1, sum(sampled)),
        parameters=summary["trainable_parameters"] / summary["trainable_share"],
        adapter_bytes=float(sum(each.nbytes for name, each in state.arrays.items() if name.startswith("adapter."))),
        record_bytes=fmean(sizes) if sizes else 0.0,
    ), len(records)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else duration(seconds)


def _millions(parameters: float) -> str:
    return f"{parameters / 1e9:,.1f} billion" if parameters >= 1e9 else f"{parameters / 1e6:,.1f} million"
