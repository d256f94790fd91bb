"""Scores found steps against true ones, recording by recording.

Pairs are one to one, the closest in time first. A click is right within 12 pixels and 200 ms, a page change within
500 ms; scrolling is right if it overlaps in time and goes the same way, typing if it overlaps in time, both give or
take 200 ms. Found clicks on silent ones are neither right nor wrong. Nothing here looks at a video or at boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import numpy as np
from attrs import frozen

from benchmarks.recordings.recording import Recording
from gce.domain.workflow.steps import Kind, Step

__all__ = ["Count", "Tally", "edit_distance", "interval", "table", "tally", "total"]

PIXELS = 12.0
SLACK = 0.2
"""Seconds."""
PAGE_SLACK = 0.5
EPSILON = 1e-6


@frozen
class Count:
    """How many steps of one kind were found, how many there are, and how many found ones are right."""

    right: int
    found: int
    true: int

    @property
    def precision(self) -> float:
        """The share of found steps that are right; nan if nothing was found."""
        return self.right / self.found if self.found else math.nan

    @property
    def recall(self) -> float:
        """The share of true steps that were found; nan if there are none."""
        return self.right / self.true if self.true else math.nan

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; nan if nothing was found and there is nothing."""
        return 2 * self.right / (self.found + self.true) if self.found + self.true else math.nan


@frozen
class Tally:
    """What adds up over recordings."""

    counts: Mapping[Kind, Count]
    silent: int
    """Clicks that change nothing visible."""
    silent_found: int
    distance: int
    """Edit distance from the typed texts to those found; a text that was not found counts whole."""
    characters: int
    """Length of the typed texts."""
    quiet_steps: int
    """Steps found in recordings without any."""
    quiet_minutes: float

    @property
    def accuracy(self) -> float:
        """Character accuracy of typed text, from 0 to 1; nan if nothing was typed."""
        return max(0.0, 1 - self.distance / self.characters) if self.characters else math.nan

    @property
    def false_a_minute(self) -> float:
        """False steps a minute of recordings without any; nan if there are no such recordings."""
        return self.quiet_steps / self.quiet_minutes if self.quiet_minutes else math.nan


def tally(recording: Recording, found: Sequence[Step]) -> Tally:
    """Compare the steps found in one recording with its log."""
    counts: dict[Kind, Count] = {}
    distance = silent_found = 0
    for kind in get_args(Kind):
        true = [step for step in recording.steps if step.kind == kind]
        ours = [step for step in found if step.kind == kind]
        pairs = _pairs(ours, true)
        beside = 0
        if kind == "click":
            paired = {id(step) for step, _ in pairs}
            silent_found = beside = len(_pairs([step for step in ours if id(step) not in paired], recording.silent))
        if kind == "type":
            distance = sum(len(step.text) for step in true)
            distance += sum(edit_distance(mine.text, step.text) - len(step.text) for mine, step in pairs)
        counts[kind] = Count(len(pairs), len(ours) - beside, len(true))
    characters = sum(len(step.text) for step in recording.steps if step.kind == "type")
    quiet = not recording.steps and not recording.silent
    return Tally(
        counts, len(recording.silent), silent_found, distance, characters,
        len(found) if quiet else 0, recording.seconds / 60 if quiet else 0.0,
    )  # fmt: skip


def total(tallies: Sequence[Tally]) -> Tally:
    """Return the sum of tallies."""

    def added(kind: Kind) -> Count:
        parts = [one.counts[kind] for one in tallies]
        return Count(sum(one.right for one in parts), sum(one.found for one in parts), sum(one.true for one in parts))

    return Tally(
        {kind: added(kind) for kind in get_args(Kind)},
        sum(one.silent for one in tallies),
        sum(one.silent_found for one in tallies),
        sum(one.distance for one in tallies),
        sum(one.characters for one in tallies),
        sum(one.quiet_steps for one in tallies),
        sum(one.quiet_minutes for one in tallies),
    )


def interval(
    tallies: Sequence[Tally], measure: Callable[[Tally], float], *, draws: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of `measure` of the total, over recordings; nan without any."""
    rng = np.random.default_rng(seed)
    samples = (total([tallies[n] for n in rng.integers(len(tallies), size=len(tallies))]) for _ in range(draws))
    values = [value for value in map(measure, samples) if not math.isnan(value)]
    if not values:
        return math.nan, math.nan
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def table(tallies: Sequence[Tally], *, draws: int = 2000) -> str:
    """Return the scores as a table in Markdown, with bootstrap intervals over recordings."""
    whole = total(tallies)

    def f1(kind: Kind) -> Callable[[Tally], float]:
        return lambda one: one.counts[kind].f1

    def ranged(measure: Callable[[Tally], float]) -> str:
        low, high = interval(tallies, measure, draws=draws)
        return f"{measure(whole):.3f} [{low:.3f}, {high:.3f}]"

    lines = ["| step | true | found | right | precision | recall | F1 [95 %] |", "|---|---|---|---|---|---|---|"]
    for kind, count in whole.counts.items():
        rates = f"{count.precision:.3f} | {count.recall:.3f} | {ranged(f1(kind))}"
        lines.append(f"| {kind} | {count.true} | {count.found} | {count.right} | {rates} |")
    return "\n".join(
        [
            *lines,
            "",
            f"Character accuracy: {ranged(lambda one: one.accuracy)} of {whole.characters} characters.",
            f"Silent clicks: {whole.silent_found} of {whole.silent} found, neither right nor wrong.",
            f"Without steps: {ranged(lambda one: one.false_a_minute)} false steps a minute in "
            f"{whole.quiet_minutes:.1f} minutes.",
            f"Recordings: {len(tallies)}.",
        ]
    )


def edit_distance(first: str, second: str) -> int:
    """Return the Levenshtein distance: the least number of inserted, deleted and replaced characters."""
    row = list(range(len(second) + 1))
    for n, mine in enumerate(first, 1):
        before, row[0] = row[0], n
        for m, theirs in enumerate(second, 1):
            before, row[m] = row[m], min(row[m] + 1, row[m - 1] + 1, before + (mine != theirs))
    return row[-1]


def _pairs(found: Sequence[Step], true: Sequence[Step]) -> list[tuple[Step, Step]]:
    """Return pairs of found and true steps that agree, the closest in time first."""
    near = [(_apart(a, b), n, m) for n, a in enumerate(found) for m, b in enumerate(true) if _agree(a, b)]
    taken_n: set[int] = set()
    taken_m: set[int] = set()
    pairs = []
    for _, n, m in sorted(near):
        if n not in taken_n and m not in taken_m:
            taken_n.add(n)
            taken_m.add(m)
            pairs.append((found[n], true[m]))
    return pairs


def _apart(found: Step, true: Step) -> float:
    return abs(found.start - true.start) + abs(found.end - true.end)


def _agree(found: Step, true: Step) -> bool:
    overlap = min(found.end, true.end) - max(found.start, true.start) >= -SLACK - EPSILON
    match true.kind:
        case "click":
            if found.point is None or true.point is None:
                return False
            near = math.dist(found.point, true.point) <= PIXELS + EPSILON
            return near and abs(found.start - true.start) <= SLACK + EPSILON
        case "page":
            return abs(found.start - true.start) <= PAGE_SLACK + EPSILON
        case "scroll":
            return overlap and found.distance * true.distance > 0
        case "type":
            return overlap
