"""`gce verify`: judge one answer, or a stream of them. Exit status 0 right, 1 wrong, 2 bad input, 3 failed."""

from __future__ import annotations

import argparse
from typing import Any

from gce.app.evaluation.scoring import judge
from gce.app.evaluation.verifying import KnownProblems, response_of, written_problem
from gce.app.options import NAME
from gce.app.terminal import put, put_json
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.files import parse_json, read_input, read_standard_input, standard_input_lines
from gce.app.wiring.sandboxes import add_runner
from gce.app.wiring.tasks import TASK_HELP, find_task
from gce.domain.answers import Answer
from gce.domain.serialization import to_plain
from gce.domain.tasks import NoProblem, Task
from gce.errors import BadInput, one_line
from gce.ports.evaluator import Evaluator

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Judge an answer to a problem with the task's verifier. The problem is JSON as `gce generate --json` prints it (an object
with at least `instance`), the answer is plain text. Either may be `-` for standard input; with neither, standard input
is one JSON object with the fields `problem` and `answer`.

With `-` alone, standard input has one such object per line, and standard output gets one JSON object per line as soon
as the answer is judged, with `line` (its number), `right`, `outcome`, `reward` and `verdicts`. Here `problem` may also
be the key of a problem, such as scheduling/grounded/test/T1/0/0, and an `id` is passed through. A line that cannot be
read gets an object with `line` and `error`; the others are judged nevertheless.

A file must be a regular file of at most 64 MiB; read a pipe as -.

exit status: 0 right (all answers), 1 wrong or unreadable, 2 bad input, 3 failed: an answer could not be judged, 70 a
defect of gce. With several answers, the first of 2, 3 and 1 that occurs
"""
EXAMPLES = """\
examples:
  gce generate --tiers T1 --json > problem.json
  echo 'Answer: A 0, B 3' | gce verify problem.json -
  gce verify --task my_tasks:ARITHMETIC - < answers.jsonl > verdicts.jsonl
"""
MOST_BYTES = 64 * 2**20
MOST_OF_A_LINE = 16 * 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce verify`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("problem", type=NAME, nargs="?", help="JSON file with the problem, or - for standard input")
    parser.add_argument("answer", type=NAME, nargs="?", help="text file with the answer, or - for standard input")
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--steps", action="store_true", help="also judge the written reasoning step by step")
    add_runner(parser)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    task = find_task(arguments.task)
    if arguments.problem == "-" and arguments.answer is None:
        arguments.following = None
        return _stream(task, find_evaluator(task, arguments.runner), steps=arguments.steps)
    if arguments.problem is None:
        both = parse_json(_read("-"), "standard input")
        if not isinstance(both, dict) or not isinstance(both.get("answer"), str) or "problem" not in both:
            raise BadInput('expected {"problem": {...}, "answer": "..."} on standard input')
        problem, text = written_problem(task, both["problem"]), both["answer"]
    else:
        if arguments.problem == arguments.answer == "-":
            raise BadInput("problem and answer cannot both be standard input: name a file for one of them")
        problem = written_problem(task, parse_json(_read(arguments.problem), arguments.problem))
        text = _read(arguments.answer or "-")
    judged = judge(task, find_evaluator(task, arguments.runner), problem, response_of(text))
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
    return _status(judged)


def _status(judged: Answer) -> int:
    return 3 if judged.failed else 0 if judged.right else 1


def _stream(task: Task, evaluator: Evaluator, *, steps: bool) -> int:
    """Judge one line after another; nothing is kept but the worst status so far."""
    drawn, worst = KnownProblems(task), 0
    for number, line in enumerate(standard_input_lines(MOST_OF_A_LINE), start=1):
        found: dict[str, Any] = {"line": number}
        try:
            data = _pair(line)
            found |= {"id": data["id"]} if "id" in data else {}
            given = data["problem"]
            problem = drawn.problem(given) if isinstance(given, str) else written_problem(task, given)
            judged = judge(task, evaluator, problem, response_of(data["answer"]))
        except (BadInput, NoProblem, ValueError) as error:
            put_json(found | {"error": one_line(error)})
            worst = 2
            continue
        found |= {"right": judged.right, "outcome": judged.outcome, "reward": judged.reward}
        found["verdicts"] = to_plain(judged.verdicts)
        if steps:
            found["steps"] = to_plain(task.judge_steps(problem, data["answer"]))
        put_json(found)
        worst = max(worst, _status(judged), key=(0, 1, 3, 2).index)
    return worst


def _pair(line: bytes | None) -> dict[str, Any]:
    if line is None:
        raise BadInput(f"expected a line of at most {MOST_OF_A_LINE:,} bytes")
    data = parse_json(line, "the line")
    if not isinstance(data, dict) or not isinstance(data.get("answer"), str) or "problem" not in data:
        raise BadInput('expected {"problem": ..., "answer": "..."}')
    return data


def _read(name: str) -> str:
    data = read_standard_input(MOST_BYTES) if name == "-" else read_input(name, MOST_BYTES)
    return data.decode("utf-8", "surrogateescape")
