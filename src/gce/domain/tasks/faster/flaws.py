"""The grammar's words: pieces of code that are slow in a known way, each with a fast form that returns the same.

A piece reads the list of whole numbers `{v}` and leaves its result there; other names in braces are filled in, too. It
never changes the list that it is given. Slow forms cost at least n^2 in the length n of the list, or copy or recompute
as much; fast forms cost n or n log n. Knows nothing of how pieces are put together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Literal

from attrs import field, frozen

__all__ = ["ALGORITHMS", "LOCAL", "REPEATED", "Flaw"]

Numbers = Mapping[str, int | str]
Kind = Literal["list", "int", "str"]


def _nothing(_rng: random.Random) -> Numbers:
    return {}


@frozen
class Flaw:
    """A slow piece of code and its fast form."""

    name: str
    kind: str
    """The inefficiency: wrong container, recomputed invariant, ..."""
    size: int
    """Length of a list for which the slow form takes some tens of milliseconds."""
    slow: str
    fast: str
    gives: Kind = "list"
    imports: str = ""
    """What the fast form imports."""
    draw: Callable[[random.Random], Numbers] = field(default=_nothing, kw_only=True)
    """Draws the constants in the code."""
    chains: bool = field(default=False, kw_only=True)
    """Whether the result is about as long as the list and as varied, so that another slow piece may follow."""
    scale: str = field(default="", kw_only=True)
    """The constant that multiplies the values, if any."""
    distance: str = field(default="", kw_only=True)
    """The constant that is the distance of two values, if any, in units of what they were multiplied by before."""


def _within(**ranges: tuple[int, int]) -> Callable[[random.Random], Numbers]:
    return lambda rng: {name: rng.randint(*bounds) for name, bounds in ranges.items()}


def _residue(rng: random.Random) -> Numbers:
    modulus = rng.randint(3, 40)
    return {"k": modulus, "r": rng.randrange(modulus)}


def _separator(rng: random.Random) -> Numbers:
    return {"c": rng.choice((",", ";", " ", "-", "/", "|", " + ")), "k": rng.randint(14, 17)}


def _signs(rng: random.Random) -> Numbers:
    return dict(zip("cd", rng.sample(".-_#*x+o=", 2), strict=True))


_USES = (
    ("{x} - {I}", ""),
    ("{x} * {a} - {I}", "a"),
    ("abs({x} * {a} - {I} - {b})", "a"),
    ("({x} + {I}) % {m}", ""),
    ("{x} * {b} + {I}", "b"),
)
"""Each with the constant that multiplies."""


def _invariants(name: str, size: int, each: str, once: str) -> tuple[Flaw, ...]:
    """Return the flaws that compute `each` for every element, one for each use of it."""
    loop = "{v} = [" + "USE for {x} in {v}]"
    return tuple(
        Flaw(
            f"{name} in a loop, {number}",
            "recomputed invariant",
            size,
            loop.replace("USE", use.replace("{I}", each)),
            "{w} = " + once + "\n" + loop.replace("USE", use.replace("{I}", "{w}")),
            draw=_within(a=(2, 9), b=(2, 60), m=(2000, 9999)),
            chains=True,
            scale=scale,
        )
        for number, (use, scale) in enumerate(_USES, 1)
    )


LOCAL: tuple[Flaw, ...] = (
    Flaw(
        "distinct",
        "wrong container",
        4000,
        "{out} = []\nfor {x} in {v}:\n    if {x} not in {out}:\n        {out}.append({x})\n{v} = {out}",
        "{v} = list(dict.fromkeys({v}))",
        chains=True,
    ),
    Flaw(
        "last occurrences",
        "wrong container",
        3500,
        "{v} = [{x} for {i}, {x} in enumerate({v}) if {x} not in {v}[{i} + 1:]]",
        "{v} = list(dict.fromkeys(reversed({v})))[::-1]",
        chains=True,
    ),
    Flaw(
        "excluded",
        "wrong container",
        4000,
        "{w} = [({x} * {a} + {b}) % {m} for {x} in {v}]\n{v} = [{x} for {x} in {v} if {x} not in {w}]",
        "{w} = set(({x} * {a} + {b}) % {m} for {x} in {v})\n{v} = [{x} for {x} in {v} if {x} not in {w}]",
        draw=_within(a=(2, 9), b=(0, 60), m=(9000, 30000)),
    ),
    Flaw(
        "counts",
        "repeated work",
        3000,
        "{v} = [{v}.count({x}) for {x} in {v}]",
        "{w} = Counter({v})\n{v} = [{w}[{x}] for {x} in {v}]",
        imports="from collections import Counter",
    ),
    Flaw(
        "first positions",
        "wrong container",
        4000,
        "{v} = [{v}.index({x}) for {x} in {v}]",
        "{w} = dict()\nfor {i}, {x} in enumerate({v}):\n    {w}.setdefault({x}, {i})\n{v} = [{w}[{x}] for {x} in {v}]",
        chains=True,
    ),
    Flaw(
        "put in front",
        "accidental quadratic",
        10000,
        "{out} = []\nfor {x} in {v}:\n    {out} = [{x} * {a}] + {out}\n{v} = {out}",
        "{v} = [{x} * {a} for {x} in reversed({v})]",
        draw=_within(a=(2, 99)),
    ),
    Flaw(
        "taken from the front",
        "accidental quadratic",
        10000,
        "{out} = []\nwhile {v}:\n    {out}.append({v}[0] * {a} - {v}[-1])\n    {v} = {v}[1:]\n{v} = {out}",
        "{v} = [{x} * {a} - {v}[-1] for {x} in {v}]",
        draw=_within(a=(2, 99)),
    ),
    *_invariants("minimum", 2000, "min({v})", "min({v}, default=0)"),
    *_invariants("maximum", 2000, "max({v})", "max({v}, default=0)"),
    *_invariants("sum", 3000, "sum({v})", "sum({v})"),
    *_invariants("number of values", 1500, "len(set({v}))", "len(set({v}))"),
)
"""Seen in one place, and mended there."""

REPEATED: tuple[Flaw, ...] = (
    Flaw(
        "prefix sums",
        "repeated work",
        4000,
        "{v} = [sum({v}[:{i} + 1]) for {i} in range(len({v}))]",
        "{v} = list(accumulate({v}))",
        imports="from itertools import accumulate",
        chains=True,
    ),
    Flaw(
        "prefix maxima",
        "repeated work",
        3000,
        "{v} = [max({v}[:{i} + 1]) for {i} in range(len({v}))]",
        "{v} = list(accumulate({v}, max))",
        imports="from itertools import accumulate",
    ),
    Flaw(
        "suffix minima",
        "repeated work",
        3000,
        "{v} = [min({v}[{i}:]) for {i} in range(len({v}))]",
        "{v} = list(accumulate(reversed({v}), min))[::-1]",
        imports="from itertools import accumulate",
    ),
    Flaw(
        "window sums",
        "repeated work",
        7000,
        "{w} = len({v}) // {k} + 1\n{v} = [sum({v}[max(0, {i} - {w} + 1):{i} + 1]) for {i} in range(len({v}))]",
        "{w} = len({v}) // {k} + 1\n{out} = [0, *accumulate({v})]\n"
        "{v} = [{out}[{i} + 1] - {out}[max(0, {i} - {w} + 1)] for {i} in range(len({v}))]",
        imports="from itertools import accumulate",
        draw=_within(k=(2, 4)),
    ),
    Flaw(
        "running median",
        "sorting in a loop",
        6000,
        "{out}, {w} = [], []\nfor {x} in {v}:\n    {w}.append({x})\n    {w}.sort()\n"
        "    {out}.append({w}[len({w}) // {k}])\n{v} = {out}",
        "{out}, {w} = [], []\nfor {x} in {v}:\n    insort({w}, {x})\n"
        "    {out}.append({w}[len({w}) // {k}])\n{v} = {out}",
        imports="from bisect import insort",
        draw=_within(k=(2, 5)),
    ),
    Flaw(
        "sorting by minima",
        "accidental quadratic",
        2500,
        "{out}, {w} = [], {v}[:]\nwhile {w}:\n    {x} = min({w})\n    {w}.remove({x})\n"
        "    {out}.append({x})\n{v} = {out}",
        "{v} = sorted({v})",
        chains=True,
    ),
    Flaw(
        "small so far",
        "sorting in a loop",
        1500,
        "{v} = [sorted({v}[:{i} + 1])[min({i}, {k})] for {i} in range(len({v}))]",
        "{out}, {w} = [], []\nfor {x} in {v}:\n    insort({w}, {x})\n    del {w}[{k} + 1:]\n"
        "    {out}.append({w}[-1])\n{v} = {out}",
        imports="from bisect import insort",
        draw=_within(k=(1, 12)),
    ),
    Flaw(
        "ranks",
        "repeated work",
        1600,
        "{v} = [sum(1 for {y} in {v} if {y} < {x}) for {x} in {v}]",
        "{w} = sorted({v})\n{v} = [bisect_left({w}, {x}) for {x} in {v}]",
        imports="from bisect import bisect_left",
        chains=True,
    ),
    Flaw(
        "text put in front",
        "string building",
        12000,
        '{out} = ""\nfor {x} in {v}:\n    {out} = str({x}).rjust({k}) + "{c}" + {out}\n{v} = {out}',
        '{v} = "".join(str({x}).rjust({k}) + "{c}" for {x} in reversed({v}))',
        "str",
        draw=_separator,
    ),
    Flaw(
        "signs replaced",
        "string building",
        30000,
        '{out} = "{c}" * len({v})\nfor {x} in {v}:\n    {i} = {x} % len({v})\n'
        '    {out} = {out}[:{i}] + "{d}" + {out}[{i} + 1:]\n{v} = {out}',
        '{out} = ["{c}"] * len({v})\nfor {x} in {v}:\n    {out}[{x} % len({v})] = "{d}"\n{v} = "".join({out})',
        "str",
        draw=_signs,
    ),
    Flaw(
        "primes",
        "missing early exit",
        3000,
        "{v} = [{x} for {x} in {v} if len([{y} for {y} in range(1, {x} % {m} + 1) if {x} % {m} % {y} == 0]) == 2]",
        "{v} = [{x} for {x} in {v} if {x} % {m} > 1 and all({x} % {m} % {y} for {y} in "
        "range(2, isqrt({x} % {m}) + 1))]",
        imports="from math import isqrt",
        draw=_within(m=(500, 999)),
    ),
    Flaw(
        "partners",
        "missing early exit",
        1200,
        "{v} = [{x} for {x} in {v} if any([{y} == {x} + {k} for {y} in {v}])]",
        "{w} = set({v})\n{v} = [{x} for {x} in {v} if {x} + {k} in {w}]",
        draw=_within(k=(1, 9)),
        distance="k",
    ),
)
"""Need another function of the standard library, or a running value."""

_PAIRS = "{w} = 0\nfor {i}, {x} in enumerate({v}):\n    for {y} in {v}[{i} + 1:]:\n        "
_RUNS = "{w} = 0\nfor {i} in range(len({v})):\n    {out} = 0\n    for {x} in {v}[{i}:]:\n        "
_COUNTED = "{w}, {out} = 0, Counter()\nfor {x} in {v}:\n    "

ALGORITHMS: tuple[Flaw, ...] = (
    Flaw(
        "pairs by residue",
        "accidental quadratic",
        1800,
        _PAIRS + "if ({x} + {y}) % {k} == {r}:\n            {w} += 1\n{v} = {w}",
        _COUNTED + "{w} += {out}[({r} - {x}) % {k}]\n    {out}[{x} % {k}] += 1\n{v} = {w}",
        "int",
        "from collections import Counter",
        draw=_residue,
    ),
    Flaw(
        "pairs at a distance",
        "accidental quadratic",
        2200,
        _PAIRS + "if {y} - {x} == {k}:\n            {w} += 1\n{v} = {w}",
        _COUNTED + "{w} += {out}[{x} - {k}]\n    {out}[{x}] += 1\n{v} = {w}",
        "int",
        "from collections import Counter",
        draw=_within(k=(0, 9)),
        distance="k",
    ),
    Flaw(
        "runs by residue",
        "accidental quadratic",
        1800,
        _RUNS + "{out} += {x}\n        if {out} % {k} == {r}:\n            {w} += 1\n{v} = {w}",
        "{w}, {i}, {out} = 0, 0, Counter([0])\nfor {x} in {v}:\n    {i} = ({i} + {x}) % {k}\n"
        "    {w} += {out}[({i} - {r}) % {k}]\n    {out}[{i}] += 1\n{v} = {w}",
        "int",
        "from collections import Counter",
        draw=_residue,
    ),
    Flaw(
        "best run",
        "accidental quadratic",
        1800,
        _RUNS + "{out} += {x} - {b}\n        if {out} > {w}:\n            {w} = {out}\n{v} = {w}",
        "{w}, {out} = 0, 0\nfor {x} in {v}:\n    {out} = max(0, {out} + {x} - {b})\n    if {out} > {w}:\n"
        "        {w} = {out}\n{v} = {w}",
        "int",
        draw=_within(b=(300, 2000)),
    ),
    Flaw(
        "inversions",
        "accidental quadratic",
        2200,
        _PAIRS + "if {y} < {x}:\n            {w} += 1\n{v} = {w}",
        "{w}, {out} = 0, []\nfor {x} in reversed({v}):\n    {i} = bisect_left({out}, {x})\n    {w} += {i}\n"
        "    {out}.insert({i}, {x})\n{v} = {w}",
        "int",
        "from bisect import bisect_left",
    ),
    Flaw(
        "rising subsequence",
        "accidental quadratic",
        1700,
        "{out} = []\nfor {i}, {x} in enumerate({v}):\n    {w} = 1\n    for {j}, {y} in enumerate({out}):\n"
        "        if {v}[{j}] < {x} and {y} >= {w}:\n            {w} = {y} + 1\n    {out}.append({w})\n"
        "{v} = max({out}, default=0)",
        "{out} = []\nfor {x} in {v}:\n    {i} = bisect_left({out}, {x})\n    {out}[{i}:{i} + 1] = [{x}]\n"
        "{v} = len({out})",
        "int",
        "from bisect import bisect_left",
    ),
    Flaw(
        "largest rise",
        "accidental quadratic",
        2200,
        _PAIRS + "if {y} - {x} > {w}:\n            {w} = {y} - {x}\n{v} = {w}",
        "{w}, {out} = 0, None\nfor {x} in {v}:\n    if {out} is None or {x} < {out}:\n        {out} = {x}\n"
        "    elif {x} - {out} > {w}:\n        {w} = {x} - {out}\n{v} = {w}",
        "int",
    ),
    Flaw(
        "window maxima",
        "repeated work",
        4500,
        "{w} = len({v}) // {k} + 1\n{v} = [max({v}[max(0, {i} - {w} + 1):{i} + 1]) for {i} in range(len({v}))]",
        "{w} = len({v}) // {k} + 1\n{out}, {y} = [], deque()\nfor {i}, {x} in enumerate({v}):\n"
        "    while {y} and {v}[{y}[-1]] <= {x}:\n        {y}.pop()\n    {y}.append({i})\n"
        "    if {y}[0] <= {i} - {w}:\n        {y}.popleft()\n    {out}.append({v}[{y}[0]])\n{v} = {out}",
        imports="from collections import deque",
        draw=_within(k=(2, 4)),
    ),
    Flaw(
        "next greater",
        "missing early exit",
        2200,
        "{out} = []\nfor {i}, {x} in enumerate({v}):\n    {w} = [{y} for {y} in {v}[{i} + 1:] if {y} > {x}]\n"
        "    {out}.append({w}[0] if {w} else -{a})\n{v} = {out}",
        "{out}, {w} = [-{a}] * len({v}), []\nfor {i}, {x} in enumerate({v}):\n"
        "    while {w} and {v}[{w}[-1]] < {x}:\n        {out}[{w}.pop()] = {x}\n    {w}.append({i})\n{v} = {out}",
        draw=_within(a=(1, 99)),
    ),
    Flaw(
        "longest run without repeats",
        "repeated work",
        8000,
        "{w} = 0\nfor {i} in range(len({v})):\n    {out} = set()\n    for {j} in range({i}, len({v})):\n"
        "        if {v}[{j}] in {out}:\n            break\n        {out}.add({v}[{j}])\n"
        "    {w} = max({w}, len({out}))\n{v} = {w}",
        "{w}, {j}, {out} = 0, 0, dict()\nfor {i}, {x} in enumerate({v}):\n    {j} = max({j}, {out}.get({x}, -1) + 1)\n"
        "    {out}[{x}] = {i}\n    if {i} - {j} >= {w}:\n        {w} = {i} - {j} + 1\n{v} = {w}",
        "int",
    ),
    Flaw(
        "closest pair",
        "accidental quadratic",
        1800,
        _PAIRS.replace("0", "{m}", 1) + "if abs({x} - {y}) < {w}:\n            {w} = abs({x} - {y})\n{v} = {w}",
        "{out} = sorted({v})\n{w} = {m}\nfor {x}, {y} in zip({out}, {out}[1:]):\n    if {y} - {x} < {w}:\n"
        "        {w} = {y} - {x}\n{v} = {w}",
        "int",
        draw=_within(m=(500, 9999)),
    ),
    Flaw(
        "distances of all pairs",
        "accidental quadratic",
        1700,
        _PAIRS + "{w} += abs({x} - {y})\n{v} = {w}",
        "{w} = 0\nfor {i}, {x} in enumerate(sorted({v})):\n    {w} += {x} * (2 * {i} - len({v}) + 1)\n{v} = {w}",
        "int",
    ),
    Flaw(
        "products of all pairs",
        "accidental quadratic",
        1900,
        _PAIRS + "{w} += {x} * {y}\n{v} = {w}",
        "{v} = (sum({v}) ** 2 - sum({x} * {x} for {x} in {v})) // 2",
        "int",
    ),
)
"""Need another algorithm."""
