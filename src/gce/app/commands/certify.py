"""`gce certify`: a certificate of a task. Exit status 1 where a check fails."""

from __future__ import annotations

import argparse
import json

from gce.app.evaluation.certifying import certify
from gce.app.options import FITTED, NAME, PATH, PROBLEMS_PRINTED, RESPONSES
from gce.app.terminal import note, put, put_json
from gce.app.wiring.files import check_output, write_output
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Check a task and write a certificate. For each check it gives the number of items, the result (pass, fail, or not
applicable) with the reason, and what the check cannot show; then versions, and digests of the task's sources and
problems.

checks:
  splits        no problem is in two splits, by digest; no near-duplicates of training prompts
  oracle        the task's own answers are right
  attacks       gce check finds nothing
  determinism   the same verdicts in other processes and under other values of PYTHONHASHSEED
  prompt-blind  baselines that ignore the problem stay below the task's limits (gce audit)
  replay        problems are the same when drawn again from their keys, also in other processes

exit status: 0 no check failed, 1 a check failed, 2 bad input, 3 too many answers could not be judged
"""
EXAMPLES = """\
examples:
  gce certify scheduling --preset paper --out scheduling.json
  gce certify my_task:TASK
  gce certify reasoning-gym:leg_counting --n 20
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce certify`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("task", type=NAME, metavar="TASK", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--n", type=PROBLEMS_PRINTED, default=50, help="problems of each tier and split (default 50)")
    parser.add_argument(
        "--responses",
        type=RESPONSES,
        default=2_000,
        help="generated responses with which the verifier is attacked (default 2000)",
    )
    parser.add_argument(
        "--audited",
        type=FITTED,
        default=500,
        help="test and training problems of each tier for prompt-blind baselines (default 500)",
    )
    parser.add_argument("--out", type=PATH, metavar="FILE", help="JSON file to create with the certificate")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print the certificate as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.out is not None:
        check_output(arguments.out)
    found = certify(
        arguments.task,
        preset=arguments.preset,
        n=arguments.n,
        responses=arguments.responses,
        audited=arguments.audited,
        runner=arguments.runner,
        say=lambda said: note(f"{said} ..."),
    )
    if arguments.out is not None:
        write_output(arguments.out, f"{json.dumps(found.plain, indent=1)}\n".encode())
    if arguments.json:
        put_json(found.plain, indent=1)
    else:
        put(*str(found).split("\n"))
    return 0 if found.ok else 1
