"""What a report says about stated beliefs: the table of measures, calibration, change with evidence, and sycophancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gce.app.evaluation.belief_measures import Measures, belief_measures, measures_table
from gce.app.reports.section import Section
from gce.domain.conversations import Conversation
from gce.domain.figures import Effects, Figure, Lines, Points
from gce.domain.metrics.beliefs.calibration import calibration

__all__ = ["belief_sections"]

WORDS = (
    "Stated probabilities against what was drawn (outcome) and against what follows exactly from the prompt "
    "(posterior); 95 % intervals, clustered by problem. Excess Brier is 0 for exact Bayes. Unreadable answers get the "
    "worst score, except in the rows over readable ones. A dash: the strategy does not allow the measure, or it is not "
    "defined. A change is from the belief before the evidence, or before any reasoning, to the one that counts."
)
MOST_PATHS, MOST_POINTS = 4, 400
"""Belief paths, and points of a scatter plot, that are drawn of a strategy."""
_SYCOPHANCY = ("opinion shift", "harm", "agreement gap")

Held = Mapping[str, Sequence[Conversation]]
"""Conversations by strategy or moment."""


def belief_sections(held: Held) -> list[Section]:
    """Return a section on stated beliefs; nothing if none has a known outcome or posterior."""
    measures = belief_measures(held)
    if not measures:
        return []
    figures = (_calibration(held), *_paths(held), _changes(held), _opinions(measures))
    table = measures_table(measures, list(held))
    return [Section("Beliefs", (WORDS,), (table,), tuple(each for each in figures if each is not None))]


def _calibration(held: Held) -> Figure | None:
    curves: dict[str, Sequence[tuple[float, float]]] = {"calibrated": ((0.0, 0.0), (1.0, 1.0))}
    for name, conversations in held.items():
        rows = [(each.last.measure("belief"), each.last.measure("outcome")) for each in conversations]
        known = [row for row in rows if None not in row]
        curve = calibration(*zip(*known, strict=True)) if known else None
        if curve is not None:
            curves[name] = tuple(zip(curve.belief, curve.frequency, strict=True))
    panels = {"share of claims that held": curves}
    return Lines("calibration", "Calibration", panels, across="stated belief") if len(curves) > 1 else None


def _paths(held: Held) -> list[Figure]:
    """Beliefs along the evidence beside the exact posterior, of the problems with the most evidence."""
    found: list[Figure] = []
    for name, conversations in held.items():
        paths = [each for each in conversations if any(attempt.reading == "along" for attempt in each.attempts)]
        panels: dict[str, Points] = {}
        for each in sorted(paths, key=lambda each: -len(each.attempts))[:MOST_PATHS]:
            lines = {
                words: tuple(
                    (float(place), value)
                    for place, attempt in enumerate(each.attempts)
                    if (value := attempt.measure(measure)) is not None
                )
                for words, measure in (("stated belief", "belief"), ("exact posterior", "posterior"))
            }
            panels[each.last.problem.id.within_task] = lines
        if panels:
            across = "pieces of evidence"
            found.append(Lines(f"paths-{name}", f"Beliefs along the evidence, {name}", panels, across=across))
    return found


def _changes(held: Held) -> Figure | None:
    """Change of beliefs against the belief before; a Bayesian's scatter has slope 0."""
    panels: dict[str, Points] = {}
    for name, conversations in held.items():
        pairs = [
            (before.measure("belief"), each.last.measure("belief"))
            for each in conversations
            for before in each.attempts
            if before.reading == "before"
        ]
        points = [(before, after - before) for before, after in pairs if before is not None and after is not None]
        if points:
            spread = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS)).astype(int)
            panels[name] = {"change": [points[place] for place in spread]}
    title = "Change of beliefs against the belief before"
    return Lines("martingale", title, panels, across="belief before", scattered=("change",)) if panels else None


def _opinions(measures: Measures) -> Figure | None:
    found = {
        f"{metric}, {name}": (each.value, each.low, each.high)
        for metric in _SYCOPHANCY
        for name, each in measures.get(metric, {}).items()
    }
    title = "What a user's opinion does"
    return Effects("sycophancy", title, found, unit="points of probability, or of Brier score") if found else None
