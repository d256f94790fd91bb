"""The calibration curve of beliefs, and what the Brier score is made of: reliability, resolution and uncertainty."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from gce.domain.metrics.beliefs.clustering import Clustered, Floats, Numbers, aligned, jackknife, probabilities

__all__ = ["BINS", "Calibration", "calibration", "reliability", "resolution"]

BINS = 10


@frozen
class Calibration:
    """The calibration curve in bins of equal width; empty bins are left out.

    Brier score = reliability - resolution + uncertainty + within_bins, exactly.
    """

    belief: tuple[float, ...]
    """Mean belief of each bin: the curve's x."""
    frequency: tuple[float, ...]
    """Share of each bin's claims that held: the curve's y."""
    counts: tuple[int, ...]
    reliability: float
    """Mean squared distance between belief and frequency, over answers; 0 is calibrated. Biased upward."""
    resolution: float
    """Variance of the frequency between bins; higher is better. Biased upward."""
    uncertainty: float
    """Variance of the outcome, a property of the problems."""
    within_bins: float
    """What beliefs that differ within a bin add; 0 if each bin holds one value."""


def calibration(belief: Numbers, outcome: Numbers, *, bins: int = BINS) -> Calibration | None:
    """Return the calibration curve with its decomposition; None without readable beliefs.

    Bins have equal width; a belief of 1 is in the last one. Unreadable beliefs are left out.

    Traps: reliability is biased upward by about bins / n times p(1 - p), and so is resolution: use the debiased
    `reliability` and `resolution` to compare; saying the base rate every time has reliability 0, so calibration alone
    is no sign of knowledge; the picture depends on the bins.

    Source: Murphy (1973), Journal of Applied Meteorology 12; Stephenson, Coelho and Jolliffe (2008), Weather and
    Forecasting 23, for the terms within bins.
    """
    _, (beliefs, outcomes) = aligned(*probabilities(belief, outcome), problem=np.arange(np.size(np.asarray(belief))))
    if not beliefs.size:
        return None
    of = _bins(beliefs, bins)
    counts = np.bincount(of, minlength=bins)
    full = counts > 0
    stated, held = (np.bincount(of, weights=each, minlength=bins)[full] / counts[full] for each in (beliefs, outcomes))
    base, weight = outcomes.mean(), counts[full] / beliefs.size
    reliable, resolved = float(weight @ (stated - held) ** 2), float(weight @ (held - base) ** 2)
    uncertain = float(base * (1 - base))
    within = float(((beliefs - outcomes) ** 2).mean()) - reliable + resolved - uncertain
    sizes = tuple(int(each) for each in counts[full])
    return Calibration(tuple(stated), tuple(held), sizes, reliable, resolved, uncertain, within)


def reliability(belief: Numbers, outcome: Numbers, *, problem: Numbers, bins: int = BINS) -> Clustered | None:
    """Return the debiased reliability: 0 in expectation for a calibrated model, and possibly below 0.

    Of each bin's squared gap between mean belief and frequency, the variance that chance alone gives is subtracted.
    Bins with a single answer contribute nothing. The standard error is a jackknife over problems, and at least what
    chance alone gives a calibrated model: near a gap of 0 the jackknife's is close to 0, however few the answers.

    Traps: blind to a model that knows nothing but the base rate; answers to one problem must not be so many that
    outcomes in a bin depend on each other, because the subtracted variance takes them as independent.

    Source: Broecker (2012), Climate Dynamics 39; Ferro and Fricker (2012), QJRMS 138.
    """
    clusters, (beliefs, outcomes) = aligned(*probabilities(belief, outcome), problem=problem)
    sums = _sums(beliefs, outcomes - beliefs, bins)
    return _at_least(jackknife(_reliability, sums, clusters), (_variances(sums) ** 2).sum())


def resolution(belief: Numbers, outcome: Numbers, *, problem: Numbers, bins: int = BINS) -> Clustered | None:
    """Return the debiased resolution, how far frequencies differ between bins; 0 for a constant belief.

    Traps: a model that states the opposite of the truth has the same resolution as one that states the truth; see
    `reliability` for the bias and the source.
    """
    clusters, (beliefs, outcomes) = aligned(*probabilities(belief, outcome), problem=problem)
    sums = _sums(beliefs, outcomes, bins)
    between = (_variances(sums) ** 2).sum() - (outcomes.var(ddof=1) ** 2 if len(outcomes) > 1 else 0.0)
    return _at_least(jackknife(_resolution, sums, clusters), max(between, 0.0))


def _sums(beliefs: Floats, values: Floats, bins: int) -> Floats:
    """Each row's contribution to count, sum and sum of squares of the values in its bin, (n, 3 bins)."""
    where = np.eye(bins)[_bins(beliefs, bins)]
    return np.concatenate([where, where * values[:, None], where * (values**2)[:, None]], axis=1)


def _reliability(sums: Floats) -> Floats:
    """From count, sum and sum of squares of y - b in each bin, (..., 3 bins): the debiased mean of squared gaps."""
    count, total, squares = np.split(sums, 3, axis=-1)
    return np.asarray(_squared_means(count, total, squares).sum(axis=-1) / count.sum(axis=-1))


def _resolution(sums: Floats) -> Floats:
    """From count, sum and sum of squares of y in each bin: debiased sum of squares between bins, by row."""
    count, total, squares = np.split(sums, 3, axis=-1)
    n = count.sum(axis=-1)
    whole = _squared_means(n, total.sum(axis=-1), squares.sum(axis=-1))
    return np.asarray((_squared_means(count, total, squares).sum(axis=-1) - whole) / n)


def _at_least(found: Clustered | None, squares: float) -> Clustered | None:
    """With a standard error of at least sqrt(2 squares) / n.

    Where a bin's true mean is 0, count * mean^2 is its variance times a chi-squared of one degree: variance 2 s^4.
    """
    if found is None:
        return None
    return evolve(found, standard_error=max(found.standard_error, math.sqrt(2 * squares) / found.n))


def _variances(sums: Floats) -> Floats:
    """Unbiased variance of each bin from the rows' sums, (bins,): 0 for fewer than two rows."""
    count, total, squares = np.split(sums.sum(axis=0), 3)
    several = count > 1.5
    safe = np.where(several, count, 2.0)
    return np.where(several, (squares - total**2 / safe) / (safe - 1), 0.0)


def _squared_means(count: Floats, total: Floats, squares: Floats) -> Floats:
    """Return count * mean^2 without its upward bias, the variance of the mean: 0 for fewer than two rows."""
    several = count > 1.5
    safe = np.where(several, count, 2.0)
    spread = (squares - total**2 / safe) / (safe - 1)
    return np.where(several, total**2 / safe - spread, 0.0)


def _bins(beliefs: Floats, bins: int) -> npt.NDArray[np.intp]:
    return np.minimum((beliefs * bins).astype(np.intp), bins - 1)
