"""What a performance run shows: tables and figures of its attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gce.app.performance.judging import judgements
from gce.app.performance.plans import Plan
from gce.app.performance.stages import Row, rows_of
from gce.app.reports.report import Report
from gce.app.reports.section import Section
from gce.domain.figures import Figure, Lines, Ratios, Stacks, Table
from gce.domain.performance.agents import CONTROLS
from gce.domain.performance.decision import Comparison
from gce.domain.performance.judging import SCORES, Judged, agreement
from gce.domain.performance.overlap import GAINS, Quadrant
from gce.domain.performance.summary import fast_p, geometric_mean, harmonic_mean, speedup
from gce.domain.statistics import Estimate, mean_of_problems
from gce.domain.text import counted

__all__ = ["performance_report", "performance_sections"]

_QUADRANTS: tuple[Quadrant, ...] = ("true success", "right target but failed", "lucky win", "neither")
_EMPTY = ("nothing", "revert")
"""Controls that change nothing."""
_MOST_REASON = 200
_NO_LIMIT = 1e100
_LEAST = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
"""Speed-ups for which shares are shown."""


def performance_report(run: Path) -> Report:
    """Return the report of a run, also of one that goes on; BadInput where there is none."""
    plan, rows = rows_of(run)
    return Report(f"Performance run {run.name}", performance_sections(plan, rows, judgements(run)))


def performance_sections(
    plan: Plan, every: Sequence[Row], judged: Mapping[str, Mapping[str, Judged]]
) -> tuple[Section, ...]:
    """Return the sections about the attempts that were measured so far, and what judges said of them, by judge."""
    attempts, rows = _all(plan, every), [row for row in every if not row.comparison.failed]
    done = f"{len(rows)} of {counted(len(plan.items), 'attempt')} measured"
    if len(rows) < len(every):
        done += f", {len(every) - len(rows)} failed for reasons of the infrastructure and in no figure below"
    if not rows:
        return (Section("Attempts", (f"{done}.",), attempts.tables if every else ()),)
    judges = [_judge(name, plan, rows, said) for name, said in judged.items()]
    shown = (_agents(plan, rows, done), _speed_ups(plan, rows), _quadrants(plan, rows), *judges)
    return (*shown, _costs(plan, rows), attempts)


def _agents(plan: Plan, rows: Sequence[Row], done: str) -> Section:
    counts_of = ("agent", "attempts", "correct", "faster", "human level")
    head = (*counts_of, "speed-up (95 %)", "reward (95 %)", "harmonic mean", "US dollars")
    cells = []
    for agent in plan.agents:
        own = [row for row in rows if row.item.agent == agent]
        if not own:
            continue
        tasks = _by_task(own)
        every = [row.comparison for row in own]
        rewards = [sum(each.reward for each in several) / len(several) for several in tasks.values()]
        costs = [row.attempt.usage.cost for row in own]
        known = [cost for cost in costs if cost is not None]
        cost = f"{sum(known):.2f}{'' if len(known) == len(costs) else ' and unknown'}" if known else "-"
        correct = sum(each.verdict != "incorrect" for each in every)
        level = sum(each.verdict in ("matches the human", "beats the human") for each in every)
        counts = (len(every), correct, sum(each.verdict in GAINS for each in every), level)
        means = (_interval(geometric_mean(tasks)), _interval(mean_of_problems(rewards)), f"{harmonic_mean(tasks):.2f}")
        cells.append((agent, *map(str, counts), *means, cost))
    empty = [row for row in rows if row.item.agent in _EMPTY]
    gained = [row.item.key for row in empty if row.comparison.verdict in GAINS]
    words = [
        f"{done}. Speed-up: geometric mean over tasks of the base's processor time over the candidate's, 1 where the "
        "candidate is not correct. Reward: ln(speed-up) over the human's, in [0, 1]. Intervals are clustered by task; "
        "with one task the speed-up has none. The harmonic mean is for comparison with the literature.",
        f"Controls that change nothing and were judged faster: {', '.join(gained)}."
        if gained
        else "No control that changes nothing was judged faster.",
    ]
    curves = {
        agent: [(p, fast_p(_by_task(own), p)) for p in _LEAST]
        for agent in plan.agents
        if agent not in _EMPTY and (own := [row for row in rows if row.item.agent == agent])
    }
    figure = Lines(
        "fast-p",
        "Attempts that are correct and at least so fast (fast_p)",
        {"% of attempts": curves},
        across="times as fast as the base",
        shares=("% of attempts",),
        doubles=True,
    )
    return Section("Agents", tuple(words), (Table(head, tuple(cells)),), (figure,))


def _by_task(rows: Sequence[Row]) -> dict[str, list[Comparison]]:
    found: dict[str, list[Comparison]] = {}
    for row in rows:
        found.setdefault(row.item.task, []).append(row.comparison)
    return found


def _speed_ups(plan: Plan, rows: Sequence[Row]) -> Section:
    figures: list[Figure] = []
    for number, task in enumerate(plan.tasks):
        found = {
            f"{row.item.agent} {row.item.repeat}" if plan.repeats > 1 else row.item.agent: row.comparison.gain
            for row in rows
            if row.item.task == task.name and row.comparison.gain is not None
        }
        known = {name: gain for name, gain in found.items() if gain is not None}
        if known:
            figures.append(Ratios(f"speed-up-{number}", f"{task.name}: speed-up over the base", known))
    words = "Median ratio of processor time, with its sequential interval; incorrect candidates have none."
    return Section("Speed-up by task", (words,), figures=tuple(figures))


def _quadrants(plan: Plan, rows: Sequence[Row]) -> Section:
    counts = {
        agent: Counter(row.quadrant for row in rows if row.item.agent == agent)
        for agent in plan.agents
        if agent not in _EMPTY
    }
    stacks: dict[str, dict[str, float]] = {
        agent: {name: 100.0 * count[name] / count.total() for name in _QUADRANTS}
        for agent, count in counts.items()
        if count
    }
    head = ("agent", *_QUADRANTS)
    table = Table(head, tuple((agent, *(str(counts[agent][name]) for name in _QUADRANTS)) for agent in stacks))
    words = (
        "Target: a function that the human changed was changed, too. Success: correct, and faster than the base. A "
        "lucky win is faster by other means than the human's.",
    )
    figure = Stacks("quadrants", "Attempts by target and success", stacks, unit="% of attempts", across="agent")
    return Section("Quadrants", words, (table,), (figure,))


def _judge(name: str, plan: Plan, rows: Sequence[Row], said: Mapping[str, Judged]) -> Section:
    head = ("agent", "judged", "unreadable", "same target", "same approach", "faster, likelihood", *SCORES)
    cells, compared = [], []
    for agent in plan.agents:
        own = [(row, said[row.item.key]) for row in rows if row.item.agent == agent and row.item.key in said]
        read = [(row, each.judgement) for row, each in own if each.judgement is not None]
        if agent not in CONTROLS:
            compared += [(each, row.comparison, row.attempt.overlap.target) for row, each in read]
        if not own:
            continue
        judged = [each for _, each in read]
        flags = (sum(each.same_target for each in judged), sum(each.same_approach for each in judged))
        scores = [sum(getattr(each, score) for each in judged) for score in SCORES]
        means = [
            f"{total / len(judged):.2f}" if judged else "-" for total in (sum(e.speed_up for e in judged), *scores)
        ]
        cells.append((agent, *map(str, (len(own), len(own) - len(read), *flags)), *means))
    found = agreement(compared)
    same, count = found.target
    words = (
        "Means over the patches that a model read beside the human's, without what the agent printed; scores from 0 to "
        "10. A patch can talk to its judge, and be believed: no verdict and no other figure depends on this.",
        f"Agreement with what was measured, without controls (n = {count}). Of two attempts at one task, "
        f"the faster one has the higher likelihood (0.5 is chance): {_interval(found.order)}. Rank correlation of "
        f"likelihood and speed-up: {_interval(found.correlation)}. Same target as by names of functions: {same} of "
        f"{count}. 95 % intervals are of the jackknife over tasks; with one task there are none.",
    )
    return Section(f"Soft metrics by {name}", words, (Table(head, tuple(cells)),))


def _costs(plan: Plan, rows: Sequence[Row]) -> Section:
    points = {
        agent: [
            (row.attempt.usage.cost, speedup(row.comparison))
            for row in rows
            if row.item.agent == agent and row.attempt.usage.cost is not None
        ]
        for agent in plan.agents
        if agent not in CONTROLS
    }
    known = {agent: each for agent, each in points.items() if each}
    if not known:
        return Section("Cost against gain", ("No attempt has a known cost.",))
    panel = "speed-up"
    figure = Lines(
        "cost", "Cost and speed-up of each attempt", {panel: known}, across="US dollars", scattered=tuple(known)
    )
    return Section("Cost against gain", figures=(figure,))


def _all(plan: Plan, rows: Sequence[Row]) -> Section:
    extra = ("instructions",) if plan.instructions else ()
    head = ("attempt", "verdict", "speed-up (95 %)", "against the human", *extra, "quadrant", "seconds")
    cells, remarks = [], []
    for row in rows:
        tried, found = row.attempt, row.comparison
        fewer = "-" if found.instructions is None else f"{found.instructions.gain:.3g}"
        measured = (_interval(found.gain), _interval(found.against), *(fewer for _ in extra))
        cells.append((row.item.key, found.verdict, *measured, row.quadrant, f"{tried.seconds:.0f}"))
        kinds = Counter(each.kind for each in tried.findings)
        findings = ", ".join(f"{kind} {count}" for kind, count in kinds.items()) or "-"
        refused = f"not kept: {', '.join(tried.refused)}" if tried.refused else ""
        what = "; ".join(filter(None, (tried.reason, found.fault, refused)))[:_MOST_REASON]
        if what or kinds or tried.ending != "ended":
            remarks.append((row.item.key, tried.ending, findings, what))
    words = []
    if plan.instructions and any(row.comparison.instructions for row in rows):
        words.append("Instructions: those of the base over the candidate's, of one call. They change no verdict.")
    elif plan.instructions:
        words.append("Instructions were not counted: valgrind or its sandbox is missing, or no call ended in time.")
    tables = [Table(head, tuple(cells))]
    if remarks:
        words.append(
            "Findings: words in added lines that honest patches seldom need. They are reported; they change no verdict."
        )
        tables.append(Table(("attempt", "ending", "findings", "what"), tuple(remarks)))
    return Section("Attempts", tuple(words), tuple(tables))


def _interval(found: Estimate | None) -> str:
    if found is None:
        return "-"
    limits = f"{found.low:.2f}-{found.high:.2f}" if found.high < _NO_LIMIT else "-"
    return f"{found.value:.2f} ({limits})"
