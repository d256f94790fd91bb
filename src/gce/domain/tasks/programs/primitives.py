"""The steps of generated functions, by argument type: words, code, and a Python function.

A family draws numbers and letters and returns a step. In the code `v` is the value. The function does the same as the
code, which a test checks on many values. Every step is total: its words say what it does with empty input. A step also
has its near misses, with one of its numbers one more or one less, which guide the choice of hidden calls.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from attrs import frozen

from gce.domain.tasks.programs.exercise import Kind

__all__ = ["FAMILIES", "Family", "Primitive", "draw_edge", "draw_value"]


@frozen
class Primitive:
    """One step."""

    words: str
    """What the step does, as a sentence without its full stop; the value is "it", or its numbers or characters."""
    code: str
    """An expression in `v`."""
    apply: Callable[[Any], Any]
    gives: Kind
    near: tuple[Callable[[Any], Any], ...] = ()
    """Near misses: the function with one of its numbers one less or one more. `x > 4` is `x >= 5`, so comparisons are
    covered too."""


Family = Callable[[random.Random], Primitive]
Draw = Callable[[random.Random], tuple[Any, ...]]
"""Draws numbers or letters."""

_VOWELS = "aeiouAEIOU"


def _plain(gives: Kind, words: str, code: str, apply: Callable[[Any], Any]) -> Family:
    return lambda _rng: Primitive(words, code, apply, gives)


def _step(gives: Kind, words: str, code: str, apply: Callable[..., Any], *drawn: Any) -> Primitive:
    """Make a step whose function takes the drawn values after the value; words and code already contain them."""

    def with_(values: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda v: apply(v, *values)

    near = (
        with_((*drawn[:place], number + more, *drawn[place + 1 :]))
        for place, number in enumerate(drawn)
        if isinstance(number, int)
        for more in (-1, 1)
    )
    return Primitive(words, code, with_(drawn), gives, tuple(near))


def _drawn(gives: Kind, draw: Draw, words: str, code: str, apply: Callable[..., Any]) -> Family:
    """Make a family that inserts the drawn values into the words, the code and the function."""

    def family(rng: random.Random) -> Primitive:
        drawn = draw(rng)
        return _step(gives, words.format(*drawn), code.format(*drawn), apply, *drawn)

    return family


def _from(low: int, high: int) -> Draw:
    return lambda rng: (rng.randint(low, high),)


def _always(*numbers: int) -> Draw:
    return lambda _rng: numbers


def _one_of(signs: str) -> Draw:
    return lambda rng: (rng.choice(signs),)


def _each(*draws: Draw) -> Draw:
    return lambda rng: tuple(value for draw in draws for value in draw(rng))


def _index(rng: random.Random) -> tuple[int, ...]:
    """Draw an index, again as the length too short for it, and the default value."""
    index = rng.randint(0, 4)
    return index, index, rng.randint(-5, 5)


def _range(rng: random.Random) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(-12, 16), 2)))


_small, _number, _letter = _from(2, 9), _from(-9, 15), _one_of("abcdefghilmnoprstu")


def _replace_number(rng: random.Random) -> Primitive:
    a, b = rng.sample(range(-3, 10), 2)
    return _step(
        "list",
        f"Replace each {a} by {b}",
        f"[{b} if x == {a} else x for x in v]",
        lambda v, a, b: [b if x == a else x for x in v],
        a,
        b,
    )


def _every(rng: random.Random) -> Primitive:
    k, begin = rng.randint(2, 3), rng.randint(0, 2)
    place = ("the first", "the second", "the third")[begin]
    return _step(
        "list",
        f"Keep only every {('second', 'third')[k - 2]} number, beginning with {place}",
        f"v[{begin}::{k}]",
        lambda v, begin, k: v[begin::k],
        begin,
        k,
    )


def _rotate(rng: random.Random) -> Primitive:
    k = rng.randint(1, 2)
    what = "the first number" if k == 1 else "the first two numbers"
    return _step(
        "list", f"Move {what} to the end", f"v[{k}:] + v[:{k}]", lambda v, rest, moved: v[rest:] + v[:moved], k, k
    )


def _join_numbers(rng: random.Random) -> Primitive:
    sign = rng.choice(",-;:/+ ")
    shown = "a space" if sign == " " else f'"{sign}"'
    return Primitive(
        f"Write the numbers as text with {shown} between them",
        f'"{sign}".join(str(x) for x in v)',
        lambda v: sign.join(str(x) for x in v),
        "str",
    )


def _replace_letter(rng: random.Random) -> Primitive:
    (a,) = _letter(rng)
    b = rng.choice(string.ascii_lowercase.replace(a, "") + "*#_")
    return Primitive(f'Replace each "{a}" by "{b}"', f'v.replace("{a}", "{b}")', lambda v: v.replace(a, b), "str")


def _every_character(rng: random.Random) -> Primitive:
    k = rng.randint(2, 3)
    return _step(
        "str",
        f"Keep only every {('second', 'third')[k - 2]} character, beginning with the first",
        f"v[::{k}]",
        lambda v, k: v[::k],
        k,
    )


def _around(rng: random.Random) -> Primitive:
    sign = rng.choice("*_#!?~+=")
    if rng.random() < 0.5:
        return Primitive(f'Put "{sign}" at the end', f'v + "{sign}"', lambda v: v + sign, "str")
    return Primitive(f'Put "{sign}" at the front', f'"{sign}" + v', lambda v: sign + v, "str")


def _repeat(rng: random.Random) -> Primitive:
    k = rng.randint(2, 3)
    return _step("str", f"Write it {('twice', 'three times')[k - 2]} in a row", f"v * {k}", lambda v, k: v * k, k)


# fmt: off
FAMILIES: Mapping[Kind, Sequence[Family]] = {
    "list": (
        _plain("list", "Reverse the order", "v[::-1]", lambda v: v[::-1]),
        _plain("list", "Sort from small to large", "sorted(v)", sorted),
        _plain("list", "Sort from large to small", "sorted(v, reverse=True)", lambda v: sorted(v, reverse=True)),
        _plain("list", "Remove every number that was there before", "list(dict.fromkeys(v))",
               lambda v: list(dict.fromkeys(v))),
        _plain("list", "Square each number", "[x * x for x in v]", lambda v: [x * x for x in v]),
        _plain("list", "Replace each number by its absolute value", "[abs(x) for x in v]", lambda v: list(map(abs, v))),
        _plain("list", "Replace each number by the sum of all up to it, itself included",
               "[sum(v[:i + 1]) for i in range(len(v))]", lambda v: list(accumulate(v))),
        _plain("list", "Replace each number by the largest of all up to it, itself included",
               "[max(v[:i + 1]) for i in range(len(v))]", lambda v: list(accumulate(v, max))),
        _plain("list", "List the differences: each number but the first, minus the one before it",
               "[b - a for a, b in zip(v, v[1:])]", lambda v: [b - a for a, b in pairwise(v)]),
        _plain("list", "Put the same numbers behind it in reverse order", "v + v[::-1]", lambda v: v + v[::-1]),
        _plain("list", "Write each number twice in a row", "[x for x in v for _ in range(2)]",
               lambda v: [x for x in v for _ in range(2)]),
        _plain("list", "Add to each number its index, counted from 0", "[x + i for i, x in enumerate(v)]",
               lambda v: [x + i for i, x in enumerate(v)]),
        _plain("list", "Multiply each number by its index, counted from 0", "[x * i for i, x in enumerate(v)]",
               lambda v: [x * i for i, x in enumerate(v)]),
        _drawn("list", _number, "Keep only the numbers greater than {0}", "[x for x in v if x > {0}]",
               lambda v, k: [x for x in v if x > k]),
        _drawn("list", _number, "Keep only the numbers less than {0}", "[x for x in v if x < {0}]",
               lambda v, k: [x for x in v if x < k]),
        _drawn("list", _range, "Keep only the numbers from {0} to {1}, both included",
               "[x for x in v if {0} <= x <= {1}]", lambda v, a, b: [x for x in v if a <= x <= b]),
        _drawn("list", _each(_small, _always(0)), "Keep only the numbers divisible by {0}",
               "[x for x in v if x % {0} == {1}]", lambda v, m, rest: [x for x in v if x % m == rest]),
        _drawn("list", _each(_small, _always(0)), "Remove the numbers divisible by {0}",
               "[x for x in v if x % {0} != {1}]", lambda v, m, rest: [x for x in v if x % m != rest]),
        _drawn("list", _from(1, 12), "Add {0} to each number", "[x + {0} for x in v]", lambda v, k: [x + k for x in v]),
        _drawn("list", _from(0, 12), "Replace each number x by {0} - x", "[{0} - x for x in v]",
               lambda v, k: [k - x for x in v]),
        _drawn("list", _small, "Multiply each number by {0}", "[x * {0} for x in v]", lambda v, k: [x * k for x in v]),
        _drawn("list", _each(_small, _small), "Multiply each number by {0}, then add {1} to each",
               "[x * {0} + {1} for x in v]", lambda v, a, b: [x * a + b for x in v]),
        _drawn("list", _range, "Replace each number below {0} by {0}, and each above {1} by {1}",
               "[min(max(x, {0}), {1}) for x in v]", lambda v, a, b: [min(max(x, a), b) for x in v]),
        _drawn("list", _small, "Replace each number x by x % {0}", "[x % {0} for x in v]",
               lambda v, m: [x % m for x in v]),
        _drawn("list", _small, "Replace each number x by x // {0}", "[x // {0} for x in v]",
               lambda v, m: [x // m for x in v]),
        _replace_number,
        _drawn("list", _from(1, 6), "Keep only the first {0} (all, where there are fewer)", "v[:{0}]",
               lambda v, k: v[:k]),
        _drawn("list", _from(1, 6), "Keep only the last {0} (all, where there are fewer)", "v[-{0}:]",
               lambda v, k: v[-k:]),
        _drawn("list", _from(1, 4), "Remove the first {0} (all, where there are fewer)", "v[{0}:]", lambda v, k: v[k:]),
        _drawn("list", _from(1, 4), "Remove the last {0} (all, where there are fewer)", "v[:-{0}]",
               lambda v, k: v[:-k]),
        _every,
        _drawn("list", _number, "Put a {0} at the end", "v + [{0}]", lambda v, k: [*v, k]),
        _drawn("list", _number, "Put a {0} at the front", "[{0}] + v", lambda v, k: [k, *v]),
        _rotate,
        _plain("int", "Add up the numbers", "sum(v)", sum),
        _plain("int", "Count the numbers", "len(v)", len),
        _drawn("int", _always(0), "Take the largest number, or {0} where there is none", "max(v, default={0})",
               lambda v, other: max(v, default=other)),
        _drawn("int", _always(0), "Take the smallest number, or {0} where there is none", "min(v, default={0})",
               lambda v, other: min(v, default=other)),
        _plain("int", "Count the different numbers", "len(set(v))", lambda v: len(set(v))),
        _drawn("int", _always(0), "Subtract the smallest number from the largest; {0} where there is none",
               "max(v) - min(v) if v else {0}", lambda v, other: max(v) - min(v) if v else other),
        _drawn("int", _number, "Count the numbers greater than {0}", "sum(x > {0} for x in v)",
               lambda v, k: sum(x > k for x in v)),
        _drawn("int", _each(_small, _always(0)), "Count the numbers divisible by {0}", "sum(x % {0} == {1} for x in v)",
               lambda v, m, rest: sum(x % m == rest for x in v)),
        _drawn("int", _number, "Add up the numbers greater than {0}", "sum(x for x in v if x > {0})",
               lambda v, k: sum(x for x in v if x > k)),
        # Behind the end stands what is nowhere else: a length that is one too short makes a difference.
        _drawn("int", _index, "Take the number at index {0}, or {2} where there is none",
               "v[{0}] if len(v) > {1} else {2}",
               lambda v, k, short, other: [*v, 1000][k] if len(v) > short else other),
        _join_numbers,
    ),
    "int": (
        _drawn("int", _from(1, 30), "Add {0} to it", "v + {0}", lambda v, k: v + k),
        _drawn("int", _from(0, 60), "Subtract it from {0}", "{0} - v", lambda v, k: k - v),
        _drawn("int", _from(2, 12), "Multiply it by {0}", "v * {0}", lambda v, k: v * k),
        _drawn("int", _each(_from(2, 12), _from(1, 20)), "Multiply it by {0} and add {1}", "v * {0} + {1}",
               lambda v, a, b: v * a + b),
        _drawn("int", _from(3, 40), "Take it modulo {0}", "v % {0}", lambda v, m: v % m),
        _drawn("int", _small, "Divide it by {0}, rounded down", "v // {0}", lambda v, m: v // m),
        _drawn("int", _from(0, 60), "Replace it by {0} where it is less", "max(v, {0})", lambda v, k: max(v, k)),
        _drawn("int", _from(0, 60), "Replace it by {0} where it is greater", "min(v, {0})", lambda v, k: min(v, k)),
        _plain("int", "Square it", "v * v", lambda v: v * v),
        _plain("int", "Take its absolute value", "abs(v)", abs),
        _plain("int", "Add up the digits of its absolute value", "sum(int(c) for c in str(abs(v)))",
               lambda v: sum(int(c) for c in str(abs(v)))),
        _plain("list", "List the digits of its absolute value", "[int(c) for c in str(abs(v))]",
               lambda v: [int(c) for c in str(abs(v))]),
        _drawn("list", _small, "Make a list of {0} numbers that begins with it and goes up by 1",
               "[v + i for i in range({0})]", lambda v, k: [v + i for i in range(k)]),
        _drawn("list", _small, "Make a list of it times 1, times 2, and so on up to times {0}",
               "[v * i for i in range(1, {0} + 1)]", lambda v, k: [v * i for i in range(1, k + 1)]),
        _plain("str", "Write it as text", "str(v)", str),
        _plain("str", "Write its absolute value in binary, as text without a prefix", 'format(abs(v), "b")',
               lambda v: format(abs(v), "b")),
    ),
    "str": (
        _plain("str", "Write it backwards", "v[::-1]", lambda v: v[::-1]),
        _plain("str", "Write it in capital letters", "v.upper()", str.upper),
        _plain("str", "Write it in small letters", "v.lower()", str.lower),
        _plain("str", "Swap capital and small letters", "v.swapcase()", str.swapcase),
        _plain("str", "Remove the vowels (a, e, i, o, u, small and capital)",
               f'"".join(c for c in v if c not in "{_VOWELS}")', lambda v: "".join(c for c in v if c not in _VOWELS)),
        _plain("str", "Keep only the vowels (a, e, i, o, u, small and capital)",
               f'"".join(c for c in v if c in "{_VOWELS}")', lambda v: "".join(c for c in v if c in _VOWELS)),
        _plain("str", "Keep only the letters", '"".join(c for c in v if c.isalpha())',
               lambda v: "".join(c for c in v if c.isalpha())),
        _plain("str", "Remove the digits", '"".join(c for c in v if not c.isdigit())',
               lambda v: "".join(c for c in v if not c.isdigit())),
        _plain("str", "Remove the spaces", 'v.replace(" ", "")', lambda v: v.replace(" ", "")),
        _plain("str", "Write each character twice", '"".join(c * 2 for c in v)', lambda v: "".join(c * 2 for c in v)),
        _plain("str", "Sort its characters, as Python orders them", '"".join(sorted(v))', lambda v: "".join(sorted(v))),
        _plain("str", "Remove every character that was there before", '"".join(dict.fromkeys(v))',
               lambda v: "".join(dict.fromkeys(v))),
        _plain("str", "Write its words in reverse order, with one space between them", '" ".join(v.split()[::-1])',
               lambda v: " ".join(v.split()[::-1])),
        _plain("str", "Write each of its words backwards, with one space between them",
               '" ".join(w[::-1] for w in v.split())', lambda v: " ".join(w[::-1] for w in v.split())),
        _plain("str", "Join the first letters of its words", '"".join(w[0] for w in v.split())',
               lambda v: "".join(w[0] for w in v.split())),
        _replace_letter,
        _drawn("str", _letter, 'Remove each "{0}"', 'v.replace("{0}", "")', lambda v, a: v.replace(a, "")),
        _drawn("str", _from(1, 9), "Keep only the first {0} characters", "v[:{0}]", lambda v, k: v[:k]),
        _drawn("str", _from(1, 9), "Keep only the last {0} characters", "v[-{0}:]", lambda v, k: v[-k:]),
        _drawn("str", _from(1, 6), "Remove the first {0} characters", "v[{0}:]", lambda v, k: v[k:]),
        _every_character, _around,
        _drawn("str", _one_of("-_.+/"), 'Replace each space by "{0}"', 'v.replace(" ", "{0}")',
               lambda v, sign: v.replace(" ", sign)),
        _repeat,
        _plain("int", "Count its characters", "len(v)", len),
        _plain("int", "Count its words", "len(v.split())", lambda v: len(v.split())),
        _plain("int", "Count its vowels (a, e, i, o, u, small and capital)", f'sum(c in "{_VOWELS}" for c in v)',
               lambda v: sum(c in _VOWELS for c in v)),
        _plain("int", "Count its digits", "sum(c.isdigit() for c in v)", lambda v: sum(c.isdigit() for c in v)),
        _drawn("int", _always(0), "Find the length of its longest word, or {0} where there is none",
               "max((len(w) for w in v.split()), default={0})",
               lambda v, other: max((len(w) for w in v.split()), default=other)),
        _drawn("int", _letter, 'Count how often "{0}" is in it', 'v.count("{0}")', lambda v, a: v.count(a)),
        _drawn("int", _letter, 'Find the index of the first "{0}", or -1 where there is none', 'v.find("{0}")',
               lambda v, a: v.find(a)),
        _plain("list", "List the lengths of its words", "[len(w) for w in v.split()]",
               lambda v: [len(w) for w in v.split()]),
        _plain("list", "List its digits as numbers", "[int(c) for c in v if c.isdigit()]",
               lambda v: [int(c) for c in v if c.isdigit()]),
        _drawn("list", _letter, 'List the indices at which there is an "{0}"',
               '[i for i, c in enumerate(v) if c == "{0}"]', lambda v, a: [i for i, c in enumerate(v) if c == a]),
    ),
}
"""Families by argument type. Characters are ASCII throughout."""
# fmt: on


def draw_value(kind: Kind, rng: random.Random) -> Any:
    """Draw an argument for a function."""
    if kind == "int":
        return rng.choice((rng.randint(-20, 40), rng.randint(-150, 400)))
    if kind == "list":
        high = rng.choice((9, 20, 40))
        return [rng.randint(-high // 2, high) for _ in range(rng.randint(1, 9))]
    words = []
    for _ in range(rng.randint(1, 4)):
        word = "".join(rng.choice("aeioustrnlmpdchgbf") for _ in range(rng.randint(2, 7)))
        words.append(rng.choice((word, word, word.capitalize(), word.upper(), f"{word}{rng.randint(0, 99)}")))
    return " ".join(words)


def draw_edge(kind: Kind, rng: random.Random) -> Any:
    """Draw an argument as `draw_value` does, or a short, long or small one near thresholds and ends."""
    if rng.random() < 0.3:
        return draw_value(kind, rng)
    if kind == "int":
        return rng.randint(-40, 120)
    if kind == "list":
        low, high = rng.choice(((-15, 18), (-3, 9), (-100, 0), (0, 100)))
        return [rng.randint(low, high) for _ in range(rng.randint(0, 12))]
    return "".join(rng.choice("aeiou rstnl MP 07") for _ in range(rng.randint(0, 14)))
