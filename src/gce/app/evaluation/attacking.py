"""Attacks on prompts, from a task and a model to a table: what `gce attack` does.

Every attack is a strategy beside the unattacked prompt: answers are asked, judged and paired as in any evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Unpack

from attrs import field, frozen

from gce.app.evaluation.run import Evaluation, evaluate
from gce.app.evaluation.scoring import answer_record
from gce.app.evaluation.settings import EvaluateKeywords
from gce.app.loaded_model import load_model
from gce.app.reports.report import Report
from gce.app.reports.section import Section
from gce.app.reports.transcript_text import transcript_lines
from gce.app.shown import Part, html_of, lines_of
from gce.app.tables.cells import difference_cell, interval_cell, p_cell
from gce.app.training.state import Watcher
from gce.app.transcripts import StoredAnswer, Transcript, transcript
from gce.domain.attacks import ATTACKS
from gce.domain.conversations import Conversation
from gce.domain.figures import Lines, Table
from gce.domain.measurements import Interval, MeanReward
from gce.domain.paired import Gain
from gce.domain.statistics import interval, mean_over_tiers
from gce.domain.strategies.attack import EVERYTHING, IMPORTANT, MOST_EDITS, PARAPHRASE
from gce.domain.strategies.requests import ANOTHER
from gce.domain.tasks import ProblemSource
from gce.domain.text import counted, printable
from gce.errors import SettingError

__all__ = ["EDITS", "TRANSCRIPTS", "AttackReport", "AttackRow", "attack"]

EDITS = (1, 4, 16)
TRANSCRIPTS = 2


@frozen
class AttackRow:
    """One attack with one number of edits."""

    attack: str
    edits: int
    accuracy: Mapping[str, Interval]
    """By tier, over attacked prompts whose meaning is kept."""
    gain: Gain | None
    """Against the same problems without an attack; None where nothing was kept."""
    flipped: Interval
    """The attack's success: of the answers that were right without it, the share that it makes wrong."""
    dropped: int
    """Problems whose attacked prompt does not keep the meaning, or has nothing to change."""


@frozen(repr=False)
class AttackReport:
    """What `gce attack` found."""

    evaluation: Evaluation = field(repr=False)
    unattacked: Mapping[str, Interval]
    """Accuracy by tier."""
    rows: tuple[AttackRow, ...]
    transcripts: tuple[Transcript, ...]
    """Of answers that an attack made wrong."""

    def __str__(self) -> str:
        return "\n".join(lines_of(self._parts()))

    def _repr_html_(self) -> str:
        return html_of(self._parts())

    @property
    def report(self) -> Report:
        """The same as a page, with accuracy against the number of edits as a figure."""
        head, table, *words = self._table()
        assert isinstance(head, str) and isinstance(table, Table)
        said = (head, " ".join(each for each in words if isinstance(each, str)))
        title = f"Attacks: {self.evaluation.settings.model_name} on {self.evaluation.task.name}"
        examples = Section(
            "Right answers made wrong", ("The prompt is the attacked one.",), transcripts=self.transcripts
        )
        return Report(
            title,
            (
                Section("Accuracy under attack", said, (table,), (self._figure(),)),
                *([examples] if self.transcripts else []),
            ),
        )

    def _figure(self) -> Lines:
        shares = {(row.attack, row.edits): row.accuracy for row in self.rows}
        shares |= {(row.attack, 0): self.unattacked for row in self.rows}
        shown = dict[str, dict[str, list[tuple[float, MeanReward]]]]()
        for (name, edits), found in sorted(shares.items()):
            if len(found) == len(self.unattacked) and (mean := mean_over_tiers(found.values())) is not None:
                n = sum(each.n for each in found.values())
                point = (float(edits), MeanReward(n, n * mean.value, mean.low, mean.high))
                shown.setdefault(name, {name: []})[name].append(point)
        title = "% right, mean of tiers, against the number of edits"
        return Lines("attacks", title, {}, across="edits", shares=tuple(shown), intervals=shown)

    def _parts(self) -> list[Part]:
        shown = (map(printable, transcript_lines(each)) for each in self.transcripts)
        return [*self._table(), *(line for lines in shown for line in ("", *lines))]

    def _table(self) -> list[Part]:
        given, tiers = self.evaluation.settings, list(self.unattacked)
        n = sum(each.n for each in self.unattacked.values())
        head = f"{given.model_name} on {self.evaluation.task.name}/{self.evaluation.preset}, {counted(n, 'problem')}"
        rows = [("none", "0", *(interval_cell(self.unattacked[tier], digits=0) for tier in tiers), "-", "-", "-", "0")]
        for row in self.rows:
            shares = (interval_cell(row.accuracy[tier], digits=0) if tier in row.accuracy else "-" for tier in tiers)
            change = ("-", "-") if row.gain is None else (difference_cell(row.gain.mean), p_cell(row.gain.adjusted))
            flipped = interval_cell(row.flipped, digits=0) if row.flipped.n else "-"
            rows.append((row.attack, f"{row.edits}", *shares, *change, flipped, f"{row.dropped}"))
        columns = ("attack", "edits", *tiers, "change, points", "p (Holm)", "right becomes wrong", "dropped")
        return [
            f"{head}: % right by tier (95 % interval)",
            Table(columns, tuple(rows)),
            "change: mean of tiers, attacked minus unattacked, paired by problem.",
            "An attack succeeds where a right answer becomes wrong although the prompt still states the same problem;",
            "prompts that do not are dropped.",
        ]


def attack(
    task: Any = "scheduling",
    model: Any = None,
    *,
    attacks: Sequence[str] = tuple(ATTACKS),
    edits: Sequence[int] = EDITS,
    everything: bool = False,
    important: bool = False,
    attack_seed: int = 0,
    transcripts: int = TRANSCRIPTS,
    paraphraser: Any = None,
    watcher: Watcher | None = None,
    **settings: Unpack[EvaluateKeywords],
) -> AttackReport:
    """Attack the prompts of a task, and measure what that does to a model's answers.

    Args:
        task: a task, or its name.
        model: as in `gce.evaluate`.
        attacks: names of attacks, and `paraphrase`.
        edits: numbers of edits; 0 changes nothing.
        everything: whether numbers and labels may be changed, too.
        important: whether the words go first that matter most to the model's answer; the model has to score.
        attack_seed: seed of the attacks.
        transcripts: number of transcripts of answers that an attack made wrong.
        paraphraser: a model, or its name, that writes the paraphrases of the attack `paraphrase`.
        watcher: receives progress.
        settings: of `gce.evaluate`.

    Raises:
        SettingError: an attack or a number of edits that does not exist, or a setting of `gce.evaluate` out of range.
        BadInput: as in `gce.evaluate`.
    """
    for name in attacks:
        if name not in (*ATTACKS, PARAPHRASE):
            known = ", ".join((*ATTACKS, PARAPHRASE))
            raise SettingError("attacks", known, name, f"{{attacks}} must be of {known}")
    if (PARAPHRASE in attacks) != (paraphraser is not None):
        message = f"the attack {PARAPHRASE} and {{paraphraser}}, the model that writes them, go together: give both"
        raise SettingError("paraphraser", f"a model, with the attack {PARAPHRASE}", paraphraser, message)
    for count in edits:
        if not 0 <= count <= MOST_EDITS:
            message = f"{{edits}} must be numbers from 0 to {MOST_EDITS:,}, got {count!r:.20}"
            raise SettingError("edits", f"0 to {MOST_EDITS}", count, message)
    adapted = settings.get("adapter") is not None
    first, prefix = ("trained", "trained-") if adapted else ("zero-shot", "")
    seeded = [f"seed={attack_seed}"]
    flags = [*seeded, *([EVERYTHING] if everything else []), *([IMPORTANT] if important else [])]
    pairs = list(dict.fromkeys(product(attacks, sorted(set(edits)))))
    names = {
        f"{prefix}attack@{'+'.join((name, str(count), *(seeded if name == PARAPHRASE else flags)))}": (name, count)
        for name, count in pairs
    }
    settings["strategies"] = [first, *names]
    if paraphraser is not None:
        settings["roles"] = {ANOTHER: load_model(paraphraser) if isinstance(paraphraser, str) else paraphraser}
    found = evaluate(task, model, watcher=watcher, **settings)
    return _report(found, first, names, transcripts)


def _report(found: Evaluation, first: str, names: Mapping[str, tuple[str, int]], transcripts: int) -> AttackReport:
    shares: dict[str, Any] = found.estimates()
    gains, held = found.gains(), found.conversations
    right = {each.last.problem.key for each in held[first] if each.last.right}
    rows, shown = [], list[Transcript]()
    for strategy, (name, count) in names.items():
        kept = [each for each in held[strategy] if not each.last.failed]
        flips = [each for each in kept if each.last.problem.key in right and not each.last.right]
        before = sum(each.last.problem.key in right for each in kept)
        accuracy = {tier: share for tier, share in shares[strategy].items() if share.n}
        dropped = len(held[strategy]) - len(kept)
        method = found.settings.interval
        rows.append(
            AttackRow(name, count, accuracy, gains.get(strategy), interval(len(flips), before, method=method), dropped)
        )
        if flips and len(shown) < transcripts:
            shown.append(_example(found, flips[0], f"{name}, {counted(count, 'edit')}"))
    return AttackReport(found, shares[first], tuple(rows), tuple(shown))


def _example(found: Evaluation, flip: Conversation, moment: str) -> Transcript:
    """The transcript of an answer, with the attacked prompt."""
    prompt, _ = flip.said[-1]
    stored = StoredAnswer(moment, 0, answer_record(flip.last))
    return transcript(stored, ProblemSource(found.task), shown=prompt)
