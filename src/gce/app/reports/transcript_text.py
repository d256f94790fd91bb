"""Transcripts as lines of text, with marks below what violations are about. Knows neither pages nor terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gce.app.transcripts import Transcript
from gce.domain.text import printable

__all__ = ["reward_cell", "transcript_lines"]

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
    if found.steps:
        right = sum(step.status == "true" for step in found.steps)
        yield f"[reasoning steps] {right} of {len(found.steps)} true"
        for step in found.steps:
            reason = f"  ({step.reason})" if step.reason else ""
            yield f"  {STEPS.get(step.status, '??')} {step.text}{reason}"
    yield from (f"note: {note}" for note in found.notes)
    yield ""


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
