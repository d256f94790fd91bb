r"""A kind of problem of your own: put pairs in order. The shipped model was never taught lists longer than ten.

    cd examples
    gce train --task custom_task:SORTING --model gce-tiny --iterations 15 --problems 96 --learning-rate 0.002 \
        --dev 0 --test 100
    gce audit --task custom_task:SORTING

Seed 0, 112 s on one core (--threads 1), n = 100 test problems a tier, 95 % intervals: nine pairs from 82 (73-88) to
93 (86-97) %, ten from 79 (70-86) to 95 (89-98) %, eleven from 3 (1-8) to 87 (79-92) %, twelve, never trained on, from
0 (0-4) to 7 (3-14) %. Before, the model stops after ten pairs; 9 % of its first rollouts of eleven were right.

A task is one record of plain functions: how a problem is drawn, shown and judged. What its results are compared with
is an optional part.
"""

from __future__ import annotations

import random
import re
import string
from hashlib import blake2b
from typing import Any

from attrs import frozen

from gce.domain.problems import Message, Problem
from gce.domain.tasks import References, Task, TaskTier
from gce.domain.verdicts import Verdict, Violation

SIZES = {"nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
PAIR = re.compile(r"([0-9]{1,2}) ([A-Z])")


@frozen
class Pairs:
    """Letters with numbers, all of them different."""

    pairs: tuple[tuple[str, int], ...]


def draw(_preset: str, tier: str, rng: random.Random, _solve: object) -> Pairs:
    """As many pairs as the tier's name says."""
    size = SIZES[tier]
    return Pairs(tuple(zip(rng.sample(string.ascii_uppercase, size), rng.sample(range(1, 41), size), strict=True)))


def write(pairs: tuple[tuple[str, int], ...]) -> str:
    """As in "Order: 3 K, 5 B"."""
    return "Order: " + ", ".join(f"{number} {letter}" for letter, number in pairs)


def ask(instance: Pairs) -> str:
    """As in "Latest end hours: K 3, B 5."."""
    pairs = ", ".join(f"{letter} {number}" for letter, number in instance.pairs)
    durations = ", ".join(f"{letter} 1" for letter, _ in instance.pairs)
    return f"Durations in hours: {durations}.\nLatest end hours: {pairs}.\nWrite the order line only."


def in_order(instance: Pairs) -> tuple[tuple[str, int], ...]:
    """The lowest number first."""
    return tuple(sorted(instance.pairs, key=lambda pair: pair[1]))


def shuffled(pairs: tuple[tuple[str, int], ...], rng: random.Random) -> tuple[tuple[str, int], ...]:
    """The pairs in any order."""
    return tuple(rng.sample(pairs, len(pairs)))


def verify(problem: Problem, completion: Any, _evidence: Any) -> tuple[Verdict, ...]:
    """Right where the answer begins with all pairs, the lowest number first. Any text gets a verdict."""
    wanted = in_order(problem.instance)
    words = completion.text.strip()[:200].removeprefix("Order: ").split(", ")
    found = [PAIR.fullmatch(word) for word in words]
    if len(found) != len(wanted) or not all(found):
        wrong = Violation("grammar", f'The answer is not a line of {len(wanted)} pairs such as "Order: 3 K, 5 B".')
    elif [(pair[2], int(pair[1])) for pair in found if pair] != list(wanted):
        wrong = Violation("order", "These are not the pairs of the problem, the lowest number first.")
    else:
        return (Verdict("right", 1.0, "sorting", "1"),)
    return (Verdict("wrong", 0.0, "sorting", "1", violations=(wrong,)),)


SORTING = Task(
    name="sorting",
    presets={"letters": tuple(TaskTier(name, held_out=name == "twelve") for name in SIZES)},
    draw=draw,
    prompt=lambda instance, _rng: (Message("user", ask(instance)),),
    digest=lambda instance: blake2b(repr(instance).encode(), digest_size=8).hexdigest(),
    verify=verify,
    instance_type=Pairs,
    # Prompt-blind baselines ignore the numbers: their solve rate is what guessing is worth.
    references=References(
        prompt_blind=lambda _training: {
            "as listed": lambda problem, _rng: write(problem.instance.pairs),
            "shuffled": lambda problem, rng: write(shuffled(problem.instance.pairs, rng)),
        },
        heuristics=lambda _training: {"sorts": lambda problem, _rng: write(in_order(problem.instance))},
        limits={"*": 0.05},
    ),
    max_tokens=80,
)
