"""`gce check`: attack the verifier of any task. Exit status 0 where nothing was found, 1 where something was."""

from __future__ import annotations

import argparse

from gce.app.evaluation.checking import check
from gce.app.evaluation.scoring import MIN_COVERAGE, check_coverage
from gce.app.options import NAME, PROBLEMS, RESPONSES, SECONDS, SEED
from gce.app.terminal import put, put_json
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Attack a task's verifier, which is also its reward: hostile and mutated responses, the declared relations, blind
answers, feedback that leaks, a prompt that hides what is checked, hedging, and generated responses that a second judge
judges too. Prints what each check tried and found, the exploit rate with its upper bound, and what it could not check.

  totality     any text gets verdicts, and no exception
  time         four times the text takes about four times as long, and nothing hangs
  determinism  the same verdict again, in any order, and on the problem drawn again from its key
  round trip   an instance written as JSON comes back the same
  relations    what the task declares: this change keeps the verdict, that one breaks a right answer
  blind        no answer that ignores the problem passes its limit (`gce audit` has all shares)
  feedback     what is said of a wrong answer holds no right one
  agreement    the prompt states all that is checked, and what it states is checked
  hedging      naming several answers does not pay
  exploits     wrong responses judged right, right ones judged wrong, by a judge that shares no code

exit status: 0 nothing found, 1 something found, 2 bad input, 3 too much could not be judged
"""
EXAMPLES = """\
examples:
  gce check                                                  the shipped task, its first preset, 20,000 responses
  gce check --preset paper --responses 100000                a rate below 0.004 % where nothing is found
  gce check --task my_task:TASK                              your own; without a second judge
  gce check --task my_task:TASK --accepts my_task:accepts    with one: a function (problem, text) -> bool
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce check`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--problems", type=PROBLEMS, default=5, help="problems a tier (default 5)")
    parser.add_argument(
        "--responses", type=RESPONSES, default=20_000, help="generated responses in all (default 20000)"
    )
    parser.add_argument("--seed", type=SEED, default=0, help="another seed, other problems and responses")
    parser.add_argument(
        "--accepts",
        type=NAME,
        metavar="MODULE:ATTR",
        help="a second judge, (problem, text) -> bool (default: for shipped tasks, the shipped one)",
    )
    parser.add_argument("--seconds", type=SECONDS, default=5.0, help="longest that one verdict may compute (default 5)")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    report = check(
        arguments.task,
        preset=arguments.preset,
        problems=arguments.problems,
        responses=arguments.responses,
        seed=arguments.seed,
        accepts=arguments.accepts,
        seconds=arguments.seconds,
        runner=arguments.runner,
    )
    if arguments.json:
        put_json({"ok": report.ok, **to_plain(report)}, indent=1)
    else:
        put(*str(report).split("\n"))
    check_coverage("verdicts", sum(report.failed.values()), report.verdicts, MIN_COVERAGE, report.failed)
    return 0 if report.ok else 1
