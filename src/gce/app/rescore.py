"""`gce rescore`: judge a run's stored answers again, with the verifier as it is now."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.run_reader import RunReader
from gce.app.evaluation import judge
from gce.app.resolve import find_task
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task, problem_of_key
from gce.domain.types import Completion
from gce.errors import BadInput

__all__ = ["Change", "add_arguments", "run"]

DESCRIPTION = """\
Judge every stored rollout and test answer of a run again and say which verdicts have changed. Changes nothing in the
run. Exit status 0 where all are as they were, 1 where some are not.
"""
STORED = ("test-before", "test-after")


@frozen
class Change:
    """An answer that is judged otherwise."""

    where: str
    key: str
    was: bool
    now: bool
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
        settings = reader.config.get("settings")
        if not isinstance(settings, dict):
            raise BadInput(f"expected a run that gce train made in {arguments.run}, got another program's")
        task = find_task(settings["task"])
        judged, changes = 0, []
        for where, stored in _stored(reader):
            judged += 1
            change = _again(task, where, stored)
            changes += [change] if change else []
    if arguments.json:
        json.dump({"judged": judged, "changes": to_plain(changes)}, sys.stdout, indent=1)
        print()
        return bool(changes)
    for change in changes:
        words = "; ".join(change.reasons) or "no violation"
        print(f"{change.where} {change.key}: {_word(change.was)}, now {_word(change.now)} ({words})")
    print(f"{judged} answers judged again, {len(changes)} verdicts changed")
    return bool(changes)


def _stored(reader: RunReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for record in reader.read("rollouts"):
        yield "rollout", record
    for name in STORED:
        for record in reader.answers(name):
            yield name, record


def _again(task: Task, where: str, stored: Mapping[str, Any]) -> Change | None:
    key = stored.get("key", stored["problem"])
    problem = problem_of_key(task, stored["problem"])
    now = judge(task, problem, Completion(key, stored["text"], stored["finish_reason"], stored["policy"]))
    if now.right == stored["right"]:
        return None
    reasons = tuple(violation.message for verdict in now.verdicts for violation in verdict.violations)
    return Change(where, key, stored["right"], now.right, reasons)


def _word(right: bool) -> str:
    return "right" if right else "wrong"
