"""Paired comparisons: differences of two policies on the same problems, for shares and for graded rewards.

Knows neither where the values came from nor how they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from gce.domain.randomness import generator
from gce.domain.statistics import (
    Estimate,
    holm,
    mcnemar,
    paired_difference,
    sign_flip_test,
)

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["Gain", "Pair", "hierarchical_bootstrap", "means_of_tiers", "paired_gain", "paired_gains"]

Pair = tuple[str, float, float]
"""The tier of a problem, and its value under the first and under the second policy."""


def means_of_tiers(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the unweighted means over tiers of their mean values, under the first and under the second policy.

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("expected at least one pair, got none")
    tiers: dict[str, list[Pair]] = {}
    for pair in pairs:
        tiers.setdefault(pair[0], []).append(pair)
    first = fmean(fmean(before for _, before, _ in tier) for tier in tiers.values())
    return first, fmean(fmean(after for _, _, after in tier) for tier in tiers.values())


@frozen
class Gain:
    """The difference of two policies on the same problems, second minus first."""

    mean: Estimate
    """Mean of the tiers' differences."""
    gained: int
    """Number of problems that only the second policy solves, or on which it has the larger value."""
    lost: int
    p: float
    """Two-sided p value: exact McNemar test for shares, sign-flip test for other values."""
    adjusted: float = 1.0
    """Holm-adjusted p value over all rows that were compared with the same one."""


def paired_gain(pairs: Sequence[Pair]) -> Gain:
    """Compare two policies on one value per problem; `adjusted` is p, as for a single comparison.

    If all values are 0 or 1, the interval is that of `paired_difference` and the test McNemar's. Otherwise, as for
    graded rewards, the test is a sign-flip test with fixed random numbers, and the interval its inversion: it excludes
    0 exactly if p < 0.05. Fewer than six problems in [0, 1] cannot tell, so the interval is [-1, 1].

    Raises:
        ValueError: no pairs.
    """
    differences: dict[str, list[float]] = {}
    for tier, before, after in pairs:
        differences.setdefault(tier, []).append(after - before)
    strata = list(differences.values())
    gained, lost = (sum(sign * each > 0 for tier in strata for each in tier) for sign in (1, -1))
    values = {number for _, *numbers in pairs for number in numbers}
    if values <= {0.0, 1.0}:
        mean = paired_difference([(tier.count(1.0), tier.count(-1.0), len(tier)) for tier in strata])
        p = mcnemar(gained, lost)
    else:
        mean, p = sign_flip_test(strata, generator(0, "gain, p"))
        if min(values) >= 0.0 and max(values) <= 1.0:
            mean = evolve(mean, low=max(-1.0, mean.low), high=min(1.0, mean.high))
    return Gain(mean, gained, lost, p, p)


def paired_gains(compared: Mapping[str, Sequence[Pair]]) -> dict[str, Gain]:
    """Compare several policies with the same first one, with Holm's correction over all of them.

    Raises:
        ValueError: a policy without pairs.
    """
    gains = {name: paired_gain(pairs) for name, pairs in compared.items()}
    adjusted = holm([gain.p for gain in gains.values()])
    return {name: evolve(gain, adjusted=p) for (name, gain), p in zip(gains.items(), adjusted, strict=True)}


def hierarchical_bootstrap(
    tiers: Sequence[Sequence[Sequence[float]]],
    generator: Generator,
    *,
    repetitions: int = 10_000,
    confidence: float = 0.95,
) -> Estimate:
    """Return the mean over tiers, seeds and problems, with a percentile interval that generalises to other seeds.

    Each of `tiers` holds for each seed, in the same order, one value per problem, the same problems in the same order.
    A repetition draws seeds with replacement, then problems within each tier; all seeds answer the same problems, so
    they share the draw of problems.

    With few seeds that differ much the interval is too narrow: of S seeds, the variance between seeds is underestimated
    by the factor (S - 1) / S, and its uncertainty is ignored. Where seeds differ little it is too wide: noise that is
    particular to a seed and a problem counts up to three times. docs/explanation/statistics.md has measured coverage.

    Source: Davison and Hinkley (1997), Bootstrap Methods and Their Application, section 3.8; Owen (2007), The
    pigeonhole bootstrap, Annals of Applied Statistics 1, for crossed factors.

    Raises:
        ValueError: no tier, a tier without problems, fewer than two seeds, or seeds of different sizes.
    """
    import numpy as np  # Slow to import, and not needed by `import gce`.

    if not tiers or any(len(tier) != len(tiers[0]) or len({len(seed) for seed in tier}) != 1 for tier in tiers):
        raise ValueError("expected tiers with as many seeds, and as many problems under each seed")
    if len(tiers[0]) < 2 or not all(len(tier[0]) for tier in tiers):
        raise ValueError(f"expected at least two seeds and one problem, got {len(tiers[0])} seeds")
    seeds = len(tiers[0])
    drawn = generator.integers(0, seeds, (repetitions, seeds))
    means, value = np.zeros(repetitions), 0.0
    for tier in tiers:
        values = np.asarray(tier, float)
        n = values.shape[1]
        problems = generator.integers(0, n, (repetitions, n)) + n * np.arange(repetitions)[:, None]
        often = np.bincount(problems.ravel(), minlength=repetitions * n).reshape(repetitions, n)
        by_seed = often @ values.T / n
        means += np.take_along_axis(by_seed, drawn, axis=1).mean(axis=1) / len(tiers)
        value += float(values.mean()) / len(tiers)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
    return Estimate(value, low, high)
