"""`gce rescore`: judge stored answers again, with the verifier as it is now."""

from __future__ import annotations

import argparse

from gce.app.evaluation.answer_file import SOURCE_HELP, open_answers
from gce.app.evaluation.rescoring import Rescored, rescore
from gce.app.evaluation.scoring import MIN_COVERAGE, check_answers
from gce.app.options import NAME, RUN
from gce.app.terminal import put, put_json
from gce.app.wiring.runs import add_no_verify, verifies
from gce.domain.serialization import to_plain
from gce.domain.text import counted

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Judge every stored answer again and list the verdicts that changed. For a run, this covers rollouts and answers to test
problems, distribution shifts and other tasks; for a file of gce evaluate --answers, the last attempt of each
conversation; for a file of gce answers --to jsonl, its rows. Nothing stored is changed.

A verifier that reads token ids cannot be repeated. Exit status 0 if no verdict changed, 1 if some did, 3 if too many
answers could not be judged.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce rescore`."""
    parser.description = DESCRIPTION
    parser.add_argument("run", type=RUN, metavar="RUN", help=SOURCE_HELP)
    parser.add_argument(
        "--task",
        type=NAME,
        help="task of the answers, if it cannot be found by its stored name, such as your own task in a file of gce "
        "answers",
    )
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with open_answers(arguments.run, verify=verifies(arguments)) as reader:
        found = rescore(reader, task=arguments.task)
    if arguments.json:
        changes = to_plain(list(found.changes))
        put_json({"judged": found.judged, "changes": changes, "verified": not arguments.no_verify}, indent=1)
    else:
        _print(found)
    check_answers("stored answers", found.answers, MIN_COVERAGE)
    return bool(found.changes)


def _print(found: Rescored) -> None:
    if found.tolerance:
        put(f"the evaluator is not deterministic: scores are compared within {found.tolerance:g}", error=True)
    for change in found.changes:
        words = "; ".join(change.reasons) or "no violation"
        put(f"{change.where} {change.key}: {change.was}, now {change.now} ({words})")
    put(f"{counted(found.judged, 'answer')} judged again, {counted(len(found.changes), 'verdict')} changed")
