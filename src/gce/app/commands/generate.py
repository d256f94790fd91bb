"""`gce generate`: problems as JSON, one a line, for other programs or for a look."""

from __future__ import annotations

import argparse

from gce.app.evaluation.shown_problem import plain_problem
from gce.app.options import NAME, NAMES, PROBLEMS_PRINTED, SEED, Choice
from gce.app.terminal import put, put_json
from gce.app.wiring.solvers import find_solve
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers
from gce.domain.tasks import ProblemSource

__all__ = ["add_arguments", "plain_problem", "run"]

DESCRIPTION = """\
Generate problems and print them: as text, or with --json as one JSON object per line with key, tier, prompt and
instance. `gce verify` reads each line that --json prints.
"""
SPLIT = Choice(("train", "dev", "test"))
SOLVER = Choice(("exact", "cpsat"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce generate`."""
    parser.description = DESCRIPTION
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers to draw from (default: all)")
    parser.add_argument(
        "--split", type=SPLIT, choices=SPLIT.names, default="train", help="split to draw from (default train)"
    )
    parser.add_argument("--n", type=PROBLEMS_PRINTED, default=1, help="problems per tier (default 1)")
    parser.add_argument("--seed", type=SEED, default=0, help="seed of the problems (default 0)")
    parser.add_argument(
        "--solver",
        type=SOLVER,
        choices=SOLVER.names,
        default="exact",
        help="solver for optimal makespans: exact (pure Python, the default) or CP-SAT; the problems are the same",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset or "")
    solve = find_solve(arguments.solver)
    source = ProblemSource(task, solve=solve)
    for tier in find_tiers(task, preset, arguments.tiers):
        for index in range(arguments.n):
            problem = source.draw(preset, tier, arguments.split, index, seed=arguments.seed)
            if arguments.json:
                put_json(plain_problem(problem))
            else:
                put(f"--- {problem.key}")
                for message in problem.prompt:
                    put(*message.content.split("\n"))
    return 0
