"""Fresh arguments for functions whose tests are given: those of the tests, with one value in them changed.

What a test calls the function with says what its arguments look like: `f([1, 2], "a")` gives `f([1], "a")`,
`f([1, 3], "a")` or `f([1, 2], "A")`. Types stay, so that what is told apart by such arguments could have been told
apart by the tests; whether the description of the function allows them, the caller has to judge.
"""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["arguments_in", "varied"]

MOST_CHANGES = 3
"""Values changed in one list of arguments."""


def arguments_in(tests: str, entry_point: str) -> list[list[Any]]:
    """The arguments of each call in the tests that are written out as values."""
    found = []
    for node in ast.walk(ast.parse(tests)):
        match node:
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]):
                if name in (entry_point, "candidate"):
                    with contextlib.suppress(ValueError):  # What is computed there is left out.
                        found.append([ast.literal_eval(each) for each in arguments])
    return found


def varied(known: Sequence[list[Any]], count: int, rng: random.Random) -> Iterator[list[Any]]:
    """Lists of arguments drawn from those that are known, in each of which one to three values are others."""
    for _ in range(count if known else 0):
        arguments = list(rng.choice(known))
        for _ in range(rng.randint(1, MOST_CHANGES)):
            place = rng.randrange(len(arguments))
            arguments[place] = _changed(arguments[place], rng)
        yield arguments


def _changed(value: Any, rng: random.Random) -> Any:
    """A value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice([value + 1, value - 1, value * 2, -value, 0, rng.randint(-20, 100)])
        case float():
            return rng.choice([value + 1, value - 0.5, value * 2, -value, 0.0, float(rng.randint(-20, 100))])
        case str():
            return _text(value, rng)
        case list() | tuple():
            return type(value)(_items(list(value), rng))
        case dict():
            items = _items(list(value.items()), rng, inside=False)
            return dict(items)
        case _:
            return value


def _text(value: str, rng: random.Random) -> str:
    place = rng.randrange(len(value) + 1)
    other = rng.choice(value) if value else "a"
    return rng.choice(
        [value[:place] + other + value[place:], value[:place] + value[place + 1 :], value.swapcase(), value[::-1], ""]
    )


def _items(items: list[Any], rng: random.Random, *, inside: bool = True) -> list[Any]:
    """Items of which one is changed, repeated or dropped, or in another order."""
    if not items:
        return items
    place, how = rng.randrange(len(items)), rng.randrange(5 if inside else 4)
    if how == 0:
        return items[:place] + items[place + 1 :]
    if how == 1:
        return [*items, items[place]]
    if how == 2:
        return items[::-1]
    if how == 3:
        return rng.sample(items, len(items))
    return [*items[:place], _changed(items[place], rng), *items[place + 1 :]]
