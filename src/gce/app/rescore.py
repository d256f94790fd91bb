"""`gce rescore`: judge a run's stored answers again, with the verifier as it is now."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.run_reader import RunReader
from gce.app.evaluation import Judged, judge_each
from gce.app.resolve import find_task, same_file, stored_problem
from gce.app.runners import AUTO
from gce.app.terminal import put, put_json
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task
from gce.domain.types import Completion, Problem
from gce.errors import BadInput

__all__ = ["Change", "add_arguments", "run"]

DESCRIPTION = """\
Judge every stored rollout and test answer of a run again and say which verdicts have changed. Changes nothing in the
run; a verifier that looks at token ids cannot be run again. Exit status 0 where all are as they were, 1
where some are not.
"""
STORED = ("test-before", "test-after")


@frozen
class Change:
    """An answer that is judged otherwise."""

    where: str
    key: str
    was: str
    """Status of each evaluator's verdict."""
    now: str
    reasons: tuple[str, ...]
    """Violations as they are found now."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce rescore`."""
    parser.description = DESCRIPTION
    parser.add_argument("run", type=Path, metavar="RUN", help="a run directory")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with RunReader(arguments.run) as reader:
        task = find_task(reader.settings["task"], reader.settings.get("runner", AUTO))
        same_file(task.name, reader.config.get("problems", ""))
        found = [(where, stored, *_answer(task, stored)) for where, stored in _stored(reader)]
        again = judge_each(task, ((problem, completion) for _, _, problem, completion in found))
        pairs = zip(found, again, strict=True)
        changes = [change for (where, stored, *_), answer in pairs if (change := _change(where, stored, answer))]
        judged = len(found)
    if arguments.json:
        put_json({"judged": judged, "changes": to_plain(changes)}, indent=1)
        return bool(changes)
    for change in changes:
        words = "; ".join(change.reasons) or "no violation"
        put(f"{change.where} {change.key}: {change.was}, now {change.now} ({words})")
    put(f"{judged} answers judged again, {len(changes)} verdicts changed")
    return bool(changes)


def _stored(reader: RunReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for record in reader.read("rollouts"):
        yield "rollout", record
    for name in STORED:
        for record in reader.answers(name):
            yield name, record


def _answer(task: Task, stored: Mapping[str, Any]) -> tuple[Problem, Completion]:
    key = stored.get("key", stored["problem"])
    problem = stored_problem(task, stored["problem"])
    if "prompt" in stored and stored["prompt"] != to_plain(problem.prompt):
        raise BadInput(f"task {task.name} draws another problem {key} than the run had: it cannot be judged again")
    return problem, Completion(key, stored["text"], stored["finish_reason"], stored["policy"])


def _change(where: str, stored: Mapping[str, Any], answer: Judged) -> Change | None:
    was = _status(stored["right"], [verdict["status"] for verdict in stored["verdicts"]])
    now = _status(answer.right, [verdict.status for verdict in answer.verdicts])
    if was == now:
        return None
    reasons = tuple(violation.message for verdict in answer.verdicts for violation in verdict.violations)
    return Change(where, answer.completion.key, was, now, reasons)


def _status(admitted: bool, statuses: Sequence[str]) -> str:
    """As "right", or "wrong, right: not admitted" where evaluators are several."""
    words = ", ".join(statuses)
    return (
        words
        if len(statuses) == 1 and admitted == (words == "right")
        else f"{words}: {'' if admitted else 'not '}admitted"
    )
