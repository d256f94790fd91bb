"""Graphs of roles on the same problems as a single model with as many tokens: what `gce orchestrate` does.

Every graph is a strategy. How many tokens a single model is given follows from what the graphs used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from attrs import evolve, field, frozen

from gce.app.evaluation.comparison import Measured, gains_between
from gce.app.evaluation.run import Evaluation, evaluated, saying_what_was_used
from gce.app.evaluation.settings import EvaluateKeywords, evaluate_settings
from gce.app.notebook import watch_of
from gce.app.reports.report import Report
from gce.app.reports.section import Section
from gce.app.shown import Part, html_of, lines_of
from gce.app.tables.cells import difference_cell, p_cell, share_cell
from gce.app.training.state import Watcher
from gce.app.wiring.access import access_of
from gce.domain.figures import Lines, Table
from gce.domain.measurements import MeanReward
from gce.domain.paired import Gain
from gce.domain.statistics import Estimate, mean_over_tiers
from gce.domain.strategies.graph import MOST_STEPS, SHIPPED
from gce.domain.strategies.orchestrate import MAJORITY, ORCHESTRATE
from gce.domain.strategies.reasoning import LENGTH_CONTROLLED
from gce.domain.text import counted
from gce.errors import SettingError

__all__ = ["Orchestration", "OrchestrationRow", "orchestrate"]

LEAST_THOUGHT = 16
"""Tokens of reasoning."""
SAME = 1e-9
"""Means of tiers that differ by less are equal: they may differ in the last bit."""


@frozen
class OrchestrationRow:
    """One mode: a graph, or a single model."""

    mode: str
    accuracy: Estimate | None
    """Mean over tiers; None where a tier has no answer."""
    tokens: float | None
    """Of prompts and replies, for a problem; None if the backend does not report them."""
    calls: float
    """Of the model, for a problem."""
    seconds: float
    """For a problem."""
    peak_bytes: int | None
    """Peak resident memory of this process while the mode was measured."""
    is_graph: bool


@frozen(repr=False)
class Orchestration:
    """What `gce orchestrate` found."""

    evaluation: Evaluation = field(repr=False)
    rows: tuple[OrchestrationRow, ...]
    gains: Mapping[str, Gain]
    """By what is compared with what."""

    def __str__(self) -> str:
        return "\n".join(lines_of(self._parts()))

    def _repr_html_(self) -> str:
        return html_of(self._parts())

    @property
    def report(self) -> Report:
        """The same as a page, with accuracy against tokens as a figure."""
        head, modes, *words, gains = self._parts()
        assert isinstance(head, str) and isinstance(modes, Table) and isinstance(gains, Table)
        said = (head, " ".join(each for each in words if isinstance(each, str)))
        return Report(
            f"Orchestration: {self.evaluation.settings.model_name} on {self.evaluation.task.name}",
            (
                Section("Modes", said, (modes,), (self._figure(),)),
                Section("Paired comparisons", (COMPARED,), (gains,)),
            ),
        )

    def _parts(self) -> list[Part]:
        found, given = self.evaluation, self.evaluation.settings
        head = f"{given.model_name} on {found.task.name}/{found.preset}, {counted(len(found.problems), 'problem')}"
        rows = (
            (
                row.mode,
                "-" if row.accuracy is None else share_cell(row.accuracy.value, row.accuracy.low, row.accuracy.high),
                "-" if row.tokens is None else f"{row.tokens:,.0f}",
                f"{row.calls:.2f}",
                f"{row.seconds:.3f}",
                "-" if row.peak_bytes is None else f"{row.peak_bytes / 2**20:,.0f}",
                "yes" if row in front_of(self.rows) else "",
            )
            for row in self.rows
        )
        compared = (
            (what, difference_cell(gain.mean), f"{gain.gained}", f"{gain.lost}", p_cell(gain.p), p_cell(gain.adjusted))
            for what, gain in self.gains.items()
        )
        return [
            f"{head}: % right, mean of tiers (95 % interval), and costs per problem",
            Table(("mode", "% right", "tokens", "calls", "seconds", "peak MiB", "Pareto"), tuple(rows)),
            "tokens: of prompts and replies. Pareto: no other mode is at least as accurate with fewer tokens.",
            "majority and length-controlled are the model alone, with about as many tokens as each graph used; longer",
            "thought may end by itself, with fewer.",
            "",
            Table(("compared", "points", "gained", "lost", "p (McNemar)", "p (Holm)"), tuple(compared)),
        ]

    def _figure(self) -> Lines:
        n, shown = len(self.evaluation.problems), dict[str, list[tuple[float, MeanReward]]]()
        for row in self.rows:
            if row.accuracy is not None:
                mean = MeanReward(n, n * row.accuracy.value, row.accuracy.low, row.accuracy.high)
                shown.setdefault(row.mode.partition("@")[0], []).append((row.tokens or row.calls, mean))
        for line in shown.values():
            line.sort(key=lambda point: point[0])
        best = [(row.tokens or row.calls, row.accuracy.value) for row in front_of(self.rows) if row.accuracy]
        across = "calls" if any(row.tokens is None for row in self.rows) else "tokens"
        return Lines(
            "pareto",
            f"Accuracy against {across}",
            {"% right": {"Pareto front": best}},
            across=f"{across} per problem",
            shares=("% right",),
            intervals={"% right": shown},
        )


COMPARED = (
    "Differences in the mean of tiers, paired by problem, with 95 % intervals; p values of all comparisons are "
    "adjusted by Holm's method. A graph is worth its tokens only where it beats the single model that has as many."
)


def front_of(rows: Sequence[OrchestrationRow]) -> list[OrchestrationRow]:
    """The rows that no other one beats or equals with fewer tokens, cheapest first."""
    best, front = -1.0, list[OrchestrationRow]()
    measured = [(row.tokens or row.calls, row.accuracy.value, row) for row in rows if row.accuracy is not None]
    for _, share, row in sorted(measured, key=lambda each: (each[0], -each[1])):
        if share > best + SAME:
            best = share
            front.append(row)
    return front


def orchestrate(
    graphs: Sequence[str] = tuple(SHIPPED),
    task: Any = "scheduling",
    model: Any = None,
    *,
    watcher: Watcher | None = None,
    **settings: Unpack[EvaluateKeywords],
) -> Orchestration:
    """Measure graphs of roles beside a single model: once, by majority and by longer thought at equal tokens.

    Args:
        graphs: names of shipped graphs, and TOML files.
        task: a task, or its name.
        model: as in `gce.evaluate`.
        watcher: receives progress.
        settings: of `gce.evaluate`.

    Raises:
        SettingError: no graph, or a setting of `gce.evaluate` out of range.
        BadInput: a graph that cannot be used, or as in `gce.evaluate`.
    """
    if not graphs or len(set(graphs)) < len(graphs):
        message = f"{{graphs}} must be different graphs, got {', '.join(graphs) or 'none'}"
        raise SettingError("graphs", "different graphs", tuple(graphs), message)
    adapted = settings.get("adapter") is not None
    first, prefix = ("trained", "trained-") if adapted else ("zero-shot", "")
    names = {f"{prefix}{ORCHESTRATE.name}@{graph}": _shown(graph, graphs) for graph in graphs}
    given = evaluate_settings({"task": task, "model": model, **settings, "strategies": [first, *names]})
    watcher = watcher or watch_of(progress=True)(0)
    access = access_of(given)
    with saying_what_was_used(watcher, access):
        found = evaluated(given, watcher, access)
        alone = {f"{prefix}{name}": name for name in _equals(found.measured, first, list(names))}
        further = evaluated(evolve(given, strategies=tuple(alone)), watcher, access)
    found = evolve(
        found,
        strategies={**found.strategies, **further.strategies},
        measured={**found.measured, **further.measured},
    )
    return _orchestration(found, {first: first, **names, **alone}, list(names))


def _shown(graph: str, graphs: Sequence[str]) -> str:
    """A file's name without its folder, where that says which graph it is."""
    stems = [Path(each).stem for each in graphs]
    return Path(graph).stem if stems.count(Path(graph).stem) == 1 else graph


def _equals(measured: Mapping[str, Measured], first: str, graphs: Sequence[str]) -> list[str]:
    """The strategies of a single model that have as many tokens as each graph."""
    names = list[str]()
    for graph in graphs:
        names.append(f"{MAJORITY.name}@{_samples(measured[graph], measured[first])}")
        if (tokens := _thought(measured[graph], measured[first])) is not None:
            names.append(f"{LENGTH_CONTROLLED.name}@{tokens}")
    return list(dict.fromkeys(names))


def _samples(graph: Measured, single: Measured) -> int:
    used, each = _tokens(graph), _tokens(single)
    count = round(used / each if used and each else graph.costs["replies"] or 1.0)
    return min(max(count, 2), MOST_STEPS)


def _thought(graph: Measured, single: Measured) -> int | None:
    """Tokens of reasoning; it is written once, and read once with the problem. None where tokens are not known."""
    used, each, prompt = _tokens(graph), _tokens(single), single.costs["prompt_tokens"]
    if used is None or each is None or prompt is None:
        return None
    return max(LEAST_THOUGHT, round((used - each - prompt) / 2))


def _tokens(measured: Measured) -> float | None:
    read, written = measured.costs["prompt_tokens"], measured.costs["tokens"]
    return None if read is None or written is None else read + written


def _orchestration(found: Evaluation, modes: Mapping[str, str], graphs: Sequence[str]) -> Orchestration:
    shares: dict[str, Any] = found.estimates()
    measured = {mode: found.measured[name] for name, mode in modes.items()}
    rows, first, *_ = [], *modes.values()
    for name, mode in modes.items():
        costs = measured[mode].costs
        rows.append(
            OrchestrationRow(
                mode,
                mean_over_tiers(shares[name].values()),
                _tokens(measured[mode]),
                costs["replies"] or 0.0,
                costs["seconds"] or 0.0,
                measured[mode].peak_bytes,
                name in graphs,
            )
        )
    compared = {f"{mode} - {first}": (first, mode) for mode in measured if mode != first}
    for name in graphs:
        graph = modes[name]
        for alone in _equals(measured, first, [graph]):
            compared[f"{graph} - {alone}"] = (alone, graph)
    return Orchestration(found, tuple(rows), gains_between(measured, compared))
