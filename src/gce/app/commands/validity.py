"""`gce validity`: numbers for four ways in which an evaluation can mislead, and the shortcut margin beside them."""

from __future__ import annotations

import argparse
from pathlib import Path

from attrs import fields_dict

from gce.app.evaluation.validity import Line, measure_validity
from gce.app.options import PATH, PROBLEMS, RUN, SAMPLES, THREADS, Choice, Listed
from gce.app.reports.controls import control_parts, control_sections
from gce.app.reports.report import Report
from gce.app.shown import lines_of
from gce.app.studies.controls.conclusions import Controls
from gce.app.studies.controls.deep import estimated_controls, measure_controls
from gce.app.studies.controls.records import ControlOptions
from gce.app.studies.controls.table import CONTROLS
from gce.app.tables.cells import coverage_cell, share_cell
from gce.app.tables.layout import table
from gce.app.terminal import put, put_json, put_result
from gce.app.wiring.runs import folder_of, open_run, runs_of
from gce.app.wiring.tasks import say_if_many
from gce.errors import SettingError

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
  shortcut margin  accuracy minus the accuracy of the best prompt-blind baseline

If accuracy on fresh problems is far below that on trained ones, the model has memorized. If the shortcut margin is near
0, the model does no better than guessing.

With --deep, measure controls instead: alternative explanations of the run's result, on the run's budget, each compared
with the run on the same test problems. Finished controls are kept in the run, and the same command continues after an
interruption; RUN/validity/controls.html shows them as they finish.
"""
EXAMPLES = """\
examples:
  gce validity runs/1                             the validity card
  gce validity --deep runs/1 --dry-run            how much work and time the controls take
  gce validity --deep runs/1                      all controls
  gce validity --deep runs/1 --rows shuffled,sft  only these two
  gce validity --deep runs/1 --rows decontamination --decontaminate digests.txt
"""
PAGE = Path("validity", "controls.html")
DEEP = ("rows", "pass_problems", "pass_samples", "tune", "decontaminate")
"""Options of --deep alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce validity`."""
    listed = "\n".join(f"  {name:<16} {control.what}" for name, control in CONTROLS.items())
    parser.description, parser.epilog = f"{DESCRIPTION}\ncontrols:\n{listed}", EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help="directory of a finished run of gce train")
    parser.add_argument("--n", type=PROBLEMS, default=100, help="problems per tier for each measurement (default 100)")
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    parser.add_argument("--deep", action="store_true", help="measure the controls listed above")
    known = ControlOptions()
    for flag, kind, words in (
        ("--pass-problems", PROBLEMS, f"--deep: test problems per tier for pass@k (default {known.pass_problems})"),
        ("--pass-samples", SAMPLES, f"--deep: samples per problem, the largest k (default {known.pass_samples})"),
        ("--tune", PROBLEMS, f"--deep: dev problems per tier on which the base is tuned (default {known.tune})"),
        ("--decontaminate", PATH, "--deep: file of digests of the model's pretraining text, one per line"),
    ):
        parser.add_argument(flag, type=kind, default=argparse.SUPPRESS, help=words)
    parser.add_argument(
        "--rows",
        type=Listed(Choice(tuple(CONTROLS))),
        default=argparse.SUPPRESS,
        metavar="NAME,...",
        help="--deep: controls to measure (default: all)",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="--deep: measure a small sample, and print how much work and time the controls would take",
    )
    parser.add_argument("--json", action="store_true", help="print the card, or the controls, as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.deep:
        return _deep(arguments)
    if given := [name for name in DEEP if name in vars(arguments)] or ["dry_run"] * arguments.dry_run:
        raise SettingError(given[0], "none", vars(arguments)[given[0]], f"{{{given[0]}}} needs --deep")
    say_if_many({"test": arguments.n})
    with open_run(arguments.run) as reader:
        found = measure_validity(reader, arguments.n, threads=arguments.threads)
        earlier = reader.card() or {}
    controls = (
        {"controls": earlier["controls"]} if "controls" in earlier and earlier.get("policy") == found.policy else {}
    )
    card = runs_of(arguments.run).write_card(arguments.run, {**found.card, **controls})
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


def _deep(arguments: argparse.Namespace) -> int:
    given = {name: value for name, value in vars(arguments).items() if name in fields_dict(ControlOptions)}
    options, chosen = ControlOptions(**given), vars(arguments).get("rows", ())
    if arguments.dry_run:
        work, lines = estimated_controls(arguments.run, options, chosen)
        if arguments.json:
            put_json({"controls": [dict(zip(work.head, row, strict=True)) for row in work.rows], "estimate": lines})
        else:
            put(*lines_of([work, *lines]), "dry run: nothing was written")
        arguments.following = None
        return 0
    say_if_many({"test": options.n})
    page = folder_of(arguments.run) / PAGE
    title = f"Controls of {Path(arguments.run).resolve().name}"

    def on_row(controls: Controls) -> None:
        Report(title, tuple(control_sections(controls))).write_page(page)

    controls = measure_controls(arguments.run, options, chosen, on_row=on_row)
    if arguments.json:
        put_json(controls.plain, indent=1)
    else:
        put_result(*lines_of(control_parts(controls)), f"page: {page}")
    return 0
