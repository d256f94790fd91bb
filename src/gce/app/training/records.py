"""What is stored and shown of a run: the record of an iteration, its rollouts and traces, the summary at the end."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gce import __version__
from gce.app.evaluation.scoring import graded_fields
from gce.app.tables import accuracy_rows, count_words, table
from gce.app.training.rollouts import Rollout, without_failed
from gce.app.training.state import Run, RunState, stored_state
from gce.app.wiring.system import peak_bytes
from gce.domain.admission import mixed
from gce.domain.answers import Answer
from gce.domain.buffer import Buffer, composition
from gce.domain.learning import ModelState, Trace, UpdateReport
from gce.domain.measurements import Interval, IterationRecord, TierCount
from gce.domain.serialization import to_plain
from gce.domain.traces import trace_digest, trace_record

__all__ = [
    "commit",
    "count_tiers",
    "iteration_record",
    "moved_arrays",
    "result_lines",
    "summary_of",
    "versions",
]

UNPARSED = frozenset({"grammar", "missing-answer", "several-answers"})
"""Kinds of violations of answers that could not be read."""
VERSIONED = (*("gguf", "mlx", "mlx-lm", "numpy", "ortools", "peft", "scipy-openblas32", "torch", "transformers"),)
"""Packages whose versions a run keeps."""


def count_tiers(
    tiers: Sequence[str], rollouts: Sequence[Rollout], found: Sequence[tuple[float, bool]], *, admit_at: float
) -> dict[str, TierCount]:
    """Counts by tier, with what each rollout is taken for: its reward, and whether it is a positive."""
    by_tier: dict[str, list[tuple[Rollout, float, bool]]] = {tier: [] for tier in tiers}
    for rollout, (reward, right) in zip(rollouts, found, strict=True):
        by_tier.setdefault(rollout.judged.problem.tier, []).append((rollout, reward, right))
    return {tier: _count_tier(of_tier, admit_at) for tier, of_tier in by_tier.items() if of_tier}


def _count_tier(found: Sequence[tuple[Rollout, float, bool]], admit_at: float) -> TierCount:
    groups: dict[str, list[float]] = defaultdict(list)
    for rollout, reward, _ in found:
        groups[rollout.judged.problem.key].append(reward)
    decided = [group[0] >= admit_at for group in groups.values() if not mixed(group)]
    rollouts = [(rollout, right) for rollout, _, right in found]
    answers = [rollout.judged for rollout, _ in rollouts]
    lengths = [answer.completion.tokens or 0 for answer in answers]
    return TierCount(
        rollouts=len(answers),
        correct=sum(right for _, right in rollouts),
        problems=len(groups),
        all_right=decided.count(True),
        all_wrong=decided.count(False),
        truncated=sum(answer.completion.finish_reason == "length" for answer in answers),
        unparsed=sum(_unparsed(answer) for answer in answers),
        distinct=len({_digest(rollout.judged) for rollout, right in rollouts if right}),
        mean_tokens=sum(lengths) / len(lengths),
        shown=sum(rollout.shown for rollout, _ in rollouts),
        shown_correct=sum(right for rollout, right in rollouts if rollout.shown),
    )


def _unparsed(answer: Answer) -> bool:
    kinds = (violation.kind for verdict in answer.verdicts for violation in verdict.violations)
    return answer.outcome == "unreadable" or any(kind in UNPARSED for kind in kinds)


def _digest(answer: Answer) -> str:
    return trace_digest(answer.problem, answer.completion.text)


def iteration_record(
    run: Run,
    number: int,
    sampled: Sequence[Rollout],
    buffer: Buffer,
    admitted: Sequence[Trace],
    reports: Sequence[UpdateReport],
    dev: Mapping[str, Interval],
    seconds: Mapping[str, float],
) -> IterationRecord:
    """The record of an iteration: what was sampled, admitted, learned and measured."""
    rollouts = without_failed(sampled)
    judged = [rollout.judged for rollout in rollouts]
    as_judged = [(answer.reward or 0.0, answer.right) for answer in judged]
    taken = [report for report in reports if report.tokens]
    return IterationRecord(
        iteration=number,
        tiers=count_tiers(run.tiers, rollouts, as_judged, admit_at=run.task.admit_at),
        buffer=composition(buffer),
        admitted=len(admitted),
        updates=len(taken),
        loss=_mean([report.loss for report in taken]),
        gradient_norm=_mean([report.gradient_norm for report in taken]),
        entropy=_entropy(judged),
        dropped=sum(report.dropped for report in reports),
        dev=dev,
        seconds=seconds,
        failed=Counter(rollout.judged.problem.tier for rollout in sampled if rollout.judged.failed),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _entropy(judged: Sequence[Answer]) -> float | None:
    found = [value for answer in judged for value in answer.completion.log_probabilities or ()]
    return -sum(found) / len(found) if found else None


def commit(
    run: Run, state: RunState, record: IterationRecord, rollouts: Sequence[Rollout], admitted: Sequence[Trace]
) -> None:
    """Store the iteration's rollouts and traces, its record and the state after it, all at once."""
    taken = {trace.key for trace in admitted}
    for rollout in rollouts:
        answer, completion = rollout.judged, rollout.judged.completion
        run.store.append(
            "rollouts",
            {
                "key": completion.key,
                "problem": answer.problem.key,
                "tier": answer.problem.tier,
                "iteration": record.iteration,
                "text": completion.text,
                "finish_reason": completion.finish_reason,
                "policy": completion.policy,
                "right": answer.right,
                "outcome": answer.outcome,
                "admitted": completion.key in taken,
                "shown": rollout.shown,
                "verdicts": to_plain(answer.verdicts),
                **rollout.counts,
                **graded_fields(answer),
            },
        )
    for trace in admitted:
        run.store.append("traces", trace_record(trace))
    run.store.append("iterations", to_plain(record))
    run.store.commit(record.iteration, run.model.state(), stored_state(state))


def summary_of(
    run: Run,
    state: RunState,
    before: Mapping[str, Interval],
    after: Mapping[str, Interval],
    floors: Mapping[str, Mapping[str, Interval]],
    heuristics: Mapping[str, Mapping[str, Interval]],
) -> dict[str, Any]:
    """What `summary.json` holds; its fields are documented in docs/summary.md."""
    settings, info = run.settings, run.model.info()
    return {
        "format": 2,
        "seconds": 0.0,
        "before": to_plain(before),
        "after": to_plain(after),
        "floors": to_plain(floors),
        "heuristics": to_plain(heuristics),
        "first_correct": {tier: state.first_correct.get(tier) for tier in run.tiers},
        "iterations": state.iteration,
        "best": None if state.best is None else {"iteration": state.best[0], "dev": state.best[1]},
        "rollouts": state.rollouts,
        "failed_rollouts": state.failed,
        "correct_traces": state.correct,
        "buffer": len(state.buffer),
        "trainable_parameters": info.trainable_parameters,
        "trainable_share": info.trainable_share,
        "adapted_modules": list(info.adapted_modules),
        "policy": info.identity,
        "peak_bytes": peak_bytes(),
        "config": to_plain(settings),
        "seeds": {"run": settings.seed, "evaluation_problems": 0},
        "versions": versions(),
    }


def moved_arrays(start: ModelState, end: ModelState) -> list[str]:
    """The adapter's arrays that are not what they were."""
    return [
        name.removeprefix("adapter.")
        for name, array in end.arrays.items()
        if name.startswith("adapter.") and not np.array_equal(array, start.arrays[name])
    ]


def versions() -> dict[str, str]:
    """Of Python, the machine and the packages that a result may depend on."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.system()}
    found["gce"] = __version__
    for package in VERSIONED:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def result_lines(tiers: Sequence[str], summary: Mapping[str, Any], rows: Mapping[str, Any]) -> list[str]:
    """The table at the end: before and after beside blind answers and heuristics, on the same test problems."""
    lines = [""]
    if rows["after"]:
        n = count_words(
            {tier: found.n + found.failed for tier, found in rows["after"].items()},
            summary["config"]["evaluation"]["test"],
        )
        lines.append(f"Greedy accuracy on test problems, % (95 % Wilson interval), {n}")
        held_out = [tier for tier in tiers if tier not in summary["first_correct"]]
        lines += table(*accuracy_rows(rows, tiers, held_out)).split("\n")
    if summary["falls"]:
        fell = [
            f"{tier} {100 * (fall['best'] - fall['last']):.0f} points (iteration {fall['iteration']})"
            for tier, fall in summary["falls"].items()
        ]
        lines.append(f"on dev problems the end is below the best of {', '.join(fell)}")
    best = summary["best"]
    if best:
        lines.append(f"best on dev problems: iteration {best['iteration']}, mean {100 * best['dev']:.1f} %")
    lines.append(f"stopped after iteration {summary['iterations']}: {summary['stopped']}")
    lines.append(
        f"{summary['rollouts']:,} rollouts, {summary['correct_traces']:,} correct, {summary['buffer']:,} in the "
        f"buffer, {summary['updates']} updates; peak memory {summary['peak_bytes'] / 2**20:,.0f} MiB; "
        f"{summary['seconds']:,.0f} s"
    )
    return lines
