"""How a command that reads a run is told not to verify it first, and how it says that it did not."""

from __future__ import annotations

import argparse

from gce.app.terminal import put

__all__ = ["UNVERIFIED", "add_no_verify", "verifies"]

UNVERIFIED = "Not verified (--no-verify): records were not held against the run's digests."


def add_no_verify(parser: argparse.ArgumentParser) -> None:
    """The option `--no-verify`."""
    parser.add_argument(
        "--no-verify",
        action="store_true",
        help="leave out checking the records first, about 7 s of a core a gigabyte; the output says so",
    )


def verifies(arguments: argparse.Namespace) -> bool:
    """Whether the run is to be verified; where not, standard error says so."""
    if arguments.no_verify:
        put(f"warning: {UNVERIFIED}", error=True)
    return not arguments.no_verify
