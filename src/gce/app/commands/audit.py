"""`gce audit`: what answers score that ignore the problem. A tier that they pass measures nothing."""

from __future__ import annotations

import argparse

from gce.app.evaluation.auditing import audit
from gce.app.evaluation.baselines import check_references
from gce.app.evaluation.scoring import COVERAGE_HELP, MIN_COVERAGE
from gce.app.options import FITTED, NAME, NAMES, PROBLEMS, SHARE
from gce.app.terminal import put_json, put_result
from gce.app.wiring.models import default_model
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_task
from gce.errors import ModelError

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Score prompt-blind baselines on fresh test problems of every tier, with 95 % Wilson intervals, and heuristics as a
reference. A prompt-blind baseline ignores the problem, or one family of its constraints: its score is what guessing
earns. Exits with status 1 if the upper bound of a baseline exceeds the limit that the task declares for the tier, and
with status 3 if coverage is too low to tell.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce audit`."""
    parser.description = DESCRIPTION
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers to audit (default: all)")
    parser.add_argument("--n", type=PROBLEMS, default=500, help="test problems per tier (default 500)")
    parser.add_argument(
        "--fit",
        type=FITTED,
        default=500,
        help="training problems per tier to which fixed answers are fitted (default 500)",
    )
    parser.add_argument(
        "--min-coverage", type=SHARE, default=MIN_COVERAGE, help=f"{COVERAGE_HELP} (default {MIN_COVERAGE})"
    )
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print every row as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command: 0 where every prompt-blind baseline stays below its limit, or no limit is declared."""
    found = audit(
        arguments.task,
        preset=arguments.preset,
        tiers=arguments.tiers,
        n=arguments.n,
        fit=arguments.fit,
        runner=arguments.runner,
    )
    if arguments.json:
        put_json(found.plain, indent=1)
    else:
        put_result(*str(found).split("\n"))
    check_references(found.report.tier_shares, arguments.min_coverage)
    try:
        default_model(find_task(arguments.task))
    except ModelError:  # It is not installed, so that an evaluation would need another.
        arguments.following = "gce models"
    return 0 if found.ok else 1
