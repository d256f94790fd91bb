"""`gce new`: a package for a task of one's own, which passes its own tests as it is written."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gce.app.new_task import write_new_task
from gce.app.options import NAME, PATH
from gce.app.terminal import put, put_json

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Create a small package for your own task: how problems are drawn and shown, the verifier that judges answers, tests
that attack the verifier, and a README with the commands. The generated package works and asks for sums: replace them
with your own problems. Existing files are never overwritten.
"""
EXAMPLES = """\
examples:
  gce new cities                 writes ./cities
  gce show cities:TASK           a problem as the model sees it
  pytest cities                  its tests
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce new`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", type=NAME, metavar="NAME", help="the package: a Python identifier, not a module's name")
    parser.add_argument("--dir", type=PATH, help="folder to write it in (default: the current one)")
    parser.add_argument("--json", action="store_true", help="print the files as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    folder = arguments.dir or Path()
    files = write_new_task(arguments.name, folder)
    if arguments.json:
        put_json([str(file) for file in files])
        return 0
    put(*map(str, files), "")
    if arguments.dir is not None:
        put(f"cd {shlex.quote(str(folder))}")
    put(f"gce show {arguments.name}:TASK", f"pytest {arguments.name}", f"gce check --task {arguments.name}:TASK")
    return 0
