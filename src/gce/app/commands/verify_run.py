"""`gce verify-run`: whether runs, or copies of them, are as they were written."""

from __future__ import annotations

import argparse

from gce.app.options import RUN
from gce.app.terminal import put, put_json
from gce.app.wiring.runs import runs_of
from gce.domain.serialization import to_plain
from gce.domain.text import counted, printable

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Check everything that is kept of a run against its digests: config, records, commits, checkpoints, summary, answers and
validity card. Prints a line for each part that is missing or not as it was written, and then exits with status 1.

The digest of the last commit is equal in two runs only if all that was committed is: compare it with that of the
original. Copy a run while no process writes it.
"""
EXAMPLES = """\
examples:
  rclone copy remote:team/runs/1 copied && gce verify-run copied
  gce verify-run runs/1 runs/2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce verify-run`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", nargs="+", type=RUN, metavar="RUN", help="a run directory, or a run on a server")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    found = {name: runs_of(name).verify(name) for name in arguments.runs}
    if arguments.json:
        put_json({name: to_plain(each) for name, each in found.items()})
    for name, each in {} if arguments.json else found.items():
        put(*(printable(f"{name}: {problem}") for problem in each.problems))
        if not each.problems:
            ends = "nothing committed" if each.iteration is None else f"intact up to iteration {each.iteration}"
            put(f"{name}: {ends}, {counted(len(each.checkpoints), 'checkpoint')}, digest {each.digest}")
    return int(any(each.problems for each in found.values()))
