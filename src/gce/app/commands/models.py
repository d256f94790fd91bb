"""`gce models`: the model backends."""

from __future__ import annotations

import argparse

from gce.app.tables.layout import table
from gce.app.terminal import put, put_json
from gce.app.wiring.models import backend_rows, provider_rows

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce models`."""
    parser.description = (
        "List the model backends: what --model takes, which extra to install, and what each one can do; with "
        "--providers, the providers: address, environment variable of the key, dialect, how reasoning is "
        "reported, and which parameters are not sent because models refuse them."
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument("--providers", action="store_true", help="print the table of providers instead")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    head, *rows = provider_rows() if arguments.providers else backend_rows()
    if arguments.json:
        put_json([dict(zip(head, row, strict=True)) for row in rows])
    else:
        put(*table(head, rows, words=True).split("\n"))
    return 0
