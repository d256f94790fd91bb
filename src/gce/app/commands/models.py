"""`gce models`: what can stand behind `--model`."""

from __future__ import annotations

import argparse

from gce.app.tables import table
from gce.app.terminal import put, put_json
from gce.app.wiring.models import backend_rows

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce models`."""
    parser.description = "What can stand behind --model, and what each kind can do."
    parser.add_argument("--json", action="store_true", help="print the table as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    head, *rows = backend_rows()
    if arguments.json:
        put_json([dict(zip(head, row, strict=True)) for row in rows])
    else:
        put(*table(head, rows, words=True).split("\n"))
    return 0
