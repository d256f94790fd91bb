"""`gce transcript`: one answer of a run or an evaluation as it was asked, written, judged and rewarded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from gce.app.evaluation.answer_file import MOMENT_HELP, SOURCE_HELP, open_answers
from gce.app.evaluation.stored import stored_settings
from gce.app.options import NAME, RUN
from gce.app.tables.layout import table
from gce.app.terminal import put, put_json
from gce.app.transcripts import (
    Transcript,
    find_answers,
    moments_of,
    sample_answers,
    stored_answers,
    transcripts_of,
)
from gce.app.wiring.runs import add_no_verify, verifies
from gce.domain.serialization import to_plain
from gce.domain.text import printable
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Print transcripts of a run or an evaluation: the prompt, the model's answer with the text of each violation marked, the
verdict, the reasoning steps with their verdicts, and the reward. Without PROBLEM, list some answers of each outcome.
Answers that failed are shown as failed; no rate includes them. Works while the run is in progress.
"""
EXAMPLES = """\
examples:
  gce transcript runs/1                             some answers of every tier and outcome
  gce transcript runs/1 T2/3                        tier T2, test problem 3, after and before training
  gce transcript runs/1 T2/3 --moment rollouts      training problem 3, all its rollouts
  gce transcript runs/1 grounded/test/T2/0/3 --json
  gce transcript answers.jsonl T2/3 --moment few-shot
                                                    a file of gce evaluate --answers, one strategy
"""
STEPS = {"true": "ok", "false": "NO", "unreadable": "??"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce transcript`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help=SOURCE_HELP)
    parser.add_argument(
        "problem", type=NAME, nargs="?", metavar="PROBLEM", help="problem: its key, a part of the key, or TIER/INDEX"
    )
    parser.add_argument("--moment", type=NAME, help=MOMENT_HELP)
    parser.add_argument("--json", action="store_true", help="print the transcripts as a JSON list")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with open_answers(arguments.run, verify=verifies(arguments)) as reader:
        if arguments.problem is not None:
            chosen = find_answers(reader, arguments.problem, arguments.moment)
        else:
            answers = stored_answers(reader, moments_of(reader, arguments.moment))
            chosen = list(sample_answers(answers, seed=stored_settings(reader).seed, each=1).chosen)
        if not chosen:
            raise BadInput(f"{reader.name} has no answers yet")
        found = transcripts_of(reader, chosen)
    if arguments.json:
        put_json(to_plain(found), indent=1)
    elif arguments.problem is None:
        put(*_list(found), "", f"to print one in full: gce transcript {arguments.run} {found[0].within_task}")
    else:
        put(*(line for each in found for line in _lines(each)))
    return 0


def _list(found: Sequence[Transcript]) -> list[str]:
    rows = [
        (each.within_task, each.moment, each.outcome, _reward(each), each.faults[0].message[:80] if each.faults else "")
        for each in found
    ]
    return table(("problem", "answers", "outcome", "reward", "first violation"), rows, words=True).split("\n")


def _reward(found: Transcript) -> str:
    return "-" if found.reward is None else f"{found.reward:.3g}"


def _lines(found: Transcript) -> Iterator[str]:
    when = found.moment if found.iteration is None else f"rollouts, iteration {found.iteration}"
    tokens = "" if found.tokens is None else f", {found.tokens:,} tokens"
    yield f"{found.problem} ({when}): {found.outcome}, reward {_reward(found)}{tokens}, ended by {found.finish_reason}"
    for message in found.prompt:
        yield f"[{message.role}]"
        yield from (f"  {line}" for line in message.content.split("\n"))
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
