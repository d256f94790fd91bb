"""`gce performance`: real code made faster by agents, and measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from gce.app.options import NAME, PATH, Choice
from gce.app.performance.stage_actions import STAGE_EXAMPLES, STAGES, add_stage_options
from gce.app.wiring.sandboxes import add_runner

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Can an agent make real code faster, correctly? Tasks are code before and after a person made it faster, with a workload
and tests. Agents work in a copy without history, in a sandbox; their patch is the difference of the tree, and is
measured against the base and the human's form by processor time.
"""
ACTIONS = Choice(tuple(STAGES))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce performance`."""
    parser.description, parser.epilog = DESCRIPTION, f"examples:\n{STAGE_EXAMPLES}"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("action", type=ACTIONS, choices=ACTIONS.names, metavar="ACTION", help=", ".join(ACTIONS.names))
    parser.add_argument("paths", nargs="+", type=NAME, metavar="PATH", help="directories of tasks, a run, or a file")
    parser.add_argument(
        "--cache", type=PATH, default=Path("~/.cache/gce/performance").expanduser(), help="folder of wheels"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_stage_options(parser)
    add_runner(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return STAGES[arguments.action](arguments)
