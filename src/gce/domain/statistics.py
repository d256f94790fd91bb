"""Statistics of solve rates: confidence intervals, standard errors, paired tests and pass@k.

Works on counts and shares; it does not depend on models, problems or where the counts came from. Functions without a
generator are exact up to rounding, or closed formulas. scipy is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from gce.domain.measurements import Interval, MeanReward

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = [
    "DEFAULT_INTERVAL",
    "INTERVALS",
    "Estimate",
    "clustered_mean",
    "clustered_standard_error",
    "difference",
    "difference_p",
    "holm",
    "interval",
    "mcnemar",
    "mean_difference",
    "mean_of_problems",
    "mean_of_tiers",
    "mean_over_tiers",
    "mean_pass_at_k",
    "paired_difference",
    "pass_at_k",
    "sign_flip_test",
    "stratified_bootstrap",
    "wilson",
]


DEFAULT_INTERVAL = "wilson"
_SIGNS_AT_ONCE = 2_000_000
"""Numbers that the sign-flip test holds at once."""


@frozen
class Estimate:
    """A statistic of several shares, with its confidence interval."""

    value: float
    low: float
    high: float


def interval(correct: int, n: int, *, method: str = DEFAULT_INTERVAL, confidence: float = 0.95) -> Interval:
    """Return a share with its confidence interval by one of the methods in `INTERVALS`; [0, 1] if n = 0.

    Raises:
        ValueError: `correct` outside [0, n], a confidence outside (0, 1), or an unknown method.
    """
    _check_count(correct, n)
    _normal_quantile(confidence)
    limits = _limits(method)
    if n == 0:
        return Interval(n=0, correct=0, low=0.0, high=1.0)
    low, high = limits(correct / n, n, confidence)
    return Interval(n=n, correct=correct, low=low, high=high)


def wilson(correct: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Return a share with its Wilson score interval, valid for small n and for shares near 0 and 1.

    The interval never leaves [0, 1] and has no continuity correction. With n = 0 it is [0, 1].

    Source: Wilson (1927), JASA 22; method 3 of Newcombe (1998), Statistics in Medicine 17:857.

    Raises:
        ValueError: `correct` outside [0, n], or a confidence outside (0, 1).
    """
    return interval(correct, n, method="wilson", confidence=confidence)


def difference(after: Interval, before: Interval) -> Estimate:
    """Return the difference `after` - `before` of two independent shares, at the confidence level of their intervals.

    For Wilson intervals this is method 10 of Newcombe (1998), Statistics in Medicine 17:873: the distances from share
    to limit add in quadrature. If both shares were measured on the same problems, the interval is usually too wide; use
    `mcnemar` to test such a difference.

    Raises:
        ValueError: a share with n = 0.
    """
    _check_measured((after, before))
    value = after.share - before.share
    down = math.hypot(after.share - after.low, before.high - before.share)
    up = math.hypot(after.high - after.share, before.share - before.low)
    return Estimate(value=value, low=value - down, high=value + up)


def difference_p(after: Interval, before: Interval) -> float:
    """Return the two-sided p value of the score test for two independent shares, with the pooled standard error.

    If both shares were measured on the same problems, p is usually too large; `mcnemar` tests such a difference.

    Source: the chi-squared test without continuity correction; Newcombe (1998), Statistics in Medicine 17:873.

    Raises:
        ValueError: a share with n = 0.
    """
    _check_measured((after, before))
    pooled = (after.correct + before.correct) / (after.n + before.n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / after.n + 1 / before.n))
    return math.erfc(abs(after.share - before.share) / error / math.sqrt(2)) if error else 1.0


def mean_over_tiers(tiers: Iterable[Interval | MeanReward]) -> Estimate | None:
    """Return the unweighted mean of the tiers as it stands beside them in a table.

    The interval is that of `mean_of_tiers`, or of a single tier its own: a number has one interval. None where there
    is no tier, or one with n = 0.
    """
    found = tuple(tiers)
    if not found or not all(each.n for each in found):
        return None
    if len(found) == 1:
        (tier,) = found
        return Estimate(tier.value, tier.low, tier.high)
    return mean_of_tiers(found)


def mean_of_tiers(tiers: Iterable[Interval | MeanReward], *, confidence: float = 0.95) -> Estimate:
    """Return the unweighted mean of the tiers' shares, or mean rewards; tiers are independent samples.

    The interval is Price and Bonett's: add z^2 / (2 m) right and as many wrong answers to each of m tiers (z^2 is 3.84
    at 95 %; the paper rounds it to 4), take the normal interval of the mean, and cut it to [0, 1]. For one tier it is
    the Agresti-Coull interval. Its width stays positive if no answer was right, unlike that of the plain normal
    interval. Its coverage is nominal for shares near 0 or 1, unlike that of summed Wilson limits (6 tiers of 200 at 1 %
    each: 95 % against 91 %). It is conservative for mean rewards, as `mean_of_problems` is.

    Source: Price and Bonett (2004), Statistics in Medicine 23:1723.

    Raises:
        ValueError: no tier, a tier with n = 0, or a confidence outside (0, 1).
    """
    shares = tuple(tiers)
    if not shares:
        raise ValueError("expected at least one tier, got none")
    return _linear(shares, [1 / len(shares)] * len(shares), confidence, 0.0, 1.0)


def mean_difference(
    after: Iterable[Interval | MeanReward], before: Iterable[Interval | MeanReward], *, confidence: float = 0.95
) -> Estimate:
    """Return the difference of two means of tiers, `after` - `before`, for independent samples.

    The interval is as in `mean_of_tiers`. If both were measured on the same problems, the interval is usually too wide.

    Raises:
        ValueError: no tier on one side, a tier with n = 0, or a confidence outside (0, 1).
    """
    later, earlier = tuple(after), tuple(before)
    if not later or not earlier:
        raise ValueError(f"expected tiers on both sides, got {len(later)} after and {len(earlier)} before")
    coefficients = [1 / len(later)] * len(later) + [-1 / len(earlier)] * len(earlier)
    return _linear(later + earlier, coefficients, confidence, -1.0, 1.0)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Estimate the probability that at least one of k samples is right, from n samples of which `correct` are right.

    Unbiased: 1 - C(n - correct, k) / C(n, k) for one problem. Average it over problems.

    Source: Chen et al. (2021), Evaluating Large Language Models Trained on Code, equation 1.

    Raises:
        ValueError: `correct` outside [0, n], or k outside [1, n].
    """
    _check_count(correct, n)
    if not 1 <= k <= n:
        raise ValueError(f"expected k from 1 to the {n} samples there are, got {k!r}")
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def mean_pass_at_k(
    counts: Sequence[tuple[int, int]], k: int, *, method: str = DEFAULT_INTERVAL, confidence: float = 0.95
) -> Estimate:
    """Return the mean of `pass_at_k` over problems, each given as (samples, correct).

    See `mean_of_problems` for the interval.

    Raises:
        ValueError: as `mean_of_problems` and `pass_at_k`.
    """
    values = [pass_at_k(n, correct, k) for n, correct in counts]
    return mean_of_problems(values, method=method, confidence=confidence)


def mean_of_problems(values: Sequence[float], *, method: str = DEFAULT_INTERVAL, confidence: float = 0.95) -> Estimate:
    """Return the mean over problems of a value in [0, 1].

    The interval is that of a share with one trial per problem, however many samples each value averages. It is
    conservative: values between 0 and 1 vary at most as much as zeros and ones with the same mean.

    Raises:
        ValueError: no problem, a confidence outside (0, 1), or an unknown method.
    """
    if not values:
        raise ValueError("expected at least one problem, got none")
    value = math.fsum(values) / len(values)
    low, high = _limits(method)(value, len(values), confidence)
    return Estimate(value, low, high)


def clustered_mean(clusters: Sequence[Sequence[float]], *, confidence: float = 0.95) -> Estimate:
    """Return the mean of all values with a cluster-robust normal interval.

    Values within a cluster (a problem) may be correlated. With a single cluster the interval is infinite. See
    `clustered_standard_error`.

    Raises:
        ValueError: no values, or a confidence outside (0, 1).
    """
    values = [value for cluster in clusters for value in cluster]
    if not values:
        raise ValueError("expected at least one value, got none")
    z, value = _normal_quantile(confidence), math.fsum(values) / len(values)
    if len(clusters) < 2:
        return Estimate(value, -math.inf, math.inf)
    reach = z * clustered_standard_error(values, [place for place, each in enumerate(clusters) for _ in each])
    return Estimate(value, value - reach, value + reach)


def clustered_standard_error(values: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Return the cluster-robust standard error of the mean of `values`; a cluster is one problem's rollouts.

    Values within a cluster may be correlated. The standard error is sqrt(G / (G - 1) * sum over clusters of (sum of the
    cluster's residuals)^2) / n, for G clusters. With one value per cluster it is the standard deviation over root n.

    Source: Liang and Zeger (1986), Biometrika 73; Miller (2024), Adding Error Bars to Evals, which omits the factor for
    few clusters.

    Raises:
        ValueError: a number of clusters other than that of values, or fewer than two distinct clusters.
    """
    if len(values) != len(clusters):
        raise ValueError(f"expected one cluster for each of {len(values)} values, got {len(clusters)}")
    mean = math.fsum(values) / len(values) if values else 0.0
    residuals: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        residuals.setdefault(cluster, []).append(value - mean)
    count = len(residuals)
    if count < 2:
        raise ValueError(f"expected at least two clusters, got {count}")
    spread = math.fsum(math.fsum(cluster) ** 2 for cluster in residuals.values())
    return math.sqrt(count / (count - 1) * spread) / len(values)


def mcnemar(gained: int, lost: int) -> float:
    """Return the two-sided exact McNemar p value for two policies on the same problems.

    `gained` problems were solved only by the second policy, `lost` only by the first. Concordant problems carry no
    information about the difference. Under the null hypothesis a discordant problem is equally likely gained or lost: p
    is twice the smaller binomial tail, at most 1.

    Source: McNemar (1947), Psychometrika 12, in its exact binomial form.

    Raises:
        ValueError: a negative count.
    """
    if gained < 0 or lost < 0:
        raise ValueError(f"expected counts from 0, got gained {gained!r} and lost {lost!r}")
    changed = gained + lost
    tail = term = 1
    for i in range(min(gained, lost)):
        term = term * (changed - i) // (i + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << changed))


def paired_difference(changes: Iterable[tuple[int, int, int]], *, confidence: float = 0.95) -> Estimate:
    """Return the difference of two policies' means of tiers, second minus first, both measured on the same problems.

    Each of `changes` describes one tier: the number of problems solved only by the second policy, the number solved
    only by the first, and the total. The interval is Bonett and Price's adjusted Wald interval, cut to [-1, 1]: add z^2
    / 4 to both counts and z^2 / 2 to the problems (the paper rounds these to 1 and 2), divided equally among the tiers.
    Its width stays positive if nothing changed. For one tier it is the paper's own.

    Source: Bonett and Price (2012), Journal of Educational and Behavioral Statistics 37:479.

    Raises:
        ValueError: no tier, a tier without problems, or more changes than problems.
    """
    tiers = tuple(changes)
    if not tiers:
        raise ValueError("expected at least one tier, got none")
    z = _normal_quantile(confidence)
    more = z * z / (4 * len(tiers))
    middle = variance = value = 0.0
    for gained, lost, n in tiers:
        _check_count(gained + lost, n)
        if min(gained, lost) < 0 or not n:
            raise ValueError(f"expected counts from 0 and problems from 1, got {gained!r}, {lost!r} and {n!r}")
        up, down, size = gained + more, lost + more, n + 2 * more
        middle += (up - down) / size
        variance += ((up + down) / size - ((up - down) / size) ** 2) / size
        value += (gained - lost) / n
    count = len(tiers)
    middle, reach, value = middle / count, z * math.sqrt(variance) / count, value / count
    return Estimate(value, max(-1.0, middle - reach), min(1.0, middle + reach))


def stratified_bootstrap(
    strata: Sequence[Sequence[float]], generator: Generator, *, repetitions: int = 10_000, confidence: float = 0.95
) -> Estimate:
    """Return the unweighted mean of the strata's means with a percentile bootstrap interval.

    Values are resampled with replacement within each stratum. Dependent values (one problem's answers under several
    seeds) must be given as one value, their mean. If all values of each stratum are equal, the interval has zero width.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapters 8 and 13.

    Raises:
        ValueError: no stratum, or a stratum without values.
    """
    import numpy as np  # Slow to import, and not needed by `import gce`.

    if not strata or not all(len(values) for values in strata):
        raise ValueError("expected strata with at least one value each")
    _normal_quantile(confidence)
    means = np.zeros(repetitions)
    for values in strata:
        array = np.asarray(values, float)
        means += array[generator.integers(0, len(array), (repetitions, len(array)))].mean(axis=1) / len(strata)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    value = math.fsum(math.fsum(values) / len(values) for values in strata) / len(strata)
    return Estimate(value, low, high)


def sign_flip_test(
    strata: Sequence[Sequence[float]], generator: Generator, *, repetitions: int = 10_000, confidence: float = 0.95
) -> tuple[Estimate, float]:
    """Return the unweighted mean of the strata's means, and the two-sided p value of a sign-flip test that it is 0.

    Values are independent paired differences, grouped as in `stratified_bootstrap`. Under the null hypothesis a
    difference and its opposite are equally likely; p is the share of sign flips whose mean is at least as far from 0.
    All flips are tried where that takes no more than `repetitions`, so that p is exact; otherwise so many random ones,
    and the values as they are: p is at least 1 / (repetitions + 1).

    The interval holds every d for which the test of the values less d gives p >= 1 - `confidence`, so that it leaves
    out 0 exactly where p is smaller. Its limits are means of subsets of the values, weighted by stratum. Below six
    values, where no p is under 0.05, it is infinite at 95 %. It assumes that differences are symmetric about one gain;
    where gains of strata differ, it is too wide rather than too narrow.

    Source: Fisher (1935), The Design of Experiments, section 21; Phipson and Smyth (2010) for random permutations;
    Hartigan (1969), JASA 64:1303, for the subset means.

    Raises:
        ValueError: no stratum, or a stratum without values.
    """
    import numpy as np  # Slow to import, and not needed by `import gce`.

    if not strata or not all(len(values) for values in strata):
        raise ValueError("expected strata with at least one value each")
    _normal_quantile(confidence)
    weights = np.concatenate([np.full(len(values), 1 / len(values) / len(strata)) for values in strata])
    values = np.concatenate([np.asarray(values, float) for values in strata])
    total, size = float(weights @ values), len(values)
    exact = 2**size <= repetitions
    count = 2**size if exact else repetitions + 1
    lows, highs = np.empty(count), np.empty(count)
    for start in range(0, count, rows := 1 + _SIGNS_AT_ONCE // size):
        numbers = np.arange(start, min(start + rows, count))
        if exact:
            flipped = (numbers[:, None] >> np.arange(size) & 1).astype(bool)
        else:
            flipped = generator.integers(0, 2, (len(numbers), size), dtype=np.int8).astype(bool)
            flipped[numbers == 0] = False
        # A flip's mean is as far off as the values' own while d is between the means of the flipped and of the others.
        of_flipped, flipped_weight = flipped @ (weights * values), flipped @ weights
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = of_flipped / flipped_weight, (total - of_flipped) / (1 - flipped_weight)
        every = flipped.all(axis=1) | ~flipped.any(axis=1)
        lows[numbers] = np.where(every, -math.inf, np.minimum(one, other))
        highs[numbers] = np.where(every, math.inf, np.maximum(one, other))
    # Sums taken in another order may differ in their last bits.
    near = 1e-9 * float(np.abs(values).max())
    lows[np.abs(lows) <= near], highs[np.abs(highs) <= near] = 0.0, 0.0
    p = float(np.mean((lows <= 0.0) & (highs >= 0.0)))
    kept = max(1, math.ceil((1 - confidence) * count - 1e-9))
    value = math.fsum(math.fsum(each) / len(each) for each in strata) / len(strata)
    return Estimate(value, float(np.sort(lows)[kept - 1]), float(np.sort(highs)[-kept])), p


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm-adjusted p values, in the given order; compare each with the significance level itself.

    Step-down: the i-th smallest of m is multiplied by m - i + 1, is at least the adjusted value before it and at most
    1. Controls the family-wise error rate under any dependence.

    Source: Holm (1979), Scandinavian Journal of Statistics 6.

    Raises:
        ValueError: a p value outside [0, 1].
    """
    for p in p_values:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"expected p values in [0, 1], got {p!r}")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def _limits(method: str) -> Callable[[float, int, float], tuple[float, float]]:
    if method not in INTERVALS:
        raise ValueError(f"expected one of {', '.join(INTERVALS)}, got {method!r}")
    return INTERVALS[method]


def _score_interval(share: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the limits of the Wilson score interval; see `wilson`."""
    z = _normal_quantile(confidence)
    centre = share + z * z / (2 * n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At the ends the formula gives 0 and 1 only up to rounding; the interval must contain the share itself.
    return 0.0 if share == 0.0 else (centre - reach) / scale, 1.0 if share == 1.0 else (centre + reach) / scale


def _exact_interval(share: float, n: int, confidence: float) -> tuple[float, float]:
    """Return the limits of the Clopper-Pearson interval, whose coverage is at least nominal at every share.

    A count that is not an integer takes the lower limit of the integer below and the upper limit of the one above.

    Source: Clopper and Pearson (1934), Biometrika 26:404.
    """
    _normal_quantile(confidence)
    tail = (1 - confidence) / 2
    least, most = math.floor(share * n + 1e-9), math.ceil(share * n - 1e-9)
    return _least_share(least, n, tail), 1.0 - _least_share(n - most, n, tail)


def _least_share(count: int, n: int, tail: float) -> float:
    """Return the share at which at least `count` of n trials are right with probability `tail`.

    This is a quantile of Beta(count, ...), found by bisection to the last bit of a float.
    """
    import numpy as np  # Slow to import, and not needed by `import gce`.

    if not count:
        return 0.0
    # Logarithms of the binomial coefficients of n over k, for k from n down to `count`.
    right = np.arange(n, count - 1, -1.0)
    ways = np.concatenate([[0.0], np.cumsum(np.log(right[:-1] / np.arange(1.0, n - count + 1)))])
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        chance = np.exp(ways + right * math.log(middle) + (n - right) * math.log1p(-middle)).sum()
        low, high = (low, middle) if chance > tail else (middle, high)
    return low


INTERVALS: Mapping[str, Callable[[float, int, float], tuple[float, float]]] = {
    "wilson": _score_interval,
    "clopper-pearson": _exact_interval,
}
"""Functions (share, n, confidence) -> (low, high)."""


def _linear(
    shares: Sequence[Interval | MeanReward],
    coefficients: Sequence[float],
    confidence: float,
    least: float,
    most: float,
) -> Estimate:
    """Return Price and Bonett's interval of a weighted sum of independent shares, cut to [least, most]."""
    _check_measured(shares)
    z = _normal_quantile(confidence)
    more = z * z / len(shares)
    centre, variance, value = [], [], []
    for share, coefficient in zip(shares, coefficients, strict=True):
        total = share.correct if isinstance(share, Interval) else share.total
        adjusted = (total + more / 2) / (share.n + more)
        centre.append(coefficient * adjusted)
        variance.append(coefficient**2 * adjusted * (1 - adjusted) / (share.n + more))
        value.append(coefficient * (total / share.n))
    middle, reach = math.fsum(centre), z * math.sqrt(math.fsum(variance))
    return Estimate(value=math.fsum(value), low=max(least, middle - reach), high=min(most, middle + reach))


def _check_measured(shares: Iterable[Interval | MeanReward]) -> None:
    if any(share.n == 0 for share in shares):
        raise ValueError("expected measured shares, got one with n = 0")


def _normal_quantile(confidence: float) -> float:
    from statistics import NormalDist  # Slow to import, and not needed by `import gce`.

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"expected a confidence in (0, 1), got {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _check_count(correct: int, n: int) -> None:
    if not 0 <= correct <= n:
        raise ValueError(f"expected correct from 0 to n = {n!r}, got {correct!r}")
