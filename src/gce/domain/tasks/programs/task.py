"""The programs task, as a record that the loop reads."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

from gce.domain.problems import Message, Split
from gce.domain.tasks.parts import Audit, References, Teaching
from gce.domain.tasks.programs.baselines import heuristic_policies, prompt_blind_baselines, solved
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.tasks.programs.generate import draw_exercise
from gce.domain.tasks.programs.metamorphic_relations import RELATIONS
from gce.domain.tasks.programs.records import exercise_of
from gce.domain.tasks.programs.verify import feedback, request, share_of_calls, verify
from gce.domain.tasks.task import Drawn, Task, TaskTier, of_listed

__all__ = ["PROGRAMS"]

DEPTHS = {"P1": 1, "P2": 2, "P3": 3, "P4": 4, "P5": 5}
"""Number of composed steps by tier; the last tier is held out."""

ASKED = "Answer with the whole function in one block that begins with ```python and ends with ```, and nothing else."


def _draw(_preset: str, tier: str, rng: random.Random, _solve: Any) -> Exercise:
    return draw_exercise(DEPTHS[tier], rng)


def _prompt(exercise: Exercise, _rng: random.Random) -> tuple[Message, ...]:
    lines = [exercise.statement]
    if exercise.examples:
        calls = (f"{exercise.entry_point}({argument}) is {value}" for argument, value in exercise.examples)
        lines.append(f"For example, {', and '.join(calls)}.")
    return (Message("user", "\n".join([*lines, ASKED])),)


def _digest(exercise: Exercise) -> str:
    if exercise.behaviour:
        return exercise.behaviour
    words = " ".join(f"{exercise.entry_point} {exercise.statement}".split())
    return blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _exercises(records: Sequence[Any]) -> Iterator[tuple[str, Split, Exercise]]:
    for number, record in enumerate(records, 1):
        try:
            found = exercise_of(record)
        except ValueError as error:
            raise ValueError(f"record {number}: {error}") from error
        yield found.tier, found.split, found.exercise


def _of_records(task: Task, preset: str, records: Sequence[Any]) -> Task:
    """Return the task over functions from a file, with the tiers that they name.

    All tiers are held out if no function is in the training split.
    """
    return of_listed(task, preset, _exercises(records))


PROGRAMS = Task(
    name="programs",
    presets={"pipelines": tuple(TaskTier(tier, held_out=tier == "P5") for tier in DEPTHS)},
    draw=Drawn(_draw, distinct=True, of_records=_of_records),
    prompt=_prompt,
    digest=_digest,
    verify=verify,
    instance_type=Exercise,
    request=request,
    max_tokens=320,
    teaching=Teaching(
        demonstration=lambda problem, _solve: solved(problem.instance),
        feedback=feedback,
        calls=(
            "Do not answer yet. List what the function has to do, and what it returns for an empty argument.",
            "Now draft the function and go through one example with it.",
            "Now give the whole function alone, in one block that begins with ```python and ends with ```.",
        ),
    ),
    references=References(prompt_blind=prompt_blind_baselines, heuristics=heuristic_policies, limits={"*": 0.05}),
    audit=Audit(
        hidden=frozenset({"calls", "expected", "tests", "preamble", "seconds"}),
        illustrations=frozenset({"examples"}),
        relations=RELATIONS,
        scores={"tests": share_of_calls},
    ),
)
