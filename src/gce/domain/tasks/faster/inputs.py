"""Hidden inputs of a slow function, drawn from its seed: many short lists, and long ones for measuring time."""

from __future__ import annotations

import random

from gce.domain.plain_values import to_text
from gce.domain.randomness import python_generator
from gce.domain.tasks.faster.slow_function import SlowFunction

__all__ = ["CALLS", "DRAWN", "EDGES", "ROUNDS", "draw_list", "drawn_lists", "hidden_calls", "timed_calls"]

DRAWN = 200
"""Number of drawn lists that a program must return the slow form's values for."""
ROUNDS = 5
"""Number of timed calls, each with a list of its own."""
LARGEST = 99_999
EDGES: tuple[list[int], ...] = (
    [],
    [0],
    [-1],
    [1, 2],
    [2, 1],
    [7, 7, 7],
    [0] * 20,
    [1, 2] * 8,
    list(range(30)),
    list(range(30, 0, -1)),
    list(range(-15, 15)),
    [-LARGEST, LARGEST],
)
"""Edge cases, the same for every function."""
CALLS = len(EDGES) + DRAWN + 1
"""Number of calls: edge cases, drawn lists, and the first drawn list again."""


def draw_list(rng: random.Random) -> list[int]:
    """Draw a list of at most 60 numbers; many have repeated numbers, and some are sorted."""
    size = rng.choice((rng.randint(0, 6), rng.randint(2, 20), rng.randint(10, 60)))
    width = rng.choice((2, 9, 40, 1_000, LARGEST))
    values = [rng.randint(-width, width) for _ in range(size)]
    if size and rng.random() < 0.2:
        values += rng.choices(values, k=rng.randint(1, size))
    order = rng.random()
    return sorted(values, reverse=order < 0.05) if order < 0.1 else values


def drawn_lists(function: SlowFunction, count: int = DRAWN) -> list[list[int]]:
    """Return the first of the lists that are drawn for a function."""
    rng = python_generator("faster", "calls", function.seed)
    return [draw_list(rng) for _ in range(count)]


def hidden_calls(function: SlowFunction) -> tuple[str, ...]:
    """Return the arguments of each of `CALLS` calls, as text."""
    drawn = drawn_lists(function)
    return tuple(to_text([values]) for values in (*EDGES, *drawn, drawn[0]))


def timed_calls(function: SlowFunction) -> tuple[str, ...]:
    """Return the arguments of each of `ROUNDS` timed calls, as text: lists of `function.size` numbers."""
    rng = python_generator("faster", "timed", function.seed)
    return tuple(to_text([[rng.randint(-LARGEST, LARGEST) for _ in range(function.size)]]) for _ in range(ROUNDS))
