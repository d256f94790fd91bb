"""Prompt-blind baselines, and reference programs that solve part of an exercise."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence

from gce.domain.plain_values import from_text
from gce.domain.problems import Problem
from gce.domain.tasks.parts import Policy
from gce.domain.tasks.programs.answer import fenced
from gce.domain.tasks.programs.exercise import Exercise
from gce.domain.tasks.programs.generate import program_of

__all__ = ["heuristic_policies", "prompt_blind_baselines", "solved"]

CONSTANTS = {"constant 0": "0", "constant []": "[]", 'constant ""': '""', "constant None": "None"}


def prompt_blind_baselines(training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return constants, the identity, the prompt's examples, and the values seen most often in training."""
    policies = {name: _returning(_constant(value)) for name, value in CONSTANTS.items()}
    policies["the argument itself"] = _returning(lambda exercise: "x" if exercise.kinds else None)
    policies["echo of the examples"] = _returning(_echo)
    policies["the first example's value"] = _returning(lambda e: e.examples[0][1] if e.examples else None)
    common: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for problem in training:
        exercise: Exercise = problem.instance
        common[exercise.kinds[-1:]].update(exercise.expected)
    most = {kind: repr(from_text(values.most_common(1)[0][0])) for kind, values in common.items() if values}
    policies["most common value"] = _returning(lambda exercise: most.get(exercise.kinds[-1:]))
    return policies


def heuristic_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    """Return the solution, and functions that omit some of the steps."""

    def part(begin: int | None, end: int | None) -> Policy:
        return lambda problem, _rng: _part(problem.instance, begin, end)

    return {
        "the solution": lambda problem, _rng: solved(problem.instance),
        "the first step alone": part(None, 1),
        "all but the last step": part(None, -1),
        "all but the first step": part(1, None),
    }


def solved(exercise: Exercise) -> str | None:
    """Return a response with the solution, if one is known."""
    return fenced(exercise.solution) if exercise.solution else None


def _part(exercise: Exercise, begin: int | None, end: int | None) -> str | None:
    codes = exercise.steps[begin:end]
    if len(exercise.steps) < 2:
        return None
    return fenced(program_of(exercise.entry_point, exercise.parameter, codes))


def _returning(value: Callable[[Exercise], str | None]) -> Policy:
    def respond(problem: Problem, _rng: random.Random) -> str | None:
        found = value(problem.instance)
        # Functions from a file take any number of arguments.
        head = "x=None, *others" if not problem.instance.kinds else "x"
        return None if found is None else fenced(f"def {problem.instance.entry_point}({head}):\n    return {found}")

    return respond


def _constant(value: str) -> Callable[[Exercise], str | None]:
    return lambda _exercise: value


def _echo(exercise: Exercise) -> str | None:
    if not exercise.examples:
        return None
    *some, (_, last) = exercise.examples
    return " else ".join([*(f"{value} if x == {argument}" for argument, value in some), last])
