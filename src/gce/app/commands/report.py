"""`gce report`: runs and studies as one page, as Markdown, or as pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from gce.app.evaluation.stored_runs import stored_settings
from gce.app.options import PATH, RUN
from gce.app.reports.report import FORMATS, report
from gce.app.terminal import put, put_json
from gce.app.wiring.names import is_given
from gce.app.wiring.runs import add_no_verify, folder_of, open_run, runs_of, verifies

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Report runs: test accuracy with intervals beside the best prompt-blind baseline, training over iterations, the
curriculum, the replay buffer, charts of sample answers, searchable transcripts, costs, settings and hashes. Studies of
gce ablate become tables of effects. Works while a run is in progress. Figures need the extra `report`; Markdown and
JSON do not.
"""
EXAMPLES = """\
examples:
  gce report runs/1                       one self-contained page, runs/1/report.html
  gce report runs/1 runs/2 --out both.html
  gce report studies/ablations --out ablations.html
  gce report runs/1 --out page.html --force      replace an earlier report
  gce report runs/1 --format md           Markdown on standard output
  gce report answers.jsonl                strategies of an evaluation; the page is answers-report.html
  gce report runs/1 --format png --out pictures/
"""
IN_RUN = {"html": "report.html", "png": "pictures"}
"""Where in the first run they go without --out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce report`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "runs",
        nargs="+",
        type=RUN,
        metavar="RUN",
        help="a run directory, a study's, or a file of gce evaluate --answers",
    )
    parser.add_argument(
        "--format", type=FORMATS, choices=FORMATS.names, default="html", help="format of the report (default html)"
    )
    parser.add_argument("--out", type=PATH, help="file to write, or folder for png (default: in the first run)")
    parser.add_argument("--force", action="store_true", help="replace --out if gce report wrote it in the same format")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, and write nothing")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    first, named = arguments.runs[0], arguments.out is not None
    out: Path | None = arguments.out
    if out is None and arguments.format in IN_RUN:
        file, written = Path(first), IN_RUN[arguments.format]
        out = file.with_name(f"{file.stem}-{written}") if file.is_file() else folder_of(first) / written
    found = report(
        *arguments.runs,
        out=None if arguments.json else out,
        format=arguments.format,
        force=arguments.force or not named,
        verify=verifies(arguments),
    )
    if arguments.json:
        put_json(found.plain, indent=1)
    elif out is None:
        put(*str(found).removesuffix("\n").split("\n"))
    else:
        put(str(out))
    if not _can_be_measured(first):
        arguments.following = None
    return 0


def _can_be_measured(name: str) -> bool:
    """Whether `gce validity` measures it: a finished run whose task and model are found by name, without a card yet."""
    if Path(name).is_file() or name not in runs_of(name).find(name):
        return False  # A study, or a file of answers.
    with open_run(name, verify=False) as run:
        settings = stored_settings(run)
        named = not any(map(is_given, (settings.task, settings.model.name, settings.evaluator)))
        return named and run.summary() is not None and run.card() is None
