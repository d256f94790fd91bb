"""`gce verify`: judge one answer. Exit status 0 right, 1 wrong, 2 bad input, 3 no verdict."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from gce.app.evaluation import judge
from gce.app.resolve import TASK_HELP, find_task
from gce.app.runners import add_runner
from gce.app.terminal import put, put_json
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import Task
from gce.domain.types import Completion, Message, Problem
from gce.errors import BadInput

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Judge an answer to a problem with the task's verifier. The problem is JSON as `gce generate --json` prints it (an object
with at least `instance`), the answer is plain text. Either may be `-` for standard input; with neither, standard input
is one JSON object with the fields `problem` and `answer`.

exit status: 0 right, 1 wrong, 2 bad input, 3 no verdict
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
    parser.add_argument("problem", nargs="?", help="a file, or - for standard input")
    parser.add_argument("answer", nargs="?", help="a file, or - for standard input (default)")
    parser.add_argument("--task", default="scheduling", help=TASK_HELP)
    parser.add_argument("--steps", action="store_true", help="judge the written reasoning step by step, too")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task, arguments.runner)
    if arguments.problem is None:
        both = _json(_read("-"), "standard input")
        if not isinstance(both, dict) or not isinstance(both.get("answer"), str) or "problem" not in both:
            raise BadInput('expected {"problem": {...}, "answer": "..."} on standard input')
        problem, text = _problem(task, both["problem"]), both["answer"]
    else:
        if arguments.problem == arguments.answer == "-" or (arguments.problem == "-" and arguments.answer is None):
            raise BadInput("problem and answer cannot both be standard input: name a file for one of them")
        problem = _problem(task, _json(_read(arguments.problem), arguments.problem))
        text = _read(arguments.answer or "-")
    judged = judge(task, problem, Completion("answer", text, "stop", policy="given"))
    steps = task.judge_steps(problem, text) if arguments.steps else ()
    if arguments.json:
        put_json({"right": judged.right, "verdicts": to_plain(judged.verdicts), "steps": to_plain(steps)})
    else:
        for step in steps:
            put(f"{step.status:>10}  {step.text}" + (f"   <- {step.reason}" if step.reason else ""))
        for verdict in judged.verdicts:
            put(f"{verdict.evaluator} {verdict.version}: {verdict.status.replace('_', ' ')}")
            for violation in verdict.violations:
                put(f"  {violation.kind}: {violation.message}")
    if any(verdict.status == "no_verdict" for verdict in judged.verdicts):
        return 3
    return 0 if judged.right else 1


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {name}: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise BadInput(f"{name} has more than {MOST_BYTES} bytes")
    return data.decode("utf-8", "surrogateescape")


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not JSON: {error}") from error


def _problem(task: Task, data: Any) -> Problem:
    if not isinstance(data, dict) or "instance" not in data:
        raise BadInput("expected a problem as `gce generate --json` prints it: an object with an instance")
    instance: Any
    try:
        instance = from_plain(task.instance_type, data["instance"])
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"the problem's instance is not valid: {error}") from error
    tier, key = str(data.get("tier", "")), str(data.get("key", "given"))
    return Problem(key, task.name, tier, "test", instance, (Message("user", ""),), task.digest(instance))
