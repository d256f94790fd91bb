"""Generate functions by composing steps, each of which matters, and calls that distinguish them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

from gce.domain.plain_values import to_text
from gce.domain.randomness import python_generator
from gce.domain.tasks.drawing import draw_until_it_fits
from gce.domain.tasks.programs.exercise import Exercise, Kind
from gce.domain.tasks.programs.primitives import FAMILIES, Primitive, draw_edge, draw_value

__all__ = ["draw_exercise", "function_of", "probes", "program_of"]

CALLS = 12
"""Number of distinct hidden calls per function; the first random one is repeated at the end and must return the same.
"""
MORE_CALLS = 12
"""Maximum number of further hidden calls: see `_telling`."""
EXAMPLES = 2
POOL = 300
"""Number of values among which further calls are searched."""
PROBES = 24
LEAST_DIFFERENT = 8
"""Minimum number of different values that a function returns on the probes."""
MATTERS = 3
"""Minimum number of probes on which a function differs from itself without one step, and from the identity."""
_TRIED = 2_000
_PARAMETERS: dict[Kind, str] = {"list": "xs", "int": "n", "str": "s"}
_EDGES: dict[Kind, tuple[Any, ...]] = {"list": ([], [0], [7, 7, 7]), "int": (0, 1, -1), "str": ("", "a", "A a")}
_NAMES = {"list": "a list of whole numbers", "int": "a whole number", "str": "a text"}


@cache
def probes(kind: Kind) -> tuple[Any, ...]:
    """Return the values on which functions are compared: edge cases and fixed pseudo-random values."""
    rng = python_generator("programs", "probes", kind)
    return (*_EDGES[kind], *(draw_value(kind, rng) for _ in range(PROBES - len(_EDGES[kind]))))


def function_of(steps: Sequence[Primitive], value: Any) -> Any:
    """Apply the steps to a value."""
    for step in steps:
        value = step.apply(value)
    return value


def program_of(entry_point: str, parameter: str, codes: Sequence[str]) -> str:
    """Return steps as the source of a Python function."""
    lines = [f"def {entry_point}({parameter}):", f"    v = {parameter}", *(f"    v = {code}" for code in codes)]
    return "\n".join([*lines, "    return v"])


def _behaviour(takes: Kind, found: Sequence[str]) -> str:
    """Return 32 hexadecimal digits, equal for equal argument types and equal results on all probes."""
    return blake2b("\n".join((takes, *found)).encode(), digest_size=16).hexdigest()


def draw_exercise(depth: int, rng: random.Random) -> Exercise:
    """Draw a function of `depth` steps."""

    def worth_asking() -> tuple[Kind, tuple[Primitive, ...]] | None:
        takes: Kind = rng.choice(("list", "list", "int", "str", "str"))
        steps = _draw_steps(takes, depth, rng)
        return (takes, steps) if _is_worth_asking(takes, steps) else None

    takes, steps = draw_until_it_fits(worth_asking, f"function of {depth} steps that is worth asking for", tries=_TRIED)
    return _exercise(takes, steps, rng)


def _draw_steps(takes: Kind, depth: int, rng: random.Random) -> tuple[Primitive, ...]:
    steps: list[Primitive] = []
    kind = takes
    for _ in range(depth):
        steps.append(rng.choice(FAMILIES[kind])(rng))
        kind = steps[-1].gives
    return tuple(steps)


def _is_worth_asking(takes: Kind, steps: Sequence[Primitive]) -> bool:
    """True if no step can be omitted, the function is not the identity, and it returns many different values."""
    values = probes(takes)
    found = [function_of(steps, value) for value in values]
    if len(set(map(to_text, found))) < LEAST_DIFFERENT or _agreements(found, values) > PROBES - MATTERS:
        return False
    kinds: list[Kind] = [takes, *(step.gives for step in steps)]
    for place in range(len(steps) if len(steps) > 1 else 0):
        if kinds[place] == kinds[place + 1]:
            less = [*steps[:place], *steps[place + 1 :]]
            if _agreements(found, [function_of(less, value) for value in values]) > PROBES - MATTERS:
                return False
    return True


def _agreements(some: Sequence[Any], others: Sequence[Any]) -> int:
    return sum(type(a) is type(b) and a == b for a, b in zip(some, others, strict=True))


def _exercise(takes: Kind, steps: Sequence[Primitive], rng: random.Random) -> Exercise:
    parameter = _PARAMETERS[takes]
    shown: list[Any] = []
    hidden: list[Any] = list(_EDGES[takes])
    seen = {to_text(value) for value in hidden}

    def another() -> tuple[Any] | None:
        value = draw_value(takes, rng)
        return None if to_text(value) in seen else (value,)

    while len(hidden) < CALLS or len(shown) < EXAMPLES:
        (value,) = draw_until_it_fits(another, f"further value of the kind {takes}")
        seen.add(to_text(value))
        (shown if len(shown) < EXAMPLES else hidden).append(value)
    hidden += _telling(takes, steps, hidden, shown, rng)
    hidden.append(hidden[len(_EDGES[takes])])
    codes = tuple(step.code for step in steps)
    return Exercise(
        statement=_statement(takes, parameter, steps),
        entry_point="f",
        solution=program_of("f", parameter, codes),
        parameter=parameter,
        steps=codes,
        kinds=(takes, *(step.gives for step in steps)),
        behaviour=_behaviour(takes, [to_text(function_of(steps, value)) for value in probes(takes)]),
        examples=tuple((repr(value), repr(function_of(steps, value))) for value in shown),
        calls=tuple(to_text([value]) for value in hidden),
        expected=tuple(to_text(function_of(steps, value)) for value in hidden),
    )


def _telling(
    takes: Kind, steps: Sequence[Primitive], hidden: Sequence[Any], shown: Sequence[Any], rng: random.Random
) -> list[Any]:
    """Return further arguments, each of which exposes a near miss that the `hidden` calls do not.

    A near miss is the function with one of its numbers one more or one less. Arguments are searched at random; a near
    miss that none of `POOL` values exposes is skipped.
    """
    known = [_course(steps, value) for value in hidden]
    pool: list[list[Any]] = []
    for place, step in enumerate(steps):
        for near in step.near:
            if any(_differs(steps, place, near, course) for course in known):
                continue
            for number in range(POOL):
                if number == len(pool):
                    pool.append(_course(steps, draw_edge(takes, rng)))
                if pool[number][0] not in shown and _differs(steps, place, near, pool[number]):
                    known.append(pool[number])
                    break
    return [course[0] for course in known[len(hidden) :]][:MORE_CALLS]


def _course(steps: Sequence[Primitive], value: Any) -> list[Any]:
    """Return the value, and the result after each step."""
    course = [value]
    for step in steps:
        course.append(step.apply(course[-1]))
    return course


def _differs(steps: Sequence[Primitive], place: int, near: Callable[[Any], Any], course: Sequence[Any]) -> bool:
    """True if the function returns something else when `near` replaces the step at `place`."""
    value = near(course[place])
    return bool(value != course[place + 1] and function_of(steps[place + 1 :], value) != course[-1])


def _statement(takes: Kind, parameter: str, steps: Sequence[Primitive]) -> str:
    lines = [f"Write a Python function f({parameter}). {parameter} is {_NAMES[takes]}."]
    if len(steps) == 1:
        lines.append(f"{steps[0].words}, and return the result.")
    else:
        lines += [f"{number}. {step.words}." for number, step in enumerate(steps, 1)]
        lines.append("Return the result of the last step.")
    return "\n".join(lines)
