"""What modes of evaluation cost and gain, as numbers and as tables: compared problem by problem with zero-shot."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from gce.app.evaluation import Judged
from gce.app.models import SHIPPED_MODEL, shipped_model_path
from gce.app.modes import ATTEMPTS, Answered
from gce.app.terminal import difference_cell, interval_cell, p_cell, table
from gce.domain.statistics import Estimate, holm, mcnemar, paired_difference, wilson
from gce.domain.types import Interval

__all__ = [
    "Attempts",
    "Gain",
    "Measured",
    "against",
    "attempts",
    "attempts_table",
    "costs_table",
    "gains_table",
    "notes_on",
]

BASE = "zero-shot"


@frozen(slots=False)
class Measured:
    """All conversations of one mode."""

    answers: tuple[Answered, ...]
    seconds: float
    """Of all together."""

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """The attempts that count."""
        return tuple(answered.last for answered in self.answers)

    @property
    def no_room(self) -> list[Judged]:
        """Those whose prompt did not fit the model's context."""
        return [judged for judged in self.judged if judged.completion.finish_reason == "context"]

    @property
    def costs(self) -> dict[str, float | None]:
        """Means over problems."""
        count = len(self.answers)
        read = [answered.prompt_tokens for answered in self.answers]
        written = [answered.tokens for answered in self.answers]
        return {
            "seconds": self.seconds / count,
            "replies": sum(answered.replies for answered in self.answers) / count,
            "prompt_tokens": None if None in read else sum(tokens or 0 for tokens in read) / count,
            "tokens": None if None in written else sum(tokens or 0 for tokens in written) / count,
            "cut_off": sum(judged.completion.finish_reason == "length" for judged in self.judged) / count,
            "no_room": len(self.no_room) / count,
        }


@frozen
class Gain:
    """One mode against zero-shot on the same problems."""

    mean: Estimate
    """Of the tiers' differences."""
    gained: int
    """Problems that only this mode solved."""
    lost: int
    p: float
    """Exact McNemar, two-sided."""
    adjusted: float = field(default=1.0)
    """By Holm over all modes compared."""


@frozen
class Attempts:
    """What further attempts recover."""

    first: Interval
    """Right at the first attempt."""
    trajectory: Interval
    """Right at the last."""
    recovered: Interval
    """Of those wrong at first, right in the end."""
    used: float
    """Attempts on average."""


def against(found: Mapping[str, Measured]) -> dict[str, Gain]:
    """Each mode but zero-shot, where that was measured too; over problems at which neither failed."""
    if BASE not in found:
        return {}
    base = {answer.problem.key: answer.right for answer in found[BASE].judged if not answer.failed}
    gains = {}
    for mode, measured in found.items():
        pairs = [each for each in measured.judged if each.problem.key in base and not each.failed]
        if mode != BASE and pairs:
            gains[mode] = _gain(base, pairs)
    adjusted = holm([gain.p for gain in gains.values()])
    return {mode: evolve(gain, adjusted=p) for (mode, gain), p in zip(gains.items(), adjusted, strict=True)}


def _gain(base: Mapping[str, bool], judged: Sequence[Judged]) -> Gain:
    changes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for answer in judged:
        before = base[answer.problem.key]
        counts = changes[answer.problem.tier]
        counts[0] += answer.right and not before
        counts[1] += before and not answer.right
        counts[2] += 1
    gained, lost = (sum(counts[place] for counts in changes.values()) for place in (0, 1))
    mean = paired_difference([(up, down, n) for up, down, n in changes.values()])
    return Gain(mean, gained, lost, mcnemar(gained, lost))


def attempts(measured: Measured) -> Attempts:
    """Over all tiers together, without conversations that failed."""
    answers = [answered for answered in measured.answers if not answered.last.failed]
    count = len(answers)
    first = sum(answered.attempts[0].right for answered in answers)
    last = sum(answered.last.right for answered in answers)
    used = sum(len(answered.attempts) for answered in answers) / max(1, count)
    return Attempts(wilson(first, count), wilson(last, count), wilson(last - first, count - first), used)


def costs_table(found: Mapping[str, Measured]) -> str:
    """A row a mode; seconds are those of the whole batch, divided by its problems."""
    head = ["for each problem", "replies", "tokens read", "tokens written", "seconds", "cut off", "no room"]
    rows = []
    for mode, measured in found.items():
        costs = measured.costs
        tokens = ("-" if costs[name] is None else f"{costs[name]:.0f}" for name in ("prompt_tokens", "tokens"))
        shares = (f"{100 * (costs[name] or 0.0):.0f} %" for name in ("cut_off", "no_room"))
        rows.append([mode, f"{costs['replies']:.2f}", *tokens, f"{costs['seconds']:.3f}", *shares])
    return table(head, rows)


def gains_table(gains: Mapping[str, Gain]) -> str:
    """A row a mode."""
    head = ["against zero-shot", "mean of tiers, points", "gained", "lost", "p (McNemar)", "p (Holm)"]
    rows = [
        [
            mode,
            difference_cell(gain.mean),
            str(gain.gained),
            str(gain.lost),
            p_cell(gain.p),
            p_cell(gain.adjusted),
        ]
        for mode, gain in gains.items()
    ]
    return table(head, rows)


def attempts_table(found: Mapping[str, Measured]) -> str:
    """A row for each multi-turn mode."""
    head = [f"up to {ATTEMPTS} attempts", "right at the first", "right in the end", "of wrong ones recovered", "used"]
    rows = []
    for mode, measured in found.items():
        if mode.endswith("multi-turn"):
            each = attempts(measured)
            cells = (interval_cell(share) for share in (each.first, each.trajectory, each.recovered))
            rows.append([mode, *cells, f"{each.used:.2f}"])
    return table(head, rows)


def notes_on(model: str, modes: Sequence[str] | Mapping[str, Any], examples: str) -> dict[str, str]:
    """What has to be known beside a mode's row: oracle use, and what the shipped model was shown of its format."""
    formats: Mapping[str, str] = {}
    if model == SHIPPED_MODEL:
        formats = json.loads((shipped_model_path() / "card.json").read_text()).get("formats", {})
    notes: dict[str, str] = {}
    for mode in modes:
        said = []
        if mode.endswith("few-shot") and examples == "solver":
            said.append("examples worked out by an exact solver (oracle use)")
        said += [f"{model} was pretrained with {words}" for name, words in formats.items() if mode.endswith(name)]
        if said:
            notes[mode] = "; ".join(said)
    return notes
