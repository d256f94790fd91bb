"""Where an analysis finds answers: runs, files of answers, and folders of both, as sets that belong to a setup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, fields, frozen

from gce.app.analysis.stages import When
from gce.app.evaluation.answer_file import open_answers, stored_answer, stored_conversations
from gce.app.evaluation.rescoring import own_evaluator
from gce.app.evaluation.scoring import judge_each
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.reports.contents import labels_of
from gce.app.settings.records import TrainSettings
from gce.app.settings.values import flat_values
from gce.app.wiring.names import is_trained, plain_name
from gce.app.wiring.runs import open_run, runs_of
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.conversations import Conversation
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain, to_plain
from gce.domain.strategies.single_turn import ZERO_SHOT
from gce.domain.tasks import ProblemSource
from gce.errors import BadInput
from gce.ports.runs import AnswerReader

__all__ = ["AnswerSet", "Setup", "differing_settings", "labels", "read_sets"]

MOMENTS = ("before", "after")
MOST_OF_A_LABEL = 28
"""Characters, so that tables of several setups fit on a screen."""


@frozen(order=True)
class Setup:
    """What answers follow from, seeds aside."""

    task: str
    """With its preset."""
    model: str
    strategy: str
    trained: str = ""
    """Algorithm of the run that trained the model, or the digest of an adapter; empty for the model as it is."""
    asked: str = ""
    """What else differs from the defaults of an evaluation, as JSON: split, temperature, other models and the like."""
    settings: tuple[tuple[str, str], ...] = ()
    """Of a run: all further settings, by dotted name, as JSON; before training, those that its answers follow from."""


@frozen(eq=False)
class AnswerSet:
    """The answers of one run to test problems at one moment, or of one evaluation under one strategy."""

    run: str
    setup: Setup
    conversations: tuple[Conversation, ...]
    """Of several turns where a file of answers holds them."""
    moment: str = ""
    """`before` or `after` training; empty for a file of answers."""


def read_sets(names: Sequence[str], *, judging: When = "never", verify: bool = True) -> list[AnswerSet]:
    """Read the answers of runs, of files of `gce evaluate --answers`, and of all such that lie in a folder.

    Args:
        names: runs, files and folders.
        judging: which answers get a new verdict: none, those whose judging failed, or all. Nothing stored changes.
        verify: whether to verify runs.

    Raises:
        BadInput: a name that is neither, or no answers at all; answers cannot be judged again.
        DamagedStore: a run is not as written.
    """
    by_place: dict[str | Path, str] = {}
    for each in (each for name in names for each in _within(name)):
        by_place.setdefault(Path(each).resolve() if Path(each).exists() else each, each)
    found = list(by_place.values())
    places = labels_of([Path(each) for each in found]) if found else []
    sets: list[AnswerSet] = []
    for name, label in zip(found, places, strict=True):
        of_file = Path(name).is_file()
        with open_answers(name) if of_file else open_run(name, verify=verify) as reader:
            read = list(_of_file(name, label, reader) if of_file else _of_run(label, reader))
            sets += read if judging == "never" else _judged(reader, read, judging)
    if not sets:
        raise BadInput(f"found no answers to test problems in {', '.join(names)}")
    return sets


def labels(setups: Iterable[Setup]) -> dict[Setup, str]:
    """Return a label for each setup: what tells it from the others if that is short, else S1, S2, ..."""
    setups = list(dict.fromkeys(setups))
    names = [each.name for each in fields(Setup) if each != fields(Setup).settings]
    names = [name for name in names if len({getattr(setup, name) for setup in setups}) > 1]
    settings = differing_settings(setups)
    said = []
    for setup in setups:
        values = dict(setup.settings)
        words = [f"{name.rpartition('.')[2]} {values[name]}" for name in settings if name in values]
        said.append(", ".join([_last(getattr(setup, name)) for name in names] + words) or _last(setup.strategy))
    if max(map(len, said), default=0) > MOST_OF_A_LABEL or len(set(said)) < len(said):
        said = [f"S{number}" for number in range(1, len(setups) + 1)]
    return dict(zip(setups, said, strict=True))


def differing_settings(setups: Iterable[Setup]) -> list[str]:
    """Return the names of settings that have different values in setups that have them."""
    values: dict[str, set[str]] = {}
    for setup in setups:
        for name, value in setup.settings:
            values.setdefault(name, set()).add(value)
    return [name for name, found in values.items() if len(found) > 1]


def _last(value: str) -> str:
    """The last part of a name that may be a path, as of a model."""
    return re.split("[/:]", value)[-1] or "not trained"


def _within(name: str) -> Iterator[str]:
    """The runs and files of answers that a name stands for."""
    if Path(name).is_file() or name in (runs := runs_of(name).find(name)):
        yield name
        return
    yield from runs
    files = sorted(Path(name).rglob("*.jsonl")) if Path(name).is_dir() else []
    inside = [Path(run) for run in runs]
    answers = [file for file in files if not any(run in file.parents for run in inside) and _is_of_evaluation(file)]
    if not runs and not answers:
        raise BadInput(f"expected a run, a file of answers that gce evaluate keeps, or a folder of them, got {name}")
    yield from map(str, answers)


def _is_of_evaluation(path: Path) -> bool:
    if not path.is_file():  # A pipe would be waited for.
        return False
    try:
        with path.open("rb") as file:
            return file.read(15) == b'{"evaluation": '
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error


def _of_file(name: str, label: str, reader: AnswerReader) -> Iterator[AnswerSet]:
    asked: dict[str, Any] = reader.config.get("asked", {})
    task, preset, model, adapter = (str(asked.get(each, "")) for each in ("task", "preset", "model", "adapter"))
    for strategy, held in stored_conversations(Path(name)).items():
        trained = f"adapter {adapter[:8]}" if adapter and is_trained(strategy) else ""
        yield AnswerSet(label, Setup(_of_preset(task, preset), model, strategy, trained, _further(asked)), tuple(held))


_USUAL = {"split": "test", "temperature": 0.0, "max_tokens": None, "shots": 3, "examples": "heuristic"}


def _further(asked: Mapping[str, Any]) -> str:
    said = {name: asked[name] for name, usual in _USUAL.items() if name in asked and asked[name] != usual}
    said |= {name: asked[name] for name in ("roles", "evaluator", "shown") if name in asked}
    return json.dumps(said, sort_keys=True) if said else ""


def _of_run(label: str, reader: AnswerReader) -> Iterator[AnswerSet]:
    settings = stored_settings(reader)
    task = _of_preset(plain_name(settings.task), settings.preset)
    for moment in MOMENTS:
        held = tuple(Conversation((stored_answer(each),)) for each in reader.each_answer(f"test-{moment}"))
        trained = settings.objective.algorithm if moment == "after" else ""
        further = _settings(settings, trained=bool(trained))
        if held:
            setup = Setup(task, plain_name(settings.model.name), ZERO_SHOT.name, trained, settings=further)
            yield AnswerSet(label, setup, held, moment)


_SAID = frozenset({"task", "preset", "seed", "model.name", "objective.algorithm"})
"""Settings that a setup has fields for, or none."""
_OF_THE_BASE = ("evaluator", "model.", "rollouts.max_tokens")
"""Beginnings of the names of settings that answers before training follow from."""


def _settings(settings: TrainSettings, *, trained: bool) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, json.dumps(to_plain(value)))
        for name, value in flat_values(settings).items()
        if name not in _SAID and (trained or name.startswith(_OF_THE_BASE))
    )


def _of_preset(task: str, preset: str) -> str:
    return f"{task}/{preset}" if preset else task


def _judged(reader: AnswerReader, sets: Sequence[AnswerSet], judging: When) -> list[AnswerSet]:
    """The same answers, with verdicts of the present verifier."""
    _, task, evaluator = own_evaluator(reader)
    source = ProblemSource(task)
    attempts = [attempt for each in sets for held in each.conversations for attempt in held.attempts]
    chosen = [each for each in attempts if each.completion.finish_reason != "error"]
    chosen = chosen if judging == "all" else [each for each in chosen if each.failed]
    again = judge_each(task, evaluator, (_asked(source, each) for each in chosen))
    new = {id(old): _renewed(old, judged) for old, judged in zip(chosen, again, strict=True)}

    def renewed(held: Conversation) -> Conversation:
        return evolve(held, attempts=tuple(new.get(id(each), each) for each in held.attempts))

    return [evolve(each, conversations=tuple(map(renewed, each.conversations))) for each in sets]


def _renewed(answer: Answer, judged: Answer) -> Answer:
    return evolve(answer, verdicts=judged.verdicts, reward=judged.reward, right=judged.right, score=judged.score)


def _asked(source: ProblemSource, answer: Answer) -> tuple[Problem, Completion]:
    """The problem as it was, drawn again, with its answer."""
    stored = answer.problem
    try:
        drawn = source.redraw(stored.key)
        if stored.instance is not None:
            return evolve(stored, instance=from_plain(type(drawn.instance), stored.instance)), answer.completion
    except ValueError as error:
        raise BadInput(f"answers were given to another version of task {source.task.name}: {error}") from error
    if stored.digest and stored.digest != drawn.digest:
        raise BadInput(f"task {source.task.name} draws another problem {stored.key} than the one that was answered")
    return drawn, answer.completion
