"""A certificate that no test problem was trained on, by canonical digest: what the task calls the same problem.

Digests of the scheduling task are equal for problems that differ only in labels and in the order of jobs and resources.
The pretraining text of a model is checked against a file of digests, where there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.app.evaluation.demonstrations import digests_of
from gce.app.studies.controls.records import Context, Control, ControlOptions, ControlWork, Row, RunFacts
from gce.app.training.preparation import demonstrations_of
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.files import read_input
from gce.app.wiring.names import find_strategy
from gce.app.wiring.runs import open_run
from gce.app.wiring.tasks import stored_problem
from gce.domain.tasks import Drawn, ProblemSource, Task
from gce.errors import BadInput

__all__ = ["contamination_control", "contamination_words", "read_digests"]

MOST_BYTES = 2**30
NAMED = 3
"""Test problems that were trained on, of which so many are named."""
_HEXADECIMAL = re.compile("[0-9a-f]+")


@frozen
class Digests:
    """Digests of the problems of a text."""

    source: str
    """What text it is, in words."""
    found: frozenset[str]


def read_digests(path: Path, task: Task, like: Collection[str]) -> Digests:
    """Read a file of digests: a line {"digests": TASK, "source": WORDS}, then one digest per line.

    Args:
        path: the file.
        task: what the digests must be of.
        like: digests as the task gives them. Where all are hexadecimal, so is each line, and as long as one of them.

    Raises:
        BadInput: it cannot be read, is another kind of file or of another task, or has no digests or other lines.
    """
    try:
        first, *lines = read_input(path, MOST_BYTES).decode().splitlines()
        header = json.loads(first)
        named, source = str(header["digests"]), str(header["source"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(
            f'{path} is no file of digests: expected a first line {{"digests": TASK, "source": WORDS}}, and then one '
            "digest per line"
        ) from error
    if named not in _names(task):
        raise BadInput(f"{path} has digests of task {named}, and the run is on {task.name}")
    lines = [line.strip() for line in lines]
    found = frozenset(filter(None, lines))
    if not found:
        raise BadInput(f"{path} has no digests after its first line: nothing could be checked against it")
    if all(map(_HEXADECIMAL.fullmatch, like)):
        lengths = {len(each) for each in like}
        for number, line in enumerate(lines, 2):
            if line and not (len(line) in lengths and _HEXADECIMAL.fullmatch(line)):
                raise BadInput(
                    f"{path}, line {number}: {line[:40]!r} is no digest as task {task.name} gives them, such as "
                    f"{min(like)}"
                )
    return Digests(source, found)


def _names(task: Task) -> set[str]:
    """The task, and what it shares its instances with."""
    return {task.name, task.draw.stream} if isinstance(task.draw, Drawn) else {task.name}


def _trained_on(facts: RunFacts) -> set[str]:
    """Digests of all problems that were sampled in training, and of all demonstrations."""
    settings, task = facts.settings, facts.task
    evaluator = find_evaluator(task, settings.executor.runner, settings.evaluator)
    strategy = find_strategy(settings.rollouts.strategy)
    found = set(digests_of(demonstrations_of(settings, strategy, task, evaluator)))
    source, drawn = ProblemSource(task), set[str]()
    with open_run(facts.name, verify=False) as run:
        for record in run.read("rollouts"):
            if record["problem"] not in drawn:
                drawn.add(record["problem"])
                found.add(record.get("digest") or stored_problem(source, record).digest)
    return found


def _certified(context: Context) -> Row:
    facts, path = context.facts, context.options.decontaminate
    source = ProblemSource(facts.task)
    tested = {record.get("digest") or stored_problem(source, record).digest: record for record in facts.after}
    trained = _trained_on(facts)
    both = sorted(record["problem"] for digest, record in tested.items() if digest in trained)
    figures: dict[str, Any] = {"tested": len(tested), "trained": len(trained), "in_training": len(both)}
    if facts.settings.model.adapter:
        figures["adapter"] = True
    if path is not None:
        text = read_digests(path, facts.task, tested)
        read = sorted(record["problem"] for digest, record in tested.items() if digest in text.found)
        both = sorted({*both, *read})
        figures |= {"source": text.source, "text": len(text.found), "in_text": len(read)}
    return Row(figures={**figures, "examples": ", ".join(both[:NAMED])}, n=len(tested))


def contamination_words(figures: Mapping[str, Any]) -> str:
    """Say what the certificate rules out."""
    seen, seen_in_text = int(figures["in_training"]), int(figures.get("in_text", 0))
    found = f"{_count(seen)} of {figures['tested']:,} test problems among {figures['trained']:,} training problems"
    if "source" in figures:
        found += f", and {_count(seen_in_text)} among the {figures['text']:,} problems of {figures['source']}"
    if seen or seen_in_text:
        return f"Does not rule out that test problems were seen before: {found} ({figures['examples']})."
    here, adapter = "", ""
    if "adapter" in figures:
        here, adapter = " in this run", "; what the adapter that it began from was trained on was not checked"
    if "source" in figures:
        return f"Rules out that test problems were seen before, in training{here} or in that text: {found}{adapter}."
    return (
        f"Rules out that test problems were trained on{here}: {found}{adapter}; whether the "
        "model's pretraining text has them was not checked, as no file of its digests was given."
    )


def _count(n: int) -> str:
    return f"{n:,}" if n else "none"


def _asked(options: ControlOptions) -> Mapping[str, Any]:
    """The file counts by its contents; without one, an earlier certificate with one stays valid."""
    path = options.decontaminate
    return {} if path is None else {"digests": sha256(read_input(path, MOST_BYTES)).hexdigest()}


def contamination_control() -> Control:
    """The certificate."""
    return Control(
        "certificate of decontamination: no test problem within training problems, or a text's, by canonical digest",
        "test problems were seen before",
        _certified,
        lambda _facts, _options: ControlWork(),
        asked=_asked,
        is_compared=False,
    )
