"""Transcripts as lines of text, with marks below what violations are about. Knows neither pages nor terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from gce.app.transcripts import Transcript
from gce.domain.prefix_values import PrefixValues
from gce.domain.text import printable

__all__ = ["reward_cell", "transcript_lines", "values_words"]

BAR = 5
"""Characters of the bar of an advantage of 1."""
STEPS = {"true": "ok", "false": "NO", "unreadable": "??"}


def reward_cell(found: Transcript) -> str:
    """Its reward, or a dash where it has none."""
    return "-" if found.reward is None else f"{found.reward:.3g}"


def transcript_lines(found: Transcript) -> Iterator[str]:
    """All of a transcript, and an empty line; a line holds no line end, but may hold what moves a cursor."""
    when = found.moment if found.iteration is None else f"rollouts, iteration {found.iteration}"
    tokens = "" if found.tokens is None else f", {found.tokens:,} tokens"
    ended = f"reward {reward_cell(found)}{tokens}, ended by {found.finish_reason}"
    yield f"{found.problem} ({when}): {found.outcome}, {ended}"
    for message in found.prompt:
        yield f"[{message.role}]"
        yield from (f"  {line}" for line in message.content.split("\n"))
    if found.reasoning:
        yield "[reasoning, apart from the answer]"
        yield from (f"  {line}" for line in found.reasoning.split("\n"))
    yield "[answer]"
    yield from (f"  {line}" for line in _marked(found))
    yield f"[verdict] {'; '.join(found.verdicts)}"
    yield from (f"  {number}. {fault.kind}: {fault.message}" for number, fault in enumerate(found.faults, 1))
    if found.values is not None:
        yield from _heat(found.values)
    if found.steps:
        right = sum(step.status == "true" for step in found.steps)
        yield f"[reasoning steps] {right} of {len(found.steps)} true"
        for step in found.steps:
            reason = f"  ({step.reason})" if step.reason else ""
            yield f"  {STEPS.get(step.status, '??')} {step.text}{reason}"
    yield from (f"note: {note}" for note in found.notes)
    yield ""


def _heat(values: PrefixValues) -> Iterator[str]:
    """The answer's segments beside what each added to the value of the answer so far, as a number and as a bar."""
    yield f"[value of the answer so far] {values_words(values)}"
    for prefix, advantage in zip(values.prefixes[1:], values.advantages, strict=True):
        bar = ("+" if advantage > 0 else "-") * ceil(BAR * abs(advantage))
        first, *others = prefix.segment.rstrip("\n").split("\n")
        yield f"  {prefix.value:.2f} {advantage:+.2f} {bar:{BAR}} | {printable(first)}"
        yield from (f"  {'':{BAR + 11}} | {printable(line)}" for line in others)


def values_words(values: PrefixValues) -> str:
    """What a heat map begins with, in words."""
    first, *others, _ = values.prefixes
    return (
        f"{first.value:.2f} ({first.low:.2f} to {first.high:.2f}) before the first token, by {first.n} rollouts; "
        f"then by {sum(each.n for each in others)} continuations of {values.cost:,} tokens"
    )


def _marked(found: Transcript) -> Iterator[str]:
    """The answer's lines; below one with marks, each mark's place and the numbers of its violations."""
    line, marks = "", list[tuple[int, str]]()
    for piece in found.answer:
        for place, part in enumerate(piece.text.split("\n")):
            if place:
                yield from (line, *_below(marks))
                line, marks = "", []
            if piece.about and part:
                marks.append((len(line), f"^{','.join(map(str, piece.about))}"))
            line += printable(part)
    yield from (line, *_below(marks))


def _below(marks: Sequence[tuple[int, str]]) -> list[str]:
    """Marks at their columns, in as many lines as they need."""
    lines: list[str] = []
    for column, mark in marks:
        place = next((place for place, line in enumerate(lines) if len(line) < column), len(lines))
        lines[place : place + 1] = [f"{''.join(lines[place : place + 1]).ljust(column)}{mark}"]
    return lines
