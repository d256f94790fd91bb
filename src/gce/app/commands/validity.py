"""`gce validity`: numbers for four ways in which an evaluation can mislead, and the shortcut margin beside them."""

from __future__ import annotations

import argparse

from gce.app.evaluation.validity import Line, measure_validity
from gce.app.options import PROBLEMS, RUN, THREADS
from gce.app.tables.cells import coverage_cell, share_cell
from gce.app.tables.layout import table
from gce.app.terminal import put, put_json
from gce.app.wiring.runs import open_run, runs_of
from gce.app.wiring.tasks import say_if_many

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Measure how far a run's result can be trusted, and keep the validity card in the run (validity.json, shown by gce
report).

  distributional   accuracy on fresh problems, on the problems that training sampled, and on those in the buffer
                   (which the model had solved); on held-out tiers; on distribution shifts
  temporal         the largest decline from a tier's best accuracy on dev, and the first significant gain (a
                   sequential test)
  scope            what a second and third attempt with feedback recover
  process          the share of right answers with only true steps, and the first false step of wrong answers
  shortcut margin  accuracy minus that of the best prompt-blind baseline

If accuracy on fresh problems is far below that on trained ones, the model has memorized. If the shortcut margin is near
0, the model does no better than guessing.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce validity`."""
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help="directory of a finished run of gce train")
    parser.add_argument("--n", type=PROBLEMS, default=100, help="problems per tier for each measurement (default 100)")
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print the card as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    say_if_many({"test": arguments.n})
    with open_run(arguments.run) as reader:
        found = measure_validity(reader, arguments.n, threads=arguments.threads)
    card = runs_of(arguments.run).write_card(arguments.run, found.card)
    if arguments.json:
        put_json(card, indent=1)
    else:
        put(*table(["", "% (95 % interval)", "n", "coverage"], [_row(line) for line in found.lines]).split("\n"))
        put("", *found.words)
    found.check()
    return 0


def _row(line: Line) -> list[str]:
    share = share_cell(line.value, line.low, line.high) if line.n else "not judged"
    return [line.what, share, str(line.n), coverage_cell(line.coverage)]
