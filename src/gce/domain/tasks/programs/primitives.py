"""The steps that generated functions are composed of, by what they take: words, code, and what they do.

A family draws its numbers and letters, and gives a step. In the code `v` is the value; the function does the same, and
a test holds the two together on many values. Every step is total: what it does with nothing is part of its words.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from attrs import frozen

from gce.domain.tasks.programs.exercise import Kind

__all__ = ["FAMILIES", "Family", "Primitive", "draw_value"]


@frozen
class Primitive:
    """One step."""

    words: str
    """What is done, as a sentence that ends without a full stop; the value is "it", or its numbers or characters."""
    code: str
    """An expression in `v`."""
    apply: Callable[[Any], Any]
    gives: Kind


Family = Callable[[random.Random], Primitive]

_VOWELS = "aeiouAEIOU"


def _plain(gives: Kind, words: str, code: str, apply: Callable[[Any], Any]) -> Family:
    return lambda _rng: Primitive(words, code, apply, gives)


def _small(rng: random.Random) -> int:
    return rng.randint(2, 9)


def _number(rng: random.Random) -> int:
    return rng.randint(-9, 15)


def _range(rng: random.Random) -> tuple[int, int]:
    low, high = sorted(rng.sample(range(-12, 16), 2))
    return low, high


def _letter(rng: random.Random) -> str:
    return rng.choice("abcdefghilmnoprstu")


def _above(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(
        f"Keep only the numbers greater than {k}",
        f"[x for x in v if x > {k}]",
        lambda v: [x for x in v if x > k],
        "list",
    )


def _below(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(
        f"Keep only the numbers less than {k}", f"[x for x in v if x < {k}]", lambda v: [x for x in v if x < k], "list"
    )


def _between(rng: random.Random) -> Primitive:
    a, b = _range(rng)
    return Primitive(
        f"Keep only the numbers from {a} to {b}, both included",
        f"[x for x in v if {a} <= x <= {b}]",
        lambda v: [x for x in v if a <= x <= b],
        "list",
    )


def _divisible(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(
        f"Keep only the numbers divisible by {m}",
        f"[x for x in v if x % {m} == 0]",
        lambda v: [x for x in v if x % m == 0],
        "list",
    )


def _undivided(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(
        f"Remove the numbers divisible by {m}",
        f"[x for x in v if x % {m} != 0]",
        lambda v: [x for x in v if x % m != 0],
        "list",
    )


def _add_each(rng: random.Random) -> Primitive:
    k = rng.randint(1, 12)
    return Primitive(f"Add {k} to each number", f"[x + {k} for x in v]", lambda v: [x + k for x in v], "list")


def _from_each(rng: random.Random) -> Primitive:
    k = rng.randint(0, 12)
    return Primitive(f"Replace each number x by {k} - x", f"[{k} - x for x in v]", lambda v: [k - x for x in v], "list")


def _times_each(rng: random.Random) -> Primitive:
    k = _small(rng)
    return Primitive(f"Multiply each number by {k}", f"[x * {k} for x in v]", lambda v: [x * k for x in v], "list")


def _line_each(rng: random.Random) -> Primitive:
    a, b = _small(rng), _small(rng)
    return Primitive(
        f"Multiply each number by {a}, then add {b} to each",
        f"[x * {a} + {b} for x in v]",
        lambda v: [x * a + b for x in v],
        "list",
    )


def _clip_each(rng: random.Random) -> Primitive:
    a, b = _range(rng)
    return Primitive(
        f"Replace each number below {a} by {a}, and each above {b} by {b}",
        f"[min(max(x, {a}), {b}) for x in v]",
        lambda v: [min(max(x, a), b) for x in v],
        "list",
    )


def _modulo_each(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(f"Replace each number x by x % {m}", f"[x % {m} for x in v]", lambda v: [x % m for x in v], "list")


def _over_each(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(
        f"Replace each number x by x // {m}", f"[x // {m} for x in v]", lambda v: [x // m for x in v], "list"
    )


def _replace_number(rng: random.Random) -> Primitive:
    a, b = rng.sample(range(-3, 10), 2)
    return Primitive(
        f"Replace each {a} by {b}",
        f"[{b} if x == {a} else x for x in v]",
        lambda v: [b if x == a else x for x in v],
        "list",
    )


def _first(rng: random.Random) -> Primitive:
    k = rng.randint(1, 6)
    return Primitive(f"Keep only the first {k} (all, where there are fewer)", f"v[:{k}]", lambda v: v[:k], "list")


def _last(rng: random.Random) -> Primitive:
    k = rng.randint(1, 6)
    return Primitive(f"Keep only the last {k} (all, where there are fewer)", f"v[-{k}:]", lambda v: v[-k:], "list")


def _without_first(rng: random.Random) -> Primitive:
    k = rng.randint(1, 4)
    return Primitive(f"Remove the first {k} (all, where there are fewer)", f"v[{k}:]", lambda v: v[k:], "list")


def _without_last(rng: random.Random) -> Primitive:
    k = rng.randint(1, 4)
    return Primitive(f"Remove the last {k} (all, where there are fewer)", f"v[:-{k}]", lambda v: v[:-k], "list")


def _every(rng: random.Random) -> Primitive:
    k, begin = rng.randint(2, 3), rng.randint(0, 2)
    place = ("the first", "the second", "the third")[begin]
    return Primitive(
        f"Keep only every {('second', 'third')[k - 2]} number, beginning with {place}",
        f"v[{begin}::{k}]",
        lambda v: v[begin::k],
        "list",
    )


def _append(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(f"Put a {k} at the end", f"v + [{k}]", lambda v: [*v, k], "list")


def _prepend(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(f"Put a {k} at the front", f"[{k}] + v", lambda v: [k, *v], "list")


def _rotate(rng: random.Random) -> Primitive:
    k = rng.randint(1, 2)
    what = "the first number" if k == 1 else "the first two numbers"
    return Primitive(f"Move {what} to the end", f"v[{k}:] + v[:{k}]", lambda v: v[k:] + v[:k], "list")


def _count_above(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(
        f"Count the numbers greater than {k}", f"sum(x > {k} for x in v)", lambda v: sum(x > k for x in v), "int"
    )


def _count_divisible(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(
        f"Count the numbers divisible by {m}",
        f"sum(x % {m} == 0 for x in v)",
        lambda v: sum(x % m == 0 for x in v),
        "int",
    )


def _sum_above(rng: random.Random) -> Primitive:
    k = _number(rng)
    return Primitive(
        f"Add up the numbers greater than {k}",
        f"sum(x for x in v if x > {k})",
        lambda v: sum(x for x in v if x > k),
        "int",
    )


def _pick(rng: random.Random) -> Primitive:
    k, other = rng.randint(0, 4), rng.randint(-5, 5)
    return Primitive(
        f"Take the number at index {k}, or {other} where there is none",
        f"v[{k}] if len(v) > {k} else {other}",
        lambda v: v[k] if len(v) > k else other,
        "int",
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


def _add(rng: random.Random) -> Primitive:
    k = rng.randint(1, 30)
    return Primitive(f"Add {k} to it", f"v + {k}", lambda v: v + k, "int")


def _take_from(rng: random.Random) -> Primitive:
    k = rng.randint(0, 60)
    return Primitive(f"Subtract it from {k}", f"{k} - v", lambda v: k - v, "int")


def _times(rng: random.Random) -> Primitive:
    k = rng.randint(2, 12)
    return Primitive(f"Multiply it by {k}", f"v * {k}", lambda v: v * k, "int")


def _line(rng: random.Random) -> Primitive:
    a, b = rng.randint(2, 12), rng.randint(1, 20)
    return Primitive(f"Multiply it by {a} and add {b}", f"v * {a} + {b}", lambda v: v * a + b, "int")


def _modulo(rng: random.Random) -> Primitive:
    m = rng.randint(3, 40)
    return Primitive(f"Take it modulo {m}", f"v % {m}", lambda v: v % m, "int")


def _over(rng: random.Random) -> Primitive:
    m = _small(rng)
    return Primitive(f"Divide it by {m}, rounded down", f"v // {m}", lambda v: v // m, "int")


def _at_least(rng: random.Random) -> Primitive:
    k = rng.randint(0, 60)
    return Primitive(f"Replace it by {k} where it is less", f"max(v, {k})", lambda v: max(v, k), "int")


def _at_most(rng: random.Random) -> Primitive:
    k = rng.randint(0, 60)
    return Primitive(f"Replace it by {k} where it is greater", f"min(v, {k})", lambda v: min(v, k), "int")


def _next_numbers(rng: random.Random) -> Primitive:
    k = _small(rng)
    return Primitive(
        f"Make a list of {k} numbers that begins with it and goes up by 1",
        f"[v + i for i in range({k})]",
        lambda v: [v + i for i in range(k)],
        "list",
    )


def _multiples(rng: random.Random) -> Primitive:
    k = _small(rng)
    return Primitive(
        f"Make a list of it times 1, times 2, and so on up to times {k}",
        f"[v * i for i in range(1, {k} + 1)]",
        lambda v: [v * i for i in range(1, k + 1)],
        "list",
    )


def _replace_letter(rng: random.Random) -> Primitive:
    a = _letter(rng)
    b = rng.choice(string.ascii_lowercase.replace(a, "") + "*#_")
    return Primitive(f'Replace each "{a}" by "{b}"', f'v.replace("{a}", "{b}")', lambda v: v.replace(a, b), "str")


def _remove_letter(rng: random.Random) -> Primitive:
    a = _letter(rng)
    return Primitive(f'Remove each "{a}"', f'v.replace("{a}", "")', lambda v: v.replace(a, ""), "str")


def _first_characters(rng: random.Random) -> Primitive:
    k = rng.randint(1, 9)
    return Primitive(f"Keep only the first {k} characters", f"v[:{k}]", lambda v: v[:k], "str")


def _last_characters(rng: random.Random) -> Primitive:
    k = rng.randint(1, 9)
    return Primitive(f"Keep only the last {k} characters", f"v[-{k}:]", lambda v: v[-k:], "str")


def _without_characters(rng: random.Random) -> Primitive:
    k = rng.randint(1, 6)
    return Primitive(f"Remove the first {k} characters", f"v[{k}:]", lambda v: v[k:], "str")


def _every_character(rng: random.Random) -> Primitive:
    k = rng.randint(2, 3)
    return Primitive(
        f"Keep only every {('second', 'third')[k - 2]} character, beginning with the first",
        f"v[::{k}]",
        lambda v: v[::k],
        "str",
    )


def _around(rng: random.Random) -> Primitive:
    sign = rng.choice("*_#!?~+=")
    if rng.random() < 0.5:
        return Primitive(f'Put "{sign}" at the end', f'v + "{sign}"', lambda v: v + sign, "str")
    return Primitive(f'Put "{sign}" at the front', f'"{sign}" + v', lambda v: sign + v, "str")


def _spaces(rng: random.Random) -> Primitive:
    sign = rng.choice("-_.+/")
    return Primitive(
        f'Replace each space by "{sign}"', f'v.replace(" ", "{sign}")', lambda v: v.replace(" ", sign), "str"
    )


def _repeat(rng: random.Random) -> Primitive:
    k = rng.randint(2, 3)
    return Primitive(f"Write it {('twice', 'three times')[k - 2]} in a row", f"v * {k}", lambda v: v * k, "str")


def _count_letter(rng: random.Random) -> Primitive:
    a = _letter(rng)
    return Primitive(f'Count how often "{a}" is in it', f'v.count("{a}")', lambda v: v.count(a), "int")


def _find_letter(rng: random.Random) -> Primitive:
    a = _letter(rng)
    return Primitive(
        f'Find the index of the first "{a}", or -1 where there is none', f'v.find("{a}")', lambda v: v.find(a), "int"
    )


def _places(rng: random.Random) -> Primitive:
    a = _letter(rng)
    return Primitive(
        f'List the indices at which there is an "{a}"',
        f'[i for i, c in enumerate(v) if c == "{a}"]',
        lambda v: [i for i, c in enumerate(v) if c == a],
        "list",
    )


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
        _above, _below, _between, _divisible, _undivided, _add_each, _from_each, _times_each, _line_each, _clip_each,
        _modulo_each, _over_each, _replace_number, _first, _last, _without_first, _without_last, _every, _append,
        _prepend, _rotate,
        _plain("int", "Add up the numbers", "sum(v)", sum),
        _plain("int", "Count the numbers", "len(v)", len),
        _plain("int", "Take the largest number, or 0 where there is none", "max(v, default=0)",
               lambda v: max(v, default=0)),
        _plain("int", "Take the smallest number, or 0 where there is none", "min(v, default=0)",
               lambda v: min(v, default=0)),
        _plain("int", "Count the different numbers", "len(set(v))", lambda v: len(set(v))),
        _plain("int", "Subtract the smallest number from the largest; 0 where there is none",
               "max(v) - min(v) if v else 0", lambda v: max(v) - min(v) if v else 0),
        _count_above, _count_divisible, _sum_above, _pick, _join_numbers,
    ),
    "int": (
        _add, _take_from, _times, _line, _modulo, _over, _at_least, _at_most,
        _plain("int", "Square it", "v * v", lambda v: v * v),
        _plain("int", "Take its absolute value", "abs(v)", abs),
        _plain("int", "Add up the digits of its absolute value", "sum(int(c) for c in str(abs(v)))",
               lambda v: sum(int(c) for c in str(abs(v)))),
        _plain("list", "List the digits of its absolute value", "[int(c) for c in str(abs(v))]",
               lambda v: [int(c) for c in str(abs(v))]),
        _next_numbers, _multiples,
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
        _replace_letter, _remove_letter, _first_characters, _last_characters, _without_characters, _every_character,
        _around, _spaces, _repeat,
        _plain("int", "Count its characters", "len(v)", len),
        _plain("int", "Count its words", "len(v.split())", lambda v: len(v.split())),
        _plain("int", "Count its vowels (a, e, i, o, u, small and capital)", f'sum(c in "{_VOWELS}" for c in v)',
               lambda v: sum(c in _VOWELS for c in v)),
        _plain("int", "Count its digits", "sum(c.isdigit() for c in v)", lambda v: sum(c.isdigit() for c in v)),
        _plain("int", "Find the length of its longest word, or 0 where there is none",
               "max((len(w) for w in v.split()), default=0)",
               lambda v: max((len(w) for w in v.split()), default=0)),
        _count_letter, _find_letter,
        _plain("list", "List the lengths of its words", "[len(w) for w in v.split()]",
               lambda v: [len(w) for w in v.split()]),
        _plain("list", "List its digits as numbers", "[int(c) for c in v if c.isdigit()]",
               lambda v: [int(c) for c in v if c.isdigit()]),
        _places,
    ),
}
"""By what they take. Characters are ASCII throughout."""
# fmt: on


def draw_value(kind: Kind, rng: random.Random) -> Any:
    """A value to call a function with."""
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
