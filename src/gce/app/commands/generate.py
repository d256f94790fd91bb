"""`gce generate`: problems as JSON, one a line, for other programs or for a look."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from gce.app.evaluation.shown_problem import plain_problem
from gce.app.options import DECIMAL, NAME, NAMES, PATH, PROBLEMS_PRINTED, SEED, Choice
from gce.app.terminal import put, put_json
from gce.app.wiring.files import whole_folder
from gce.app.wiring.solvers import bounds_within, find_solve
from gce.app.wiring.tasks import TASK_HELP, find_preset, find_task, find_tiers
from gce.domain.problems import Problem
from gce.domain.tasks import ProblemSource
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.project_files import PROJECT_FORMATS
from gce.domain.tasks.scheduling.solution import Solution
from gce.domain.text import counted
from gce.errors import BadInput

__all__ = ["add_arguments", "plain_problem", "run"]

DESCRIPTION = """\
Generate problems and print them: as text, or with --json as one JSON object per line with key, tier, prompt and
instance. `gce verify` reads each line that --json prints. With --to, scheduling problems without deadlines of jobs are
written as files of projects, which --task scheduling@DIR reads.
"""
EXAMPLES = """\
examples:
  gce generate --tiers T2 --n 5
  gce generate --preset psplib-like --tiers J30 --bounds
  gce generate --preset psplib-like --split test --n 20 --to sm --out projects
  gce generate --task scheduling@projects --split test --n 80
"""
SPLIT = Choice(("train", "dev", "test"))
SOLVER = Choice(("exact", "cpsat"))
FORMATS = Choice(tuple(end[1:] for end in PROJECT_FORMATS))
WORK = 1.0
"""Units of CP-SAT's deterministic time for --bounds."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce generate`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
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
    parser.add_argument(
        "--bounds",
        type=DECIMAL,
        nargs="?",
        const=WORK,
        metavar="WORK",
        help="add the optimal makespan by CP-SAT, or bounds and their gap where WORK units of its deterministic time "
        f"(default {WORK:g}, each a few seconds) prove no optimum; equal on every machine with the same OR-tools",
    )
    parser.add_argument(
        "--to", type=FORMATS, choices=FORMATS.names, help="write scheduling problems as PSPLIB .sm or Patterson .rcp"
    )
    parser.add_argument("--out", type=PATH, metavar="DIR", help="directory to create, for --to")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if (arguments.to is None) != (arguments.out is None):
        raise BadInput("expected --to and --out together", hint="give {to} a format and {out} a directory")
    task = find_task(arguments.task)
    preset = find_preset(task, arguments.preset or "")
    source = ProblemSource(task, solve=find_solve(arguments.solver))
    problems = (
        source.draw(preset, tier, arguments.split, index, seed=arguments.seed)
        for tier in find_tiers(task, preset, arguments.tiers)
        for index in range(arguments.n)
    )
    if arguments.to:
        if arguments.json or arguments.bounds is not None:
            raise BadInput("files of projects hold neither JSON nor bounds", hint="leave out {json} and {bounds}")
        return _write(problems, f".{arguments.to}", arguments.out)
    bounds = None if arguments.bounds is None else bounds_within(arguments.bounds)
    for problem in problems:
        found = None if bounds is None else bounds(_instance(problem))
        if arguments.json:
            put_json(plain_problem(problem) | ({} if found is None else {"bounds": _plain(found)}))
        else:
            put(f"--- {problem.key}")
            for message in problem.prompt:
                put(*message.content.split("\n"))
            if found is not None:
                put(f"CP-SAT: {_said(found)}")
    return 0


def _instance(problem: Problem) -> Instance:
    if not isinstance(problem.instance, Instance):
        raise BadInput(f"expected a task of scheduling problems, got {problem.task}")
    return problem.instance


def _gap(found: Solution) -> float | None:
    """The makespan above the lower bound, as a share of it."""
    return None if found.makespan is None else found.makespan / max(found.lower_bound, 1) - 1


def _plain(found: Solution) -> dict[str, object]:
    kept = {"status": found.status, "makespan": found.makespan, "lower_bound": found.lower_bound}
    return kept | {"gap": _gap(found)}


def _said(found: Solution) -> str:
    match found.status:
        case "optimal":
            return f"the optimal makespan is {found.makespan}"
        case "feasible":
            gap = 100 * (_gap(found) or 0.0)
            return f"the optimal makespan is {found.lower_bound} to {found.makespan}, a gap of {gap:.1f} %"
        case "infeasible":
            return "no schedule satisfies every constraint"
    return f"no schedule was found; the makespan is at least {found.lower_bound}"


def _write(problems: Iterable[Problem], end: str, out: Path) -> int:
    """Write each problem as a file, named by its key without the task."""
    _, write = PROJECT_FORMATS[end]
    count = 0
    with whole_folder(out) as folder:
        for count, problem in enumerate(problems, 1):  # noqa: B007 - the last number is how many
            try:
                text = write(_instance(problem))
            except ValueError as error:
                raise BadInput(f"{problem.key}: {error}") from error
            (folder / f"{problem.id.within_task.replace('/', '-')}{end}").write_text(text, encoding="ascii")
    put(f"{out}: {counted(count, 'project')}; read them with --task scheduling@{out}")
    return 0
