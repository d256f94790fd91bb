"""A kind of problem of your own: put pairs in order. The shipped model was never taught to, and learns it in minutes.

    cd examples
    gce train --task custom_task:SORTING --iterations 50 --problems 96 --updates 16 --learning-rate 0.002 --dev 0
    gce audit --task custom_task:SORTING

Seed 0, 157 s on two cores, n = 100 test problems a tier, 95 % intervals: two pairs from 11 (6-19) to 90 (83-94) %,
three from 0 (0-4) to 37 (28-47) %, four from 0 (0-4) to 8 (4-15) %, five, never trained on, 0 (0-4) % before and after.

A task is one record of plain functions: how a problem is drawn, shown and judged. Nothing else has to be written.
"""

import random
import re
import string
from hashlib import blake2b

from attrs import frozen

from gce.domain.tasks import Task, TaskTier
from gce.domain.types import Message, Problem, Verdict, Violation

SIZES = {"two": 2, "three": 3, "four": 4, "five": 5}
PAIR = re.compile(r"([A-Z]) ([0-9]{1,2})")


@frozen
class Pairs:
    """Letters with numbers, all of them different."""

    pairs: tuple[tuple[str, int], ...]


def draw(_preset: str, tier: str, rng: random.Random, _solve: object) -> Pairs:
    """As many pairs as the tier's name says."""
    size = SIZES[tier]
    return Pairs(tuple(zip(rng.sample(string.ascii_uppercase, size), rng.sample(range(31), size), strict=True)))


def write(pairs: tuple[tuple[str, int], ...]) -> str:
    """As in "K 3, B 5"."""
    return ", ".join(f"{letter} {number}" for letter, number in pairs)


def in_order(instance: Pairs) -> tuple[tuple[str, int], ...]:
    """The lowest number first."""
    return tuple(sorted(instance.pairs, key=lambda pair: pair[1]))


def verify(problem: Problem, completion, _evidence) -> tuple[Verdict, ...]:
    """Right where the answer begins with all pairs, the lowest number first. Any text gets a verdict."""
    wanted = in_order(problem.instance)
    words = completion.text[:200].split(", ")[: len(wanted)]
    found = [PAIR.fullmatch(word.strip()) for word in words]
    if len(found) < len(wanted) or not all(found):
        wrong = Violation("grammar", f'The answer does not begin with {len(wanted)} pairs such as "K 3, B 5".')
    elif [(pair[1], int(pair[2])) for pair in found if pair] != list(wanted):
        wrong = Violation("order", "These are not the pairs of the problem, the lowest number first.")
    else:
        return (Verdict("right", 1.0, "sorting", "1"),)
    return (Verdict("wrong", 0.0, "sorting", "1", violations=(wrong,)),)


SORTING = Task(
    name="sorting",
    presets={"letters": tuple(TaskTier(name, held_out=name == "five") for name in SIZES)},
    draw=draw,
    prompt=lambda instance, _rng: (Message("user", f"{write(instance.pairs)}."),),
    digest=lambda instance: blake2b(repr(instance).encode(), digest_size=8).hexdigest(),
    verify=verify,
    instance_type=Pairs,
    # Answers that ignore the numbers: their share is what guessing is worth.
    blind=lambda _training: {
        "as listed": lambda problem, _rng: write(problem.instance.pairs),
        "shuffled": lambda problem, rng: write(tuple(rng.sample(problem.instance.pairs, len(problem.instance.pairs)))),
    },
    heuristics=lambda _training: {"sorts": lambda problem, _rng: write(in_order(problem.instance))},
    blind_limits={"two": 0.6, "three": 0.3, "*": 0.15},
    max_tokens=16,
)
