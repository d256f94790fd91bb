"""Worlds of the family `counting`: balls from an urn of unknown composition, and a finish in a random order.

- `Urn`: its composition is one of several with stated chances; balls are drawn. The claim is about the next balls: the
  posterior predictive.
- `Finish`: all orders of the runners are equally likely, and questions about the order have been answered truthfully.
  The probability of a claim is the share of the orders that fit the answers: what is independent before becomes
  dependent, and one explanation makes another less likely.

Posteriors are exact. Knows nothing of wording.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from functools import cache
from itertools import pairwise, permutations
from math import factorial, prod
from typing import Any, Literal, get_args

from attrs import field, frozen, validators

from gce.domain.tasks.beliefs.log_odds import share_of
from gce.domain.tasks.drawing import first_that_fits

__all__ = ["Finish", "Statement", "Urn", "draw_finish", "draw_urn"]


@frozen
class Urn:
    """An urn with red and blue balls, the number of red ones unknown."""

    balls: int
    kinds: tuple[tuple[int, int], ...]
    """(red balls, weight): what the urn may hold, with the chance of it, in any unit."""
    returned: bool
    """Whether each ball is put back before the next is drawn."""
    draws: tuple[bool, ...]
    """For each ball drawn, in order, whether it was red."""
    next_red: int = 1
    """The claim: that so many next balls are all red."""

    @property
    def pieces(self) -> int:
        """The number of balls drawn."""
        return len(self.draws)

    def posterior(self, seen: Collection[int]) -> float:
        """Return the probability that the next balls are all red, given the colours of these.

        Balls that were not seen do not matter: the colours are exchangeable.
        """
        red = sum(self.draws[at] for at in seen)
        blue = len(seen) - red
        total = found = 0.0
        for of_red, weight in self.kinds:
            likelihood = weight * self._chance(of_red, red, blue)
            total += likelihood
            found += weight * self._chance(of_red, red + self.next_red, blue)
        return share_of(found, total)

    def compositions(self, seen: Collection[int]) -> tuple[float, ...]:
        """Return the probability of each kind given the colours of these balls."""
        red = sum(self.draws[at] for at in seen)
        weights = [weight * self._chance(of_red, red, len(seen) - red) for of_red, weight in self.kinds]
        return tuple(weight / sum(weights) for weight in weights)

    def _chance(self, of_red: int, red: int, blue: int) -> float:
        """The probability of so many red, then so many blue balls, if the urn holds `of_red` red ones."""
        of_blue = self.balls - of_red
        if self.returned:
            return float((of_red / self.balls) ** red * (of_blue / self.balls) ** blue)
        chosen = prod(of_red - at for at in range(red)) * prod(of_blue - at for at in range(blue))
        return chosen / prod(self.balls - at for at in range(red + blue))

    @property
    def canonical(self) -> tuple[Any, ...]:
        """All numbers, what the urn may hold in order."""
        return ("urn", self.balls, sorted(self.kinds), self.returned, self.draws, self.next_red)


Relation = Literal["before", "within", "just before"]


@frozen
class Statement:
    """A statement about the order in which runners finish, by their indices."""

    relation: Relation = field(validator=validators.in_(get_args(Relation)))
    """before: `runner` finishes before `other`. just before: as the next one. within: among the first `other`."""
    runner: int
    other: int
    true: bool = True
    """What was answered when this was asked."""


@cache
def _fits(runners: int, relation: Relation, runner: int, other: int) -> int:
    """In which orders a statement is true: bit k for order k, as `permutations` counts the places of the runners."""
    found = 0
    for order, places in enumerate(permutations(range(runners))):
        if relation == "within":
            true = places[runner] < other
        elif relation == "before":
            true = places[runner] < places[other]
        else:
            true = places[runner] + 1 == places[other]
        found |= true << order
    return found


@frozen
class Finish:
    """Runners who finish in an order of which nothing is known but answers to questions."""

    runners: int = field(validator=validators.and_(validators.ge(2), validators.le(7)))
    claim: Statement
    answers: tuple[Statement, ...]

    @property
    def pieces(self) -> int:
        """The number of answers."""
        return len(self.answers)

    def posterior(self, seen: Collection[int]) -> float:
        """Return the share of the orders that fit these answers in which the claim is true."""
        return self.share(self.claim, seen)

    def share(self, claim: Statement, seen: Collection[int]) -> float:
        """Return the share of the orders that fit these answers in which `claim` is true."""
        left = self.left(seen)
        return share_of((left & self.orders(claim)).bit_count(), left.bit_count())

    def left(self, seen: Collection[int]) -> int:
        """Return the orders that fit these answers, a bit for each."""
        left = (1 << factorial(self.runners)) - 1
        for at in seen:
            left &= self.orders(self.answers[at])
        return left

    def places(self, runner: int, seen: Collection[int]) -> tuple[float, ...]:
        """Return the probability of each place of a runner, the first one first, given these answers."""
        among = [self.share(Statement("within", runner, last), seen) for last in range(self.runners + 1)]
        return tuple(last - before for before, last in pairwise(among))

    def orders(self, said: Statement) -> int:
        """Return in which orders this statement has this answer, a bit for each."""
        fits = _fits(self.runners, said.relation, said.runner, said.other)
        return fits if said.true else ~fits & ((1 << factorial(self.runners)) - 1)

    @property
    def canonical(self) -> tuple[Any, ...]:
        """The claim and the answers, with runners numbered as they first appear."""
        numbers: dict[int, int] = {}
        found: list[Any] = ["finish", self.runners]
        for each in (self.claim, *self.answers):
            other = each.other if each.relation == "within" else numbers.setdefault(each.other, len(numbers))
            found.append((each.relation, numbers.setdefault(each.runner, len(numbers)), other, each.true))
        return tuple(found)


def draw_urn(level: int, rng: random.Random) -> tuple[Urn, bool]:
    """Draw an urn of a level, 1 to 3, and whether the next balls are all red.

    1: two compositions, three balls that are put back. 2: three compositions, four balls that are not put back. 3:
    twelve to twenty-four balls, each number of red ones in a wide range equally likely, five balls, the claim about the
    next two. One more ball is drawn, which the problem withholds; the claim is then about those after it.
    """
    balls = (20, 20, rng.randint(12, 24))[level - 1]
    kinds: tuple[tuple[int, int], ...]
    if level == 1:
        weight = rng.randint(20, 80)
        kinds = ((rng.randint(1, 7), weight), (rng.randint(13, 19), 100 - weight))
    elif level == 2:
        one, two = rng.randint(20, 45), rng.randint(10, 30)
        reds = (rng.randint(2, 6), rng.randint(8, 12), rng.randint(14, 18))
        kinds = tuple(zip(reds, (one, two, 100 - one - two), strict=True))
    else:
        least, most = rng.randint(0, 3), balls - rng.randint(0, 3)
        kinds = tuple((red, 1) for red in range(least, most + 1))
    (of_red,) = rng.choices([red for red, _ in kinds], [weight for _, weight in kinds])
    next_red = 2 if level == 3 else 1
    count = level + 3 + next_red
    urn = [True] * of_red + [False] * (balls - of_red)
    drawn = [rng.choice(urn) for _ in range(count)] if level == 1 else rng.sample(urn, count)
    return Urn(balls, kinds, level == 1, tuple(drawn[next_red:]), next_red), all(drawn[:next_red])


def draw_finish(runners: int, answers: int, rng: random.Random) -> tuple[Finish, bool]:
    """Draw a finish with so many answers and a withheld further one, and whether its claim is true.

    What is asked depends only on what is known by then, never on the true order: an answer tells no more than it says.
    Rarely there are fewer answers, where no further question would leave the claim open.
    """
    order = 1 << rng.randrange(factorial(runners))
    claim = _draw_statement(runners, rng)
    finish = Finish(runners, claim, ())
    claimed = finish.orders(claim)
    about = (claim.runner,) if claim.relation == "within" else (claim.runner, claim.other)
    left = finish.left(())
    found: list[Statement] = []

    def worth_asking() -> tuple[Statement, int] | None:
        """A question both of whose answers are possible and leave the claim open."""
        asked = _draw_statement(runners, rng, about=about)
        fits = finish.orders(asked)
        parts = (left & fits & claimed, left & fits & ~claimed, left & ~fits & claimed, left & ~fits & ~claimed)
        return (asked, fits) if all(parts) else None

    for _ in range(answers + 1):
        question = first_that_fits(worth_asking, tries=200)
        if question is None:
            break
        asked, fits = question
        true = bool(fits & order)
        left = left & (fits if true else ~fits)
        found.append(Statement(asked.relation, asked.runner, asked.other, true))
    return Finish(runners, claim, tuple(found)), bool(claimed & order)


def _draw_statement(runners: int, rng: random.Random, *, about: Sequence[int] = ()) -> Statement:
    """Draw a statement, with `about` four times in five one that names a runner of these."""
    relation: Relation = rng.choice(("before", "before", "within", "just before"))
    runner, other = rng.sample(range(runners), 2)
    if about and rng.random() < 0.8 and runner not in about and (other not in about or relation == "within"):
        runner = rng.choice(about)
        other = (runner + rng.randint(1, runners - 1)) % runners
    return Statement(relation, runner, rng.randint(1, runners - 1) if relation == "within" else other)
