"""Draw slow functions: an elementwise step with drawn constants, then slow pieces, one after another."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from math import gcd
from statistics import geometric_mean
from typing import Any

from attrs import frozen

from gce.domain.tasks.faster.flaws import ALGORITHMS, LOCAL, REPEATED, Flaw
from gce.domain.tasks.faster.inputs import drawn_lists
from gce.domain.tasks.faster.slow_function import SlowFunction

__all__ = ["LEVELS", "draw_slow_function", "pieced_together"]

LEVELS = 5
CLOSE = 1.9
"""Largest ratio of the sizes of two flaws in one function."""
TRIED = 40
MOST_EQUAL = 0.75
"""A function is drawn again if a larger share of its values for `TRIED` lists is the same: few lists, say, have numbers
at the distance that it looks for. A constant could be right, and equality would show little.
"""
_STEPS = (
    "[({x} * {a} + {b}) % {m} for {x} in {p}]",
    "[({x} * {a} - {b}) % {m} for {x} in {p}]",
    "[abs({x} * {a} - {b}) % {m} for {x} in {p}]",
    "[({x} + {b}) * {a} % {m} for {x} in {p}]",
    "[({x} ^ {b}) * {a} % {m} for {x} in {p}]",
)
_FILTER = "{v} = [{x} for {x} in {v} if {x} % {k} != {r}]"
_CANONICAL = dict(zip(("f", "p", "v", "out", "w", "x", "y", "i", "j"), "fpvowxyij", strict=True))
_NAMES = {
    "f": ("solve", "compute", "process", "transform", "run", "analyse", "summarise", "evaluate"),
    "p": ("numbers", "xs", "data", "sequence", "given"),
    "v": ("values", "items", "current", "vs", "entries"),
    "out": ("result", "found", "collected", "out", "acc"),
    "w": ("other", "rest", "seen", "aside", "known"),
    "x": ("x", "n", "item", "value", "element"),
    "y": ("y", "m", "second", "later", "z"),
    "i": ("i", "index", "position", "at"),
    "j": ("j", "start", "place", "k"),
}
"""Names of each variable; no name is in two lists."""


@frozen
class Piece:
    """A flaw with its constants."""

    flaw: Flaw
    constants: dict[str, int | str]


def draw_slow_function(level: int, rng: random.Random) -> SlowFunction:
    """Draw a function of a level, 1 to `LEVELS`, whose result depends on the list.

    1: an inefficiency seen and mended in one place. 2: repeated work. 3: one of level 1, then one of level 2. 4: one
    that needs another algorithm, after a filter. 5: one of level 1 or 2, then another algorithm.
    """
    while True:
        function = pieced_together(_flaws(level, rng), rng, filtered=level >= 4)
        if _most_common(function) <= MOST_EQUAL:
            return function


def _flaws(level: int, rng: random.Random) -> list[Flaw]:
    if level == 1:
        return [rng.choice(LOCAL)]
    if level == 2:
        return [rng.choice(REPEATED)]
    if level == 3:
        return _chain(LOCAL, REPEATED, rng)
    if level == 4:
        return [rng.choice(ALGORITHMS)]
    return _chain(LOCAL + REPEATED, ALGORITHMS, rng)


def _most_common(function: SlowFunction) -> float:
    """Return the share of the function's most common value on the first hidden lists."""
    names: dict[str, Any] = {}
    exec(function.fast, names)  # Pieces of ours, with numbers drawn here.
    values = [repr(names[function.entry_point](values)) for values in drawn_lists(function, TRIED)]
    return max(Counter(values).values()) / TRIED


def _chain(first: Sequence[Flaw], second: Sequence[Flaw], rng: random.Random) -> list[Flaw]:
    """Draw one of each; their sizes are so close that either takes a good part of the time."""
    begin = rng.choice([flaw for flaw in first if flaw.chains])
    return [begin, rng.choice([flaw for flaw in second if 1 / CLOSE <= flaw.size / begin.size <= CLOSE])]


def pieced_together(flaws: Sequence[Flaw], rng: random.Random, *, filtered: bool = False) -> SlowFunction:
    """Return a function with these flaws, in this order; constants and names are drawn."""
    step, constants = rng.choice(_STEPS), _coprime(rng)
    begin = ["{v} = " + step.format_map(_Kept(constants))]
    if filtered:
        modulus = rng.randint(5, 30)
        begin.append(_FILTER.format_map(_Kept(k=modulus, r=rng.randrange(modulus))))
    pieces, scale = list[Piece](), constants["a"]
    for flaw in flaws:
        drawn = dict(flaw.draw(rng))
        if flaw.distance:
            drawn[flaw.distance] = int(drawn[flaw.distance]) * scale
        scale *= int(drawn.get(flaw.scale, 1))
        pieces.append(Piece(flaw, drawn))
    names = {each: rng.choice(choices) for each, choices in _NAMES.items()}
    mended = [False] * len(pieces)
    one_mended = [[place == each for place in range(len(pieces))] for each in range(len(pieces))]
    return SlowFunction(
        slow=_source(begin, pieces, mended, names),
        fast=_source(begin, pieces, [True] * len(pieces), names),
        entry_point=names["f"],
        size=round(geometric_mean(flaw.size for flaw in flaws)),
        seed=rng.getrandbits(48),
        behaviour=blake2b(_source(begin, pieces, mended, _CANONICAL).encode(), digest_size=16).hexdigest(),
        flaws=tuple(flaw.kind for flaw in flaws),
        partly=tuple(_source(begin, pieces, each, names) for each in one_mended) if len(pieces) > 1 else (),
    )


def _coprime(rng: random.Random) -> dict[str, int]:
    """Return constants of a step whose values are all m residues.

    With a common factor of a and m it would leave few different numbers, or a filter none, and nothing slow to do.
    """
    a, b, m = rng.randint(1, 60), rng.randint(0, 999), rng.randint(3000, 9999)
    while gcd(a, m) > 1:
        m = rng.randint(3000, 9999)
    return {"a": a, "b": b, "m": m}


class _Kept(dict[str, int | str]):
    """Constants to fill in; names in braces that they do not have are kept for later."""

    def __missing__(self, name: str) -> str:
        return "{" + name + "}"


def _source(begin: Sequence[str], pieces: Sequence[Piece], mended: Sequence[bool], names: dict[str, str]) -> str:
    """Return the source of the function, with the fast form of each piece that is mended."""
    body = list(begin)
    imports = set[str]()
    for piece, fast in zip(pieces, mended, strict=True):
        code = piece.flaw.fast if fast else piece.flaw.slow
        body += code.format_map(_Kept(piece.constants)).split("\n")
        imports |= {piece.flaw.imports} if fast and piece.flaw.imports else set()
    lines = [*(f"    {line}" for line in body), "    return {v}"]
    head = [*sorted(imports), "", ""] if imports else []
    return "\n".join([*head, "def {f}({p}):", *lines]).format_map(names)
