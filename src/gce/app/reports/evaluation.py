"""What a run's model gets right: on test problems, on dev problems over iterations, and how far that can be trusted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from gce.app.evaluation.baselines import conclusion, shortcut_margins
from gce.app.evaluation.one_outcome import cut_off_words
from gce.app.evaluation.rewards import MOMENTS
from gce.app.evaluation.scoring import stored_shares
from gce.app.evaluation.shifts import distribution_parts
from gce.app.reports.controls import control_sections
from gce.app.reports.run import ReportedRun, Shares
from gce.app.reports.section import Section
from gce.app.settings.records import parts_of_warm_up
from gce.app.shown import Part
from gce.app.studies.controls.conclusions import stored
from gce.app.tables.cells import count_words, coverage_cell, difference_cell, gain_line, share_cell
from gce.app.tables.evaluators import evaluator_parts
from gce.app.tables.geometry import geometry_parts
from gce.app.tables.summary import BEST_BLIND, accuracy_rows, reward_rows, score_tables
from gce.app.training.cut_off import cut_off_in, rollouts_cut_off
from gce.app.training.forgetting import FORGETTING, forgetting_parts
from gce.app.training.records import SHIFTS, shift_rows
from gce.app.training.same_answer import stored_same_answer
from gce.app.training.unearned import stored_unearned, unearned_table, unearned_words
from gce.domain.evaluators.comparison import EvaluatorScores
from gce.domain.figures import Bars, Lines, Measured, Points, Table
from gce.domain.forgetting import Forgetting
from gce.domain.paired import Gain
from gce.domain.serialization import from_plain
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = [
    "compared_sections",
    "dev_section",
    "evaluator_sections",
    "forgetting_sections",
    "geometry_sections",
    "result_section",
    "shift_sections",
    "validity_sections",
]


def result_section(run: ReportedRun) -> Section:
    """What the run is and how far it has come; test accuracy beside prompt-blind baselines and heuristics."""
    settings, summary = run.settings, run.summary
    words = [f"{run.model_name} on {run.task_name}/{settings.preset}, seed {settings.seed}."]
    if summary is None:
        parts = sum(not record.tiers for record in run.records)
        steps = settings.demonstrations.warm_up - sum(record.updates for record in run.records)
        last = settings.stopping.iterations + parts + parts_of_warm_up(max(0, steps))
        wanted = f" of {last}" if len(run.records) <= last else ""
        words.append(f"The run is in progress, or was interrupted: {len(run.records)}{wanted} iterations.")
    else:
        words.append(
            f"{counted(summary['rollouts'], 'rollout')}, {summary['correct_traces']:,} right, "
            f"{counted(summary['updates'], 'update')}, {summary['seconds']:,.0f} s; {summary['stopped']}."
        )
    words += _cut_off(run)
    words += [f"W{line[1:]}." for line in stored_same_answer(summary or {})]
    rows = {
        "before": run.shares("before"),
        "after": run.shares("after"),
        BEST_BLIND: run.blind,
        **{f"heuristic {name}": stored_shares(row) for name, row in (summary or {}).get("heuristics", {}).items()},
    }
    rows = {name: row for name, row in rows.items() if row}
    if not rows:
        return Section("Result", (*words, "No test problems have been answered yet."))
    words.append(f"Greedy accuracy on test problems in % with 95 % Wilson intervals, {_problems(run, rows)}.")
    if any(name.startswith("heuristic ") for name in rows):
        words.append("Heuristics are reference rules: simple programs that read the whole problem.")
    words += _gains(summary or {})
    trained = (summary or {}).get("first_correct") or run.trained
    held_out = [tier for tier in run.tiers if trained and tier not in trained]
    rewards = {f"heuristic {name}" if f"heuristic {name}" in rows else name: row for name, row in run.rewards.items()}
    shown = score_tables(rows, rewards, run.tiers, held_out)
    tables = [each for each in shown if isinstance(each, Table)]
    drawn = [_bars("result", "Accuracy on test problems", rows)]
    if run.rewards:
        drawn.append(_bars("result-reward", "Mean reward on test problems", run.rewards, unit="mean reward"))
    if unearned := stored_unearned(summary or {}):
        seen, meaning, where = unearned_words(unearned, task=settings.task, run=run.name)
        words += [f"Warning: {seen}.", f"{meaning} are in the table below. {where}."]
        tables.append(unearned_table(unearned))
    after = rows.get("after")
    if after and run.blind:
        gaps = shortcut_margins(after, run.blind)
        cells = (difference_cell(gaps[tier], digits=0) if tier in gaps else "-" for tier in run.tiers)
        row = ("after - best prompt-blind", *cells)
        tables.append(Table(("shortcut margin, points", *run.tiers), (row,)))
        words.append(conclusion(run.floors, graded=bool(run.rewards)))
    return Section("Result", tuple(words), tuple(tables), tuple(drawn))


def _problems(run: ReportedRun, rows: Mapping[str, Shares]) -> str:
    """How many test problems the tiers of these rows have."""
    sizes = {
        tier: max(row[tier].n + row[tier].failed for row in rows.values() if tier in row)
        for tier in run.tiers
        if any(tier in row for row in rows.values())
    }
    return count_words(sizes, run.settings.evaluation.test)


def _gains(summary: Mapping[str, Any]) -> list[str]:
    """The paired gain of accuracy, and of graded rewards, where the test was taken twice."""
    graded = summary.get("mean_reward", {})
    lines = [gain_line(from_plain(Gain, summary["gain"]))] if "gain" in summary else []
    lines += [gain_line(from_plain(Gain, graded["gain"]), rewards=True)] if "gain" in graded else []
    return [f"Paired gain, {line}." for line in lines]


def _cut_off(run: ReportedRun) -> list[str]:
    """The warning where many answers were cut off; of a run in progress, of its rollouts."""
    if run.summary is not None:
        rollouts = run.settings.rollouts
        found = cut_off_in(run.summary, limit=rollouts.max_tokens, early_stop=rollouts.early_stop)
        return [f"W{line[1:]}." for line in found]
    said = cut_off_words("rollouts", *rollouts_cut_off(run.records))
    return [f"Warning: {said}."] if said else []


def _bars(name: str, title: str, rows: Mapping[str, Mapping[str, Measured]], **unit: str) -> Bars:
    shown = {
        row: {tier: each for tier, each in found.items() if each.n}
        for row, found in rows.items()
        if row in ("before", "after", BEST_BLIND)
    }
    return Bars(name, title, shown, **unit)


def shift_sections(run: ReportedRun) -> list[Section]:
    """Accuracy on distribution shifts beside that on the task as asked; nothing where none was measured."""
    if run.summary is None:
        return []
    found = shift_rows(run.summary, [tier for tier in run.tiers if tier not in run.trained])
    if not found:
        return []
    parts = distribution_parts(found)
    words = tuple(part for part in parts if isinstance(part, str))
    return [
        Section("Distribution shifts", (f"{SHIFTS}.", *words), tuple(each for each in parts if isinstance(each, Table)))
    ]


def forgetting_sections(run: ReportedRun) -> list[Section]:
    """What training cost elsewhere; nothing where it was not measured."""
    plain = (run.summary or {}).get("forgetting")
    if plain is None:
        return []
    return [_of_parts("Forgetting", [f"{FORGETTING}.", *forgetting_parts(from_plain(Forgetting, plain))])]


def evaluator_sections(run: ReportedRun) -> list[Section]:
    """What several evaluators said before and after training; nothing where the verifier was alone."""
    plain = (run.summary or {}).get("evaluators")
    if plain is None:
        return []
    return [_of_parts("Evaluators", evaluator_parts(from_plain(EvaluatorScores, plain)))]


def geometry_sections(run: ReportedRun) -> list[Section]:
    """The path through the space of scores beside its nulls; nothing where the verifier was alone."""
    if run.path is None:
        return []
    section = _of_parts("Path of the scores", geometry_parts(run.path))
    words = (
        *section.words,
        "The path of the rollouts' mean scores, by evaluator and tier, standardised, on their first two principal "
        "components. Problems differ between iterations, which alone makes a path: conclude from the p values only.",
    )
    panels: dict[str, Points] = {
        "path": {"iterations": [step.state for step in run.path.steps]},
        "first component": {"first": [(float(step.iteration), step.state[0]) for step in run.path.steps]},
    }
    axes = {"path": ("first component", "second component"), "first component": ("iteration", "first component")}
    drawn = Lines("geometry", "Path of the mean scores", panels, axes=axes)
    return [evolve(section, words=words, figures=(drawn,))]


def _of_parts(title: str, parts: Sequence[Part]) -> Section:
    """A section of what a terminal shows, sentences before tables."""
    words = tuple(part for part in parts if isinstance(part, str))
    return Section(title, words, tuple(part for part in parts if isinstance(part, Table)))


def dev_section(run: ReportedRun) -> Section:
    """Accuracy on dev problems over iterations."""
    looks = _looks([(record.iteration, record.dev) for record in run.records], run.tiers)
    if not looks:
        return Section("Accuracy over iterations", ("There was no evaluation on dev.",))
    drawn = [Lines("dev", "Greedy accuracy on dev problems, %", {}, shares=tuple(looks), intervals=looks)]
    if rewards := _looks([(record.iteration, record.dev_reward) for record in run.records], run.tiers):
        drawn.append(Lines("dev-reward", "Mean reward on dev problems", {}, intervals=rewards))
    return Section(
        "Accuracy over iterations",
        ("Evaluations on dev, with 95 % Wilson intervals. Curves that still rise suggest more iterations.",),
        (),
        tuple(drawn),
    )


def _looks(
    measured: Sequence[tuple[int, Mapping[str, Measured]]], tiers: Sequence[str]
) -> dict[str, dict[str, list[tuple[float, Measured]]]]:
    """A panel for each tier that was evaluated."""
    looks = {tier: [(float(n), row[tier]) for n, row in measured if tier in row and row[tier].n] for tier in tiers}
    return {tier: {tier: found} for tier, found in looks.items() if found}


def validity_sections(run: ReportedRun) -> list[Section]:
    """What `gce validity` measured; nothing where it has not."""
    card = run.card
    if card is None:
        return []
    try:
        if card.get("policy") != (run.summary or {}).get("policy"):
            return [
                Section("Validity card", ("The card is from before the run was continued: run gce validity again.",))
            ]
        controls = control_sections(stored(card, run.name)) if "controls" in card else []
        if "lines" not in card and controls:
            return controls
        rows = tuple(
            (
                line["what"],
                share_cell(line["value"], line["low"], line["high"]) if line["n"] else "-",
                str(line["n"]),
                coverage_cell(line["n"] / (line["n"] + failed) if (failed := line.get("failed", 0)) else 1.0),
            )
            for line in card["lines"]
        )
        return [
            Section("Validity card", tuple(card["words"]), (Table(("", "% (95 %)", "n", "coverage"), rows),)),
            *controls,
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"{run.name}/validity.json is not a validity card: run gce validity again, or delete it"
        ) from error


def compared_sections(runs: Sequence[ReportedRun]) -> list[Section]:
    """Runs on the same problems side by side; a section for each kind of problems that several runs have."""
    kinds: dict[tuple[str, str], list[ReportedRun]] = defaultdict(list)
    for run in runs:
        kinds[run.task_name, run.settings.preset].append(run)
    found = []
    for (task, preset), group in kinds.items():
        rows: dict[str, Shares] = {}
        sizes: dict[str, str] = {}
        for run in group:
            shares = {what: run.shares(what) for what in MOMENTS if run.shares(what)}
            rows |= {f"{run.label}, {what}": share for what, share in shares.items()}
            sizes |= {run.label: _problems(run, shares)} if shares else {}
        if len(group) < 2 or not rows:
            continue
        table = Table(*accuracy_rows(rows, group[0].tiers))
        same = len(set(sizes.values())) == 1
        n = next(iter(sizes.values())) if same else "; ".join(f"{label}: {each}" for label, each in sizes.items())
        after = {name.removesuffix(", after"): row for name, row in rows.items() if name.endswith(", after")}
        graded = {f"{run.label}, {what}": run.rewards[what] for run in group for what in MOMENTS if what in run.rewards}
        tables = (table, Table(*reward_rows(graded, group[0].tiers))) if graded else (table,)
        title = f"Runs compared on {task}/{preset}"
        drawn = [Bars(f"compared-{task}-{preset}", f"Accuracy on test problems, {n}", after)] if after else []
        rewards = {run.label: run.rewards["after"] for run in group if "after" in run.rewards}
        if rewards:
            name = f"compared-{task}-{preset}-reward"
            drawn.append(Bars(name, "Mean reward on test problems", rewards, unit="mean reward"))
        found.append(Section(title, (f"Test accuracy in %, 95 % Wilson intervals, {n}.",), tables, tuple(drawn)))
    return found
