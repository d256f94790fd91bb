"""Worlds of the family `elections`: an election night that is counted district by district, and polls before a vote.

- `CountNight`: each district has a stated chance to go to one of two parties, shifted by a national swing with stated
  chances. The claim is that this party wins most districts; results are called one after another.
- `Polls`: support follows a random walk that polls of stated error, and of houses with unknown bias, observe. The claim
  is a majority of the vote, or of seats that a shared swing and independent local deviations decide.

Posteriors are exact: sums over Poisson-binomial distributions, and a Kalman filter with the biases in the state.
Beliefs over the course of an election form a martingale. Knows nothing of wording.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from functools import cache
from math import erfc, prod, sqrt
from typing import Any

import numpy as np
from attrs import field, frozen

from gce.domain.tasks.beliefs.log_odds import share_of

__all__ = ["CountNight", "House", "Poll", "Polls", "draw_count_night", "draw_polls", "normal_tail"]

NODES = 161
"""Of the trapezoidal rule over the national vote. Its error falls faster than any power for integrands as smooth as
these (Trefethen and Weideman, 2014); Gauss-Hermite nodes are too coarse for seats whose own deviation is small."""
REACH = 8.5
"""How many standard deviations the nodes reach to either side."""


def normal_tail(z: float) -> float:
    """Return the probability that a standard normal variable is above `z`."""
    return 0.5 * erfc(z / sqrt(2.0))


def _at_least(needed: int, chances: Sequence[float]) -> float:
    """Return the probability of at least `needed` successes in independent trials: a Poisson-binomial tail."""
    counts = [1.0]
    for chance in chances:
        more = [0.0, *(count * chance for count in counts)]
        for at, count in enumerate(counts):
            more[at] += count * (1.0 - chance)
        counts = more
    return sum(counts[max(needed, 0) :])


@frozen
class CountNight:
    """Districts that are called one after another; one party, the claim's, needs most of them."""

    chances: tuple[int, ...]
    """Chance in percent that a district goes to the party, without a swing; an odd number of districts."""
    swings: tuple[tuple[int, int], ...]
    """(points, weight): added to the chances of all districts, with its probability in percent."""
    called: tuple[bool, ...]
    """For the first districts, in order, whether the party won it."""

    @property
    def pieces(self) -> int:
        """The number of called districts."""
        return len(self.called)

    @property
    def needed(self) -> int:
        """The number of districts that is a majority."""
        return len(self.chances) // 2 + 1

    def posterior(self, seen: Collection[int]) -> float:
        """Return the probability that the party wins most districts, given the results of these."""
        return self.at_least(self.needed, seen)

    def at_least(self, districts: int, seen: Collection[int]) -> float:
        """Return the probability that the party wins at least so many districts in all, given the results of these."""
        left = districts - sum(self.called[at] for at in seen)
        total = found = 0.0
        for points, weight in self.swings:
            chances = [(chance + points) / 100 for chance in self.chances]
            likelihood = weight * prod(chances[at] if self.called[at] else 1.0 - chances[at] for at in seen)
            total += likelihood
            found += likelihood * _at_least(left, [each for at, each in enumerate(chances) if at not in seen])
        return share_of(found, total)

    @property
    def canonical(self) -> tuple[Any, ...]:
        """Equal for worlds that differ in names and in the order of districts that are not called."""
        return min(self._ordered(flipped=False), self._ordered(flipped=True))

    def _ordered(self, *, flipped: bool) -> tuple[Any, ...]:
        """All numbers; `flipped`: those of the other party."""
        chances = [100 - chance if flipped else chance for chance in self.chances]
        swings = sorted((-points if flipped else points, weight) for points, weight in self.swings)
        called = tuple(won != flipped for won in self.called)
        return ("count", *chances[: self.pieces], *sorted(chances[self.pieces :]), called, *swings)


@frozen
class House:
    """A polling house."""

    bias: float = field(converter=float)
    """Expected bias towards the party, in points."""
    bias_sd: float = field(converter=float)
    """Standard deviation of the bias, in points; the bias is the same in all polls of the house."""


@frozen
class Poll:
    """A poll with its result."""

    day: int
    house: int
    """Index of the house."""
    sd: float = field(converter=float)
    """Standard deviation of its sampling error, in points."""
    share: float = field(converter=float)
    """Percent for the party, to one decimal place."""


@frozen
class Polls:
    """Polls before a vote; one party, the claim's, needs more than 50 percent, or most of the seats."""

    start: float = field(converter=float)
    """Expected support of the party on day 0, in percent."""
    start_sd: float = field(converter=float)
    """Standard deviation of this support, in points."""
    drift_sd: float = field(converter=float)
    """Standard deviation of the change from a day to the next, in points."""
    days: int
    """The day of the vote."""
    houses: tuple[House, ...]
    polls: tuple[Poll, ...]
    """In the order of days."""
    leans: tuple[int, ...] = ()
    """Points by which each seat's expected vote is above the national one; an odd number of seats, or none."""
    seat_sd: float = field(default=0.0, converter=float)
    """Standard deviation of a seat's own deviation, in points."""

    @property
    def pieces(self) -> int:
        """The number of polls."""
        return len(self.polls)

    def posterior(self, seen: Collection[int]) -> float:
        """Return the probability that the party wins the vote, or most seats, given these polls."""
        mean, variance = self.support(seen)
        if not self.leans:
            return normal_tail((50.0 - mean) / sqrt(variance))
        points, weights = _quadrature()
        votes = mean + sqrt(variance) * points
        # counts[k]: at each node, the probability of winning k of the seats so far.
        counts = np.zeros((len(self.leans) + 1, NODES))
        counts[0] = 1.0
        for lean in self.leans:
            wins = np.array([normal_tail(each) for each in ((50.0 - lean - votes) / self.seat_sd).tolist()])
            counts[1:] = counts[1:] * (1.0 - wins) + counts[:-1] * wins
            counts[0] *= 1.0 - wins
        return min(float(weights @ counts[len(self.leans) // 2 + 1 :].sum(axis=0)), 1.0)

    def support(self, seen: Collection[int]) -> tuple[float, float]:
        """Return mean and variance of the support on the day of the vote, given these polls.

        A Kalman filter (Kalman, 1960) whose state is the support and the bias of each house.
        """
        mean = np.array([self.start, *(house.bias for house in self.houses)])
        covariance = np.diag([self.start_sd**2, *(house.bias_sd**2 for house in self.houses)])
        today = 0
        for at in sorted(seen, key=lambda at: self.polls[at].day):
            poll = self.polls[at]
            covariance[0, 0] += (poll.day - today) * self.drift_sd**2
            today = poll.day
            house = 1 + poll.house
            with_poll = covariance[:, 0] + covariance[:, house]
            gain = with_poll / (with_poll[0] + with_poll[house] + poll.sd**2)
            mean = mean + gain * (poll.share - mean[0] - mean[house])
            covariance = covariance - np.outer(gain, with_poll)
        return float(mean[0]), float(covariance[0, 0]) + (self.days - today) * self.drift_sd**2

    @property
    def canonical(self) -> tuple[Any, ...]:
        """All numbers, seats in order of their leans; names are not among them."""
        houses = [(house.bias, house.bias_sd) for house in self.houses]
        polls = [(poll.day, poll.house, poll.sd, poll.share) for poll in self.polls]
        return (
            *("polls", self.start, self.start_sd, self.drift_sd, self.days, *houses, *polls),
            *(sorted(self.leans), self.seat_sd),
        )


@cache
def _quadrature() -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Nodes and weights for the mean of a function of a standard normal variable."""
    points = np.linspace(-REACH, REACH, NODES)
    weights = np.exp(-(points**2) / 2.0)
    return points, weights / weights.sum()


def draw_count_night(level: int, rng: random.Random) -> tuple[CountNight, bool]:
    """Draw an election night of a level, 1 to 3, and whether the party wins most districts.

    1: five districts, of which two are called. 2: seven of unequal chances, three called. 3: nine, four called, with a
    swing of three sizes. One more is called, which the problem withholds.
    """
    districts = 3 + 2 * level
    middle = rng.randint(30, 70)
    spread = (5, 20, 20)[level - 1]
    swings: tuple[tuple[int, int], ...] = ((0, 100),)
    if level == 3:
        up, sides = rng.randint(10, 20), rng.randint(20, 40)
        swings = ((-up, sides), (0, 100 - 2 * sides), (up, sides))
        middle = rng.randint(42, 58)
    chances = tuple(middle + rng.randint(-spread, spread) for _ in range(districts))
    (swing,) = rng.choices([points for points, _ in swings], [weight for _, weight in swings])
    won = [rng.random() * 100 < chance + swing for chance in chances]
    night = CountNight(chances, swings, tuple(won[: level + 2]))
    return night, sum(won) >= night.needed


def draw_polls(rng: random.Random, *, seats: bool) -> tuple[Polls, bool]:
    """Draw polls before a vote, or with `seats` before one for seats, and whether the party wins.

    Three polls without house effects, or five of two houses with them; one more poll is withheld.
    """
    houses = tuple(House(rng.randint(-2, 2), rng.randint(1, 3)) for _ in range(2)) if seats else (House(0, 0),)
    start, start_sd, drift_sd = rng.randint(47, 53), rng.randint(3, 5), rng.randint(3, 9) / 10
    days = rng.choice((20, 30, 40))
    leans = tuple(rng.randint(-6, 6) for _ in range(rng.choice((3, 5)))) if seats else ()
    seat_sd = rng.randint(1, 4) if seats else 0
    biases = [rng.gauss(house.bias, house.bias_sd) for house in houses]
    when = sorted(rng.sample(range(1, days), 6 if seats else 4))
    support, today, polls = rng.gauss(start, start_sd), 0, []
    for day in when:
        support += rng.gauss(0.0, drift_sd * sqrt(day - today))
        today, house, sd = day, rng.randrange(len(houses)), rng.randint(2, 5)
        polls.append(Poll(day, house, sd, round(rng.gauss(support + biases[house], sd), 1)))
    support += rng.gauss(0.0, drift_sd * sqrt(days - today))
    won = sum(rng.gauss(support + lean, seat_sd) > 50.0 for lean in leans) * 2 > len(leans) if seats else support > 50.0
    return Polls(start, start_sd, drift_sd, days, houses, tuple(polls), leans, seat_sd), won
