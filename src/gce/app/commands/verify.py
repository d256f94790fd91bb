"""`gce verify`: judge one answer. Exit status 0 right, 1 wrong, 2 bad input, 3 failed."""

from __future__ import annotations

import argparse
from typing import Any

from gce.app.evaluation.scoring import judge
from gce.app.options import NAME
from gce.app.terminal import put, put_json
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.files import parse_json, read_input, read_standard_input
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_task
from gce.domain.completions import Completion
from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import Task
from gce.errors import BadInput, one_line

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Judge an answer to a problem with the task's verifier. The problem is JSON as `gce generate --json` prints it (an object
with at least `instance`), the answer is plain text. Either may be `-` for standard input; with neither, standard input
is one JSON object with the fields `problem` and `answer`.

A file is a regular file of at most 64 MiB; what comes through a pipe is read as -.

exit status: 0 right, 1 wrong or unreadable, 2 bad input, 3 failed: the answer could not be judged; 70 a defect of gce
"""
EXAMPLES = """\
examples:
  gce generate --tiers T1 --json > problem.json
  echo 'Answer: A 0, B 3' | gce verify problem.json -
"""
MOST_BYTES = 64 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce verify`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("problem", type=NAME, nargs="?", help="a file, or - for standard input")
    parser.add_argument("answer", type=NAME, nargs="?", help="a file, or - for standard input (default)")
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--steps", action="store_true", help="judge the written reasoning step by step, too")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task)
    if arguments.problem is None:
        both = parse_json(_read("-"), "standard input")
        if not isinstance(both, dict) or not isinstance(both.get("answer"), str) or "problem" not in both:
            raise BadInput('expected {"problem": {...}, "answer": "..."} on standard input')
        problem, text = _problem(task, both["problem"]), both["answer"]
    else:
        if arguments.problem == arguments.answer == "-" or (arguments.problem == "-" and arguments.answer is None):
            raise BadInput("problem and answer cannot both be standard input: name a file for one of them")
        problem = _problem(task, parse_json(_read(arguments.problem), arguments.problem))
        text = _read(arguments.answer or "-")
    judged = judge(
        task, find_evaluator(task, arguments.runner), problem, Completion("answer", text, "stop", policy="given")
    )
    steps = task.judge_steps(problem, text) if arguments.steps else ()
    if arguments.json:
        found = {"right": judged.right, "outcome": judged.outcome, "verdicts": to_plain(judged.verdicts)}
        put_json(found | {"steps": to_plain(steps)})
    else:
        for step in steps:
            put(f"{step.status:>10}  {step.text}" + (f"   <- {step.reason}" if step.reason else ""))
        for verdict in judged.verdicts:
            put(f"{verdict.evaluator} {verdict.version}: {verdict.status}")
            for violation in verdict.violations:
                put(f"  {violation.kind}: {violation.message}")
    if judged.failed:
        return 3
    return 0 if judged.right else 1


def _read(name: str) -> str:
    data = read_standard_input(MOST_BYTES) if name == "-" else read_input(name, MOST_BYTES)
    return data.decode("utf-8", "surrogateescape")


def _problem(task: Task, data: Any) -> Problem:
    if not isinstance(data, dict) or "instance" not in data:
        raise BadInput("expected a problem as `gce generate --json` prints it: an object with an instance")
    instance: Any
    try:
        instance = from_plain(task.instance_type, data["instance"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BadInput(f"the problem's instance is not valid: {one_line(error)}") from error
    if not isinstance(data.get("tier", ""), str) or not isinstance(data.get("key", ""), str):
        raise BadInput("expected a problem whose key and tier are text")
    name = ProblemId(task.name, "", "test", "", 0, 0)
    return Problem(name, instance, (Message("user", ""),), task.digest(instance))
