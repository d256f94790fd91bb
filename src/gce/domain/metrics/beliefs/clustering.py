"""Means, slopes and jackknives over answers to several problems, with standard errors clustered by problem.

Answers to one problem may be correlated; problems are independent. A cluster is named by any integer. All functions are
vectorized and leave out rows with a NaN, which stands for a belief that could not be read. Knows nothing of beliefs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from attrs import frozen

from gce.domain.statistics import Estimate

__all__ = [
    "Clustered",
    "Floats",
    "Numbers",
    "aligned",
    "instrumented_slope",
    "jackknife",
    "mean",
    "probabilities",
    "slope",
]

Floats: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.ArrayLike
"""Anything that numpy reads as an array of numbers, (n,) unless a docstring says otherwise."""

WEAK = 10.0
"""Least first-stage F of an instrument: Staiger and Stock (1997), Econometrica 65."""
GROUPS = 100
"""Most groups of a delete-a-group jackknife."""


@frozen
class Clustered:
    """A statistic with its standard error, clustered by problem."""

    value: float
    standard_error: float
    """Infinite with fewer than two clusters."""
    n: int
    """Rows."""
    clusters: int
    """Problems."""

    @property
    def p(self) -> float:
        """Two-sided p value of the normal test that the statistic is 0; 1 if it is 0 without an error."""
        if not self.standard_error:
            return 1.0 if not self.value else 0.0
        return math.erfc(abs(self.value) / self.standard_error / math.sqrt(2))

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """The normal interval; not cut to the statistic's range.

        Raises:
            ValueError: a confidence outside (0, 1).
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"expected a confidence in (0, 1), got {confidence!r}")
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.standard_error
        return Estimate(self.value, self.value - reach, self.value + reach)


def aligned(*columns: Numbers, problem: Numbers) -> tuple[npt.NDArray[np.intp], tuple[Floats, ...]]:
    """Return the rows without a NaN: cluster numbers from 0, and the columns.

    Raises:
        ValueError: columns of different lengths, or an infinite number.
    """
    named = np.asarray(problem)
    arrays = [np.asarray(column, float) for column in columns]
    shapes = {named.shape, *(array.shape for array in arrays)}
    if len(shapes) > 1 or named.ndim != 1:
        raise ValueError(f"expected columns of one length, and a problem for each row, got shapes {sorted(shapes)}")
    if any(np.isinf(array).any() for array in arrays):
        raise ValueError("expected finite numbers, or NaN where there is none, got an infinite one")
    kept = ~np.isnan(np.array(arrays)).any(axis=0)
    clusters = np.unique(named[kept], return_inverse=True)[1]
    return clusters, tuple(array[kept] for array in arrays)


def probabilities(*columns: Numbers) -> tuple[Floats, ...]:
    """Return the columns as arrays.

    Raises:
        ValueError: a number outside [0, 1]; NaN is allowed.
    """
    arrays = tuple(np.asarray(column, float) for column in columns)
    for array in arrays:
        outside = array[(array < 0.0) | (array > 1.0)]
        if outside.size:
            raise ValueError(f"expected probabilities in [0, 1], or NaN for unreadable ones, got {float(outside[0])!r}")
    return arrays


def mean(values: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean of the values; None without values.

    The standard error is that of `gce.domain.statistics.clustered_standard_error`.
    """
    clusters, (found,) = aligned(values, problem=problem)
    if not found.size:
        return None
    value = float(found.mean())
    return Clustered(value, _error(found - value, clusters) / found.size, found.size, _count(clusters))


def slope(x: Numbers, y: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the least-squares slope of y on x, with intercept; None if x does not vary.

    The standard error is the cluster-robust sandwich (CR1), which allows for unequal variances too.

    Source: Liang and Zeger (1986), Biometrika 73; Cameron and Miller (2015), Journal of Human Resources 50.
    """
    clusters, (across, up) = aligned(x, y, problem=problem)
    return _sloped(across, up, across, clusters)


def instrumented_slope(x: Numbers, y: Numbers, instrument: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the slope of y on x with x instrumented: cov(instrument, y) / cov(instrument, x).

    Errors of measurement in x bias `slope` toward 0, or, where y contains -x, toward -1. An instrument that is
    correlated with x, but not with that error, removes the bias. None if x or the instrument does not vary, or if the
    first stage's F is below 10: with a weak instrument neither the estimate nor its standard error means anything.

    Source: Wooldridge (2010), Econometric Analysis of Cross Section and Panel Data, chapter 5.
    """
    clusters, (across, up, pulls) = aligned(x, y, instrument, problem=problem)
    first = _sloped(pulls, across, pulls, clusters)
    if first is None or not abs(first.value) >= math.sqrt(WEAK) * first.standard_error:
        return None
    return _sloped(across, up, pulls, clusters)


def jackknife(
    statistic: Callable[[Floats], Floats], sums: Floats, problem: Numbers, *, groups: int = GROUPS
) -> Clustered | None:
    """Return a statistic of column sums, with the delete-a-group jackknife standard error.

    `statistic` maps sums (..., k) to values (...,); `sums` holds each row's contribution, (n, k). Problems are dealt
    to at most `groups` groups in turn. Where the statistic is quadratic in deviations that are 0 in truth, as
    reliability is for a calibrated model, it is too large on average and too small where the sums are near their mean.

    Source: Kott (2001), Journal of Official Statistics 17; Efron and Stein (1981), Annals of Statistics 9.
    """
    clusters = np.unique(np.asarray(problem), return_inverse=True)[1]
    if not clusters.size:
        return None
    count = _count(clusters)
    used = min(groups, count)
    parts = np.stack([np.bincount(clusters % used, weights=column, minlength=used) for column in sums.T], axis=1)
    total = parts.sum(axis=0)
    value = float(statistic(total))
    error = math.inf
    if count > 1:
        left_out = statistic(total - parts)
        error = math.sqrt((used - 1) / used * float(((left_out - left_out.mean()) ** 2).sum()))
    return Clustered(value, error, len(clusters), count)


def _sloped(x: Floats, y: Floats, instrument: Floats, clusters: npt.NDArray[np.intp]) -> Clustered | None:
    if x.size < 3 or not _varies(x) or not _varies(instrument):
        return None
    pull = instrument - instrument.mean()
    shared = float(pull @ x)
    if not shared:
        return None
    value = float(pull @ y) / shared
    residuals = y - y.mean() - value * (x - x.mean())
    factor = math.sqrt((x.size - 1) / (x.size - 2))
    return Clustered(value, factor * _error(pull * residuals, clusters) / abs(shared), x.size, _count(clusters))


def _varies(values: Floats) -> bool:
    """Whether values differ by more than rounding."""
    return float(np.ptp(values)) > 1e-12


def _error(residuals: Floats, clusters: npt.NDArray[np.intp]) -> float:
    """Standard error of the sum of residuals whose mean is 0."""
    count = _count(clusters)
    if count < 2:
        return math.inf
    sums = np.bincount(clusters, weights=residuals)
    return math.sqrt(count / (count - 1) * float(sums @ sums))


def _count(clusters: npt.NDArray[np.intp]) -> int:
    return int(clusters.max()) + 1
