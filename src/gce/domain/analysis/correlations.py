"""Rank correlation of two measures over a few units, such as the setups of an experiment."""

from __future__ import annotations

import math
from itertools import permutations
from statistics import NormalDist

import numpy as np
from attrs import frozen

from gce.domain.metrics.beliefs.clustering import Numbers
from gce.domain.metrics.beliefs.judge_agreement import ranks
from gce.domain.randomness import generator

__all__ = ["LEAST_UNITS", "Correlation", "rank_correlation"]

LEAST_UNITS = 4
"""With fewer, no interval is defined and no permutation test can reject."""
_ALL_UP_TO = 7
"""Units whose 5,040 orders are all tried; of more, as many as the next constant are drawn."""
_DRAWN = 10_000


@frozen
class Correlation:
    """Spearman's rank correlation."""

    value: float
    """In [-1, 1]."""
    low: float
    high: float
    p: float
    """Two-sided p value of the permutation test that neither measure tells anything about the other."""
    n: int
    """Units."""


def rank_correlation(x: Numbers, y: Numbers, *, confidence: float = 0.95) -> Correlation | None:
    """Return the rank correlation of two measures of the same independent units.

    The interval is Fisher's z with variance (1 + r^2 / 2) / (n - 3). A perfect order would have an interval of no
    width; its inner limit is that of the largest correlation below 1. The p value is exact up to 7 units; of 4 units,
    a perfect order has p = 2 / 24. None with fewer than 4 units, or where a measure is constant.

    Source: Spearman (1904), American Journal of Psychology 15; Bonett and Wright (2000), Psychometrika 65.

    Raises:
        ValueError: measures of different lengths, a number that is not finite, or a confidence outside (0, 1).
    """
    one, other = np.asarray(x, float), np.asarray(y, float)
    if one.shape != other.shape or one.ndim != 1 or not np.isfinite([one, other]).all():
        raise ValueError(f"expected two columns of finite numbers, got shapes {one.shape} and {other.shape}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"expected a confidence in (0, 1), got {confidence!r}")
    n = one.size
    if n < LEAST_UNITS or np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    first, second = (ranks(each) - (n + 1) / 2 for each in (one, other))
    scale = math.sqrt(float(first @ first) * float(second @ second))
    value = max(-1.0, min(1.0, float(first @ second) / scale))
    if n <= _ALL_UP_TO:
        orders = second[np.array(list(permutations(range(n))))]
        as_far = np.abs(orders @ first) >= abs(value) * scale * (1 - 1e-9)
        p = float(as_far.mean())
    else:
        orders = generator(0, "rank correlation").permuted(np.tile(second, (_DRAWN, 1)), axis=1)
        as_far = np.abs(orders @ first) >= abs(value) * scale * (1 - 1e-9)
        p = (1 + int(as_far.sum())) / (1 + _DRAWN)
    most = 1 - 12 / (n * (n * n - 1))
    centre = math.atanh(max(-most, min(most, value)))
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt((1 + value * value / 2) / (n - 3))
    return Correlation(value, min(value, math.tanh(centre - reach)), max(value, math.tanh(centre + reach)), p, n)
