"""Power of the exact McNemar test, the smallest gain that it finds, and the number of problems that it takes.

Two policies answer the same problems. A problem is discordant if exactly one of them solves it. All sums run over the
binomial distributions of discordant and gained problems; nothing is simulated. With as many problems in each tier, the
sign-flip test of the mean of tiers is the same test.
"""

from __future__ import annotations

from math import ceil, exp, floor, lgamma, log, log1p, sqrt

from attrs import field, frozen, validators

__all__ = ["MOST_PAIRS", "Pairing", "binomial_tail", "discordance", "mcnemar_power", "minimal_gain", "problems_needed"]

MOST_PAIRS = 1_000_000
"""Pairs up to which `problems_needed` searches."""
REACH = 10.0
"""Standard deviations of a binomial count beyond which its probability is neglected: less than 1e-20 in all."""

_share = validators.and_(validators.ge(0.0), validators.le(1.0))


@frozen(kw_only=True)
class Pairing:
    """What is assumed of two policies and the problems that both answer."""

    base: float = field(default=0.5, validator=_share)
    """Solve rate of the first policy."""
    correlation: float = field(default=0.5, validator=_share)
    """Correlation of the two policies' outcomes on a problem; 0 if they are independent, which takes most problems."""
    discordant: float | None = field(default=None, validator=validators.optional(_share))
    """Share of discordant problems, which replaces `correlation`; at least the absolute gain."""
    tiers: int = field(default=1, validator=validators.ge(1))
    seeds: int = field(default=1, validator=validators.ge(1))
    """Training seeds whose differences are averaged problem by problem."""
    seed_correlation: float = field(default=0.5, validator=_share)
    """Correlation of a problem's differences under two seeds. 1: further seeds add nothing."""

    def pairs(self, n: int) -> int:
        """Return the number of independent pairs that n problems per tier are worth, rounded down.

        Exact for one seed. Several seeds enter by the design effect 1 + (seeds - 1) * `seed_correlation`; they do not
        make a statement about other seeds.
        """
        return floor(n * self.tiers * self.seeds / (1 + (self.seeds - 1) * self.seed_correlation) + 1e-9)

    def changes(self, gain: float) -> tuple[float, float]:
        """Return the shares of problems gained and lost, whose difference is `gain`.

        Raises:
            ValueError: the gain would leave a solve rate outside [0, 1].
        """
        if not -1e-9 <= self.base + gain <= 1 + 1e-9:
            raise ValueError(f"expected base rate plus gain in [0, 1], got {self.base:g} and {gain:g}")
        share = self.discordant
        share = discordance(self.base, gain, self.correlation) if share is None else max(share, abs(gain))
        return (share + gain) / 2, (share - gain) / 2

    def power(self, n: int, gain: float, *, level: float = 0.05) -> float:
        """Return the power of the test on n problems per tier; see `mcnemar_power`."""
        return mcnemar_power(self.pairs(n), *self.changes(gain), level=level)


def discordance(base: float, gain: float, correlation: float) -> float:
    """Return the share of discordant problems of two solve rates, `base` and `base` + `gain`.

    `correlation` is that of the two outcomes on a problem (phi); at its largest possible value, which is below 1 where
    the rates differ, the share is the absolute gain.
    """
    after = min(1.0, max(0.0, base + gain))
    both = base * after + correlation * sqrt(base * (1 - base) * after * (1 - after))
    return base + after - 2 * min(both, base, after)


def mcnemar_power(n: int, gained: float, lost: float, *, level: float = 0.05) -> float:
    """Return the probability that the two-sided exact McNemar test of n problems has p <= `level`.

    Each problem is solved only by the second policy with probability `gained`, only by the first with probability
    `lost`. The number m of discordant problems is binomial, and given m so is the number gained; the test rejects if
    the smaller count is at most an edge that depends on m. Exact but for terms beyond `REACH` standard deviations. Time
    O(sqrt(n)).

    Source: the unconditional power of Duffy (1984), Biometrics 40, with the test's own two-sided critical region.

    Raises:
        ValueError: n or a share is negative, the shares exceed 1 together, or a level outside (0, 1).
    """
    changed = gained + lost
    if n < 0 or min(gained, lost) < -1e-12 or changed > 1 + 1e-9:
        raise ValueError(f"expected n from 0 and shares that are at most 1 together, got {n}, {gained:g}, {lost:g}")
    if not 0.0 < level < 1.0:
        raise ValueError(f"expected a level in (0, 1), got {level!r}")
    if changed <= 0.0:
        return 0.0
    changed, up = min(changed, 1.0), min(max(gained / changed, 0.0), 1.0)
    counts = _likely(n, changed)
    chances = (0.5, up, 1 - up)
    # The edge only grows with the number of discordant problems, by at most 1; -1 if no count rejects.
    edge = _likely(counts.start, 0.5).start - 1
    tails = [binomial_tail(edge, counts.start, chance) for chance in chances]
    power = 0.0
    for m in counts:
        while 2 * (tails[0] + _probability(edge + 1, m, 0.5)) <= level:
            edge += 1
            tails = [tail + _probability(edge, m, chance) for tail, chance in zip(tails, chances, strict=True)]
        power += _probability(m, n, changed) * (tails[1] + tails[2])
        # One more discordant problem leaves those at the edge there only if it falls on the other side.
        tails = [tail - chance * _probability(edge, m, chance) for tail, chance in zip(tails, chances, strict=True)]
    return min(1.0, max(0.0, power))


def minimal_gain(pairing: Pairing, n: int, *, power: float = 0.8, level: float = 0.05) -> float | None:
    """Return the smallest gain that n problems per tier find with this power; None if none up to 1 - base does.

    Found by bisection, to a thousandth of a point.
    """
    low, high = 0.0, 1 - pairing.base
    if high <= 0.0 or pairing.power(n, high, level=level) < power:
        return None
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if pairing.power(n, middle, level=level) >= power else (middle, high)
    return high


def problems_needed(pairing: Pairing, gain: float, *, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the number of problems per tier with which a gain (not 0) is found with this power.

    The power of an exact test rises with n in small steps back and forth; this n has the power, and n - 1 has not. None
    above `MOST_PAIRS` pairs in all.
    """
    low, high, most = 0, 1, MOST_PAIRS // pairing.tiers

    def found(n: int) -> bool:
        return pairing.power(n, gain, level=level) >= power

    while not found(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def _likely(n: int, chance: float) -> range:
    """Return the counts of n trials within `REACH` standard deviations of the mean."""
    reach = REACH * sqrt(n * chance * (1 - chance))
    return range(max(0, floor(n * chance - reach)), min(n, ceil(n * chance + reach)) + 1)


def binomial_tail(most: int, n: int, chance: float) -> float:
    """Return the probability of at most so many successes."""
    return sum(_probability(k, n, chance) for k in _likely(n, chance) if k <= most)


def _probability(k: int, n: int, chance: float) -> float:
    """Return the binomial probability of k successes in n trials."""
    if not 0 <= k <= n:
        return 0.0
    if chance in (0.0, 1.0):
        return float(k == n * chance)
    ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(ways + k * log(chance) + (n - k) * log1p(-chance))
