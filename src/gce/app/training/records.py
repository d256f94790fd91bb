"""What is stored and shown of a run: the record of an iteration, its rollouts and traces, the summary at the end."""

from __future__ import annotations

import importlib.metadata
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import stdev
from typing import Any

import numpy as np
from attrs import evolve

from gce import __version__
from gce.app.evaluation.answer_file import stored_answer
from gce.app.evaluation.baselines import best_of, conclusion, heuristics_line, reference_rows
from gce.app.evaluation.comparison import stored_gain
from gce.app.evaluation.rewards import (
    Rewards,
    from_stored,
    is_graded,
    reference_rewards,
    rewards_of_answers,
    rewards_of_run,
)
from gce.app.evaluation.scoring import accuracy, answer_record, stored_shares
from gce.app.evaluation.shifts import AS_ASKED, Distribution, distribution_parts, stored_distribution
from gce.app.settings.records import EvaluatorSettings
from gce.app.shown import Part
from gce.app.tables.cells import closing_line, count_words, gain_line
from gce.app.tables.evaluators import evaluator_parts
from gce.app.tables.summary import BEST_BLIND, means_beside_blind, score_tables
from gce.app.training.cut_off import cut_off_in
from gce.app.training.forgetting import FORGETTING, forgetting_parts
from gce.app.training.same_answer import stored_same_answer
from gce.app.training.sampling import Rollout, without_failed
from gce.app.training.state import Run, RunState, stored_state
from gce.app.training.unearned import stored_unearned, unearned_lines
from gce.app.wiring.system import peak_bytes
from gce.domain.answers import Answer
from gce.domain.baselines import PolicyScore
from gce.domain.buffer import Buffer, composition
from gce.domain.evaluators.comparison import EvaluatorScores, compare_evaluators
from gce.domain.evaluators.judges import judge_rows
from gce.domain.forgetting import Forgetting
from gce.domain.learning import ModelState, Trace, UpdateReport
from gce.domain.measurements import Counted, Interval, IterationRecord, TierCount, TrainingMetrics, count_tier
from gce.domain.paired import Gain
from gce.domain.serialization import from_plain, to_plain
from gce.domain.statistics import mean_over_tiers
from gce.domain.text import counted
from gce.domain.traces import trace_digest, trace_record
from gce.ports.runs import RunReader

__all__ = [
    "ALL_ITERATIONS",
    "SHIFTS",
    "commit",
    "evaluators_between_tests",
    "gain_between_tests",
    "iteration_record",
    "mean_rewards",
    "moved_arrays",
    "result_parts",
    "shift_rows",
    "stored_rewards",
    "summary_of",
    "versions",
]

ALL_ITERATIONS = "all iterations"
"""How the usual reason to stop begins."""
SHIFTS = "Distribution shifts: greedy accuracy on test problems after training, % (95 % Wilson interval)"
VERSIONED = (*("gguf", "mlx", "mlx-lm", "numpy", "ortools", "peft", "scipy-openblas32", "torch", "transformers"),)
"""Packages whose versions a run keeps."""


def _count_tiers(run: Run, rollouts: Sequence[Rollout]) -> dict[str, TierCount]:
    """What rollouts that did not fail showed as they were judged, by tier."""
    by_tier: dict[str, list[Counted]] = {tier: [] for tier in run.tiers}
    for each in rollouts:
        answer = each.judged
        digest = trace_digest(answer.problem, answer.completion.text)
        by_tier.setdefault(answer.problem.tier, []).append(Counted(answer, digest, each.tokens or 0, each.shown))
    return {tier: count_tier(found, admit_at=run.task.admit_at) for tier, found in by_tier.items() if found}


def iteration_record(
    run: Run,
    state: RunState,
    sampled: Sequence[Rollout],
    buffer: Buffer,
    admitted: Sequence[Trace],
    reports: Sequence[UpdateReport],
    dev: Sequence[Answer],
    seconds: Mapping[str, float],
    apart: float | None = None,
    *,
    staleness: int = 0,
) -> IterationRecord:
    """The record of the iteration after `state`: what was sampled, admitted, learned and measured.

    `apart` is the difference of learner and sampler where the steps do not tell it. `staleness`: see `Sampled`.
    """
    rollouts = without_failed(sampled)
    taken = [report for report in reports if report.tokens]
    return IterationRecord(
        iteration=state.iteration + 1,
        tiers=_count_tiers(run, rollouts),
        buffer=composition(buffer),
        admitted=len(admitted),
        updates=len(taken),
        loss=_mean([report.loss for report in taken]),
        gradient_norm=_mean([report.gradient_norm for report in taken]),
        entropy=_entropy(rollouts),
        dropped=sum(report.dropped for report in reports),
        dev=accuracy(dev),
        dev_reward=rewards_of_answers(dev),
        seconds=seconds,
        failed=Counter(rollout.judged.problem.tier for rollout in sampled if rollout.judged.failed),
        metrics=_metrics(run, state, rollouts, taken, apart),
        saved=_saved(run, sampled),
        credit_tokens=_credit_tokens(sampled),
        staleness=staleness,
    )


def _saved(run: Run, sampled: Sequence[Rollout]) -> int:
    """How many rollouts fewer than the fixed number for each problem; a second wave does not count."""
    settings, drawn = run.settings.rollouts, Counter(rollout.judged.problem.key for rollout in sampled)
    if settings.governor == "fixed":
        return 0
    return sum(max(0, settings.samples - count) for count in drawn.values())


def _credit_tokens(rollouts: Sequence[Rollout]) -> int:
    return sum(each.values.cost for each in rollouts if each.values is not None)


def _metrics(
    run: Run, state: RunState, rollouts: Sequence[Rollout], taken: Sequence[UpdateReport], apart: float | None
) -> TrainingMetrics:
    rewards = [each.judged.reward or 0.0 for each in rollouts]
    lengths = [each.tokens for each in rollouts if each.tokens is not None]
    first = taken[0].logp_difference if taken else None
    return TrainingMetrics(
        reward=_mean(rewards),
        reward_std=stdev(rewards) if len(rewards) > 1 else None,
        learning_rate=taken[-1].rate * run.settings.optimizer.learning_rate if taken else None,
        kl=_mean([report.kl for report in taken]),
        approx_kl=_mean([report.approx_kl for report in taken]),
        clipped_low=_mean([report.clipped_low for report in taken]),
        clipped_high=_mean([report.clipped_high for report in taken]),
        logp_difference=apart if first is None else first,
        max_logp_difference=taken[0].max_logp_difference if taken else None,
        max_length=max(lengths, default=None),
        tokens=state.tokens
        + sum(lengths)
        + sum(each.prompt_tokens or 0 for each in rollouts)
        + _credit_tokens(rollouts),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _entropy(rollouts: Sequence[Rollout]) -> float | None:
    found = [value for rollout in rollouts for each in rollout.written for value in each.log_probabilities or ()]
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
                **answer_record(answer),
                "iteration": record.iteration,
                "admitted": completion.key in taken,
                "shown": rollout.shown,
                **rollout.counts,
                **({} if rollout.values is None else {"values": to_plain(rollout.values)}),
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
    saved = sum(record.get("saved", 0) for record in run.store.read("iterations"))
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
        **({"rollouts_saved": saved} if saved else {}),
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


def mean_rewards(run: RunReader, blind: Sequence[PolicyScore], heuristics: Sequence[PolicyScore]) -> dict[str, Any]:
    """What the summary also holds where a reward is neither 0 nor 1: mean rewards of the answers to test problems."""
    tested, floors, others = rewards_of_run(run), reference_rewards(blind), reference_rewards(heuristics)
    if not is_graded([*tested.values(), *floors.values(), *others.values()]):
        return {}
    found = to_plain({**tested, "floors": floors, "heuristics": others})
    return {"mean_reward": found | gain_between_tests(run, rewards=True)}


def gain_between_tests(run: RunReader, *, rewards: bool = False) -> dict[str, Any]:
    """What the summary also holds where the test was taken twice: how its answers differ, paired by problem."""
    gain = stored_gain(run.each_answer("test-before"), run.each_answer("test-after"), rewards=rewards)
    return {} if gain is None else {"gain": to_plain(gain)}


def evaluators_between_tests(run: RunReader, settings: EvaluatorSettings) -> dict[str, Any]:
    """What the summary also holds where further evaluators scored both tests: see `compare_evaluators`."""
    if not settings.beside:
        return {}
    before, after = (map(stored_answer, run.each_answer(f"test-{moment}")) for moment in ("before", "after"))
    found = compare_evaluators(before, after, settings.weights, settings.hold_out)
    everything = chain(run.each_answer("test-before"), run.each_answer("test-after"), run.read("rollouts"))
    judges = judge_rows(everything, settings.beside, repeats=settings.judge_repeats) if settings.judges else ()
    return {"evaluators": to_plain(evolve(found, judges=judges))}


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


def _below(after: Mapping[str, Interval], best_blind: Mapping[str, Interval]) -> str:
    """The name of the row after training where its mean is not above that of the best prompt-blind baseline."""
    found, blind = (mean_over_tiers(each.values()) for each in (after, best_blind))
    return "after" if found is not None and blind is not None and found.value <= blind.value else ""


def result_parts(tiers: Sequence[str], summary: Mapping[str, Any], run: str) -> list[Part]:
    """The table at the end: before and after beside prompt-blind baselines and heuristics, on the same problems.

    `run` is the run's name.
    """
    lines: list[Part] = [""]
    after = stored_shares(summary["after"])
    held_out = [tier for tier in tiers if tier not in summary["first_correct"]]
    if after:
        floors, heuristics = (_stored_rows(summary[name]) for name in ("floors", "heuristics"))
        before = {"before": stored_shares(summary["before"])} if summary["before"] else {}
        rows = {**before, "after": after, **reference_rows(floors, heuristics)}
        n = count_words(
            {tier: found.n + found.failed for tier, found in after.items()}, summary["config"]["evaluation"]["test"]
        )
        lines.append(f"Greedy accuracy on test problems, % (95 % Wilson interval), {n}")
        rewards = stored_rewards(summary)
        lines += score_tables(rows, {name: row for name, row in rewards.items() if name in rows}, tiers, held_out)
        if "gain" in summary:
            lines.append(gain_line(from_plain(Gain, summary["gain"])))
        if rewards and "gain" in summary["mean_reward"]:
            lines.append(gain_line(from_plain(Gain, summary["mean_reward"]["gain"]), rewards=True))
        lines += [_conclusion(summary, after, floors)] if floors else []
        lines += heuristics_line(heuristics)
        if "gain" in summary:
            lines.append(_result_line(summary, sum(each.n for each in after.values()), rewards))
    if "evaluators" in summary:
        lines += ["", *evaluator_parts(from_plain(EvaluatorScores, summary["evaluators"]))]
    rollouts = summary["config"]["rollouts"]
    if cut_off := cut_off_in(summary, limit=rollouts["max_tokens"], early_stop=rollouts.get("early_stop", 0.0)):
        lines += ["", *cut_off]
    if same := stored_same_answer(summary):
        lines += ["", *same]
    if unearned := stored_unearned(summary):
        lines += ["", *unearned_lines(unearned, task=summary["config"]["task"], run=run)]
    if found := shift_rows(summary, held_out):
        lines += ["", SHIFTS, *distribution_parts(found), ""]
    if "forgetting" in summary:
        measured = from_plain(Forgetting, summary["forgetting"])
        lines += ["", *([FORGETTING] if measured.tasks else []), *forgetting_parts(measured), ""]
    if summary["falls"]:
        fell = [
            f"{tier} {100 * (fall['best'] - fall['last']):.0f} points (iteration {fall['iteration']})"
            for tier, fall in summary["falls"].items()
        ]
        lines.append(f"on dev problems, the last accuracy is below the best: {', '.join(fell)}")
    best = summary["best"]
    if best:
        last = summary["iterations"]
        other = f"; 'after' is the last iteration, {last}" if after and best["iteration"] != last else ""
        lines.append(f"best on dev problems: iteration {best['iteration']}, mean {100 * best['dev']:.1f} %{other}")
    if not summary["stopped"].startswith(ALL_ITERATIONS):
        lines.append(f"stopped after iteration {summary['iterations']}: {summary['stopped']}")
    lines.append(
        f"{counted(summary['rollouts'], 'rollout')}{_saved_words(summary)}, {summary['correct_traces']:,} correct, "
        f"{summary['buffer']:,} in the buffer, {counted(summary['updates'], 'update')}; peak memory "
        f"{summary['peak_bytes'] / 2**20:,.0f} MiB; {summary['seconds']:,.0f} s"
    )
    return lines


def _conclusion(
    summary: Mapping[str, Any], after: Mapping[str, Interval], floors: Mapping[str, Mapping[str, Interval]]
) -> str:
    """What the best prompt-blind baseline means; the result's line has where the mean reward stands beside it."""
    if "mean_reward" not in summary:
        return conclusion(floors, graded=False, below=_below(after, best_of(floors)))
    graded: dict[str, Rewards] = {name: from_stored(row) for name, row in summary["mean_reward"]["floors"].items()}
    return conclusion(graded, graded=True)


def _result_line(summary: Mapping[str, Any], n: int, rewards: Mapping[str, Rewards]) -> str:
    """What the tests on `n` problems show, and where the mean reward stands beside the best prompt-blind baseline."""
    plain = summary.get("mean_reward", {}).get("gain")
    reward = None if plain is None else from_plain(Gain, plain)
    return closing_line(from_plain(Gain, summary["gain"]), reward, n, means_beside_blind(rewards))


def _saved_words(summary: Mapping[str, Any]) -> str:
    """How many the governor saved, where it saved any."""
    saved = summary.get("rollouts_saved", 0)
    return f" ({saved:,} of {saved + summary['rollouts'] + summary['failed_rollouts']:,} saved)" if saved else ""


def shift_rows(summary: Mapping[str, Any], held_out: Sequence[str]) -> dict[str, Distribution]:
    """The distributions whose accuracy a summary holds: the task as asked, where it was tested, and its shifts.

    Args:
        summary: of a run; nothing is returned where it measured no shifts.
        held_out: tiers of the run's preset that training did not sample.
    """
    shifts = {what: stored_distribution(plain) for what, plain in summary.get("shifts", {}).items()}
    after, config = stored_shares(summary["after"]), summary["config"]
    if not (shifts and after):
        return shifts
    problems = {tier: found.n + found.failed for tier, found in after.items()}
    blind = best_of(_stored_rows(summary["floors"]))
    task, preset, asked = config["task"], config["preset"], config["evaluation"]["test"]
    return {AS_ASKED: Distribution(task, preset, after, blind, problems, asked, tuple(held_out)), **shifts}


def stored_rewards(summary: Mapping[str, Any]) -> dict[str, Rewards]:
    """The mean rewards that a summary holds, by the rows of the table of accuracy; none where each is 0 or 1."""
    if "mean_reward" not in summary:
        return {}
    found = summary["mean_reward"]
    floors, heuristics = (
        {name: from_stored(row) for name, row in found[each].items()} for each in ("floors", "heuristics")
    )
    rows: dict[str, Rewards] = {moment: from_stored(found[moment]) for moment in ("before", "after")}
    rows |= {BEST_BLIND: best_of(floors), **heuristics}
    return {name: row for name, row in rows.items() if row}


def _stored_rows(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Interval]]:
    return {name: stored_shares(row) for name, row in rows.items()}
