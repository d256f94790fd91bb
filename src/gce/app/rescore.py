"""`gce rescore`: judge a run's stored answers again, with the verifier as it is now."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.adapters.run_reader import RunReader
from gce.app.evaluation import MIN_COVERAGE, Judged, check_answers, judge_each
from gce.app.options import PATH
from gce.app.reading import add_no_verify, verifies
from gce.app.resolve import find_task, same_file, stored_problem
from gce.app.runners import AUTO
from gce.app.terminal import put, put_json
from gce.domain.serialization import RENAMED, to_plain
from gce.domain.tasks import Task
from gce.domain.types import Completion, Problem

__all__ = ["Change", "add_arguments", "run"]

DESCRIPTION = """\
Judge every stored rollout and test answer of a run again and say which verdicts have changed. Changes nothing in the
run; a verifier that looks at token ids cannot be run again. Exit status 0 where all are as they were, 1
where some are not, 3 where too many could not be judged.
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
    parser.add_argument("run", type=PATH, metavar="RUN", help="a run directory")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    verified = verifies(arguments)
    with RunReader(arguments.run, verify=verified) as reader:
        task = find_task(reader.settings["task"], reader.settings.get("runner", AUTO))
        same_file(task.name, reader.config.get("problems", ""))
        found = [(where, stored, *_answer(task, stored)) for where, stored in _stored(reader)]
        again = judge_each(task, ((problem, completion) for _, _, problem, completion in found))
        pairs = zip(found, again, strict=True)
        answers: list[Judged] = []
        changes: list[Change] = []
        for (where, stored, *_), answer in pairs:
            answers.append(answer)
            if not answer.failed and (change := _change(where, stored, answer)):
                changes.append(change)
    _show(arguments, sum(not answer.failed for answer in answers), changes)
    check_answers("stored answers", answers, MIN_COVERAGE)
    return bool(changes)


def _show(arguments: argparse.Namespace, judged: int, changes: Sequence[Change]) -> None:
    if arguments.json:
        found = {"judged": judged, "changes": to_plain(list(changes)), "verified": not arguments.no_verify}
        put_json(found, indent=1)
        return
    for change in changes:
        words = "; ".join(change.reasons) or "no violation"
        put(f"{change.where} {change.key}: {change.was}, now {change.now} ({words})")
    put(f"{judged} answers judged again, {len(changes)} verdicts changed")


def _stored(reader: RunReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All answers that there are: what a backend failed to answer is none."""
    for record in reader.read("rollouts"):
        if record["finish_reason"] != "error":
            yield "rollout", record
    for name in STORED:
        for record in reader.answers(name):
            if record["finish_reason"] != "error":
                yield name, record


def _answer(task: Task, stored: Mapping[str, Any]) -> tuple[Problem, Completion]:
    key = stored.get("key", stored["problem"])
    problem = stored_problem(task, stored)
    return problem, Completion(key, stored["text"], stored["finish_reason"], stored["policy"])


def _change(where: str, stored: Mapping[str, Any], answer: Judged) -> Change | None:
    statuses = [verdict["status"] for verdict in stored["verdicts"]]
    was = _status(stored["right"], [RENAMED.get(status, status) for status in statuses])
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
