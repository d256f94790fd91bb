"""Change of beliefs with evidence: the martingale slopes, drift, information gain and the share that did not move.

Before the evidence a Bayesian's expected belief after it is the belief that he has: beliefs form a martingale. A row is
a pair of beliefs, before and after; it is a whole trajectory or one of its steps, as `steps` makes them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gce.domain.metrics.beliefs.clustering import (
    Clustered,
    Floats,
    Numbers,
    instrumented_slope,
    mean,
    probabilities,
    slope,
)
from gce.domain.metrics.beliefs.scores import brier_losses

__all__ = [
    "drift",
    "information_gain",
    "martingale_slope",
    "martingale_slope_iv",
    "share_unmoved",
    "steps",
]


def steps(paths: Numbers, *, problem: Numbers) -> tuple[Floats, Floats, npt.NDArray[np.int_]]:
    """Return (before, after, problem) of every step of belief paths (n, T + 1); path i belongs to problem[i].

    Steps of one problem stay one cluster, which is what keeps the standard errors of pooled steps honest.

    Raises:
        ValueError: paths that are not two-dimensional, or of a single belief.
    """
    (beliefs,) = probabilities(paths)
    if beliefs.ndim != 2 or beliefs.shape[1] < 2:
        raise ValueError(f"expected paths of shape (n, T + 1) with at least two beliefs, got shape {beliefs.shape}")
    named = np.repeat(np.asarray(problem), beliefs.shape[1] - 1)
    return beliefs[:, :-1].ravel(), beliefs[:, 1:].ravel(), named


def martingale_slope(before: Numbers, after: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return M, the slope of (after - before) on before, pooled over problems, in about [-1, 1].

    0 for a calibrated Bayesian; above 0 for entrenchment, as beliefs move further in the direction that they lean to;
    below 0 for reversion. None if the belief before the evidence does not vary, as for always saying 0.5.

    Traps: noise e in reading the belief before the evidence pulls M to -var(e) / (var(b) + var(e)), see
    `martingale_slope_iv`; an agent that never updates has M = 0, see `information_gain` and `share_unmoved`; M = 0 is
    guaranteed only where the prior is calibrated to the problems' generator, and a miscalibrated prior gives a slope
    without entrenchment; slopes within one trajectory are badly biased, which is why rows are pooled over problems.

    Source: He et al. (2025), Martingale Score, arXiv 2512.02914.
    """
    start, end = probabilities(before, after)
    return slope(start, end - start, problem=problem)


def martingale_slope_iv(before: Numbers, after: Numbers, again: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return M_IV: M with the belief before the evidence instrumented by `again`, a second independent reading of it.

    Not affected by noise whose mean is 0 given the true belief. None also if `again` is too weak an instrument.

    Traps: the second reading must be a draw of its own: greedy decoding repeats the first one, noise and all, and then
    M_IV is M; noise that is symmetric in log-odds does not have mean 0 in probability, and biases M_IV slightly.

    Source: as `martingale_slope`; Wooldridge (2010), chapter 5, for multiple indicators of one variable.
    """
    start, end, second = probabilities(before, after, again)
    return instrumented_slope(start, end - start, second, problem=problem)


def drift(before: Numbers, after: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean of (after - before), in [-1, 1]; 0 for a calibrated Bayesian.

    It sees what M cannot where the belief before the evidence is constant, as that of an agent who neglects the base
    rate is. Trap: errors in both directions cancel, so ask about claims whose base rate is not 0.5.

    Source: the martingale property, as `martingale_slope`.
    """
    start, end = probabilities(before, after)
    return mean(end - start, problem=problem)


def information_gain(before: Numbers, after: Numbers, outcome: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean Brier score before the evidence less that after it, in [-1, 1]; higher is better.

    For a Bayesian it is the variance that the evidence resolves, E(b_after - b_before)^2; 0 for one who never updates.

    Trap: a poor prior leaves more to gain, so that an agent who neglects the base rate can gain more than a Bayesian:
    compare the scores after the evidence, too.

    Source: DeGroot (1962), Annals of Mathematical Statistics 33, for the quadratic uncertainty function.
    """
    earlier, later = (brier_losses(each, outcome, unreadable=False) for each in (before, after))
    return mean(earlier - later, problem=problem)


def share_unmoved(before: Numbers, after: Numbers, *, problem: Numbers, tolerance: float = 1e-9) -> Clustered | None:
    """Return the share of pairs whose belief changed by at most `tolerance`, in [0, 1].

    Traps: evidence that cancels out leaves a Bayesian where he was; models that answer in round numbers do not move
    for weak evidence, and sampling noise moves those who do not listen.

    Source: reported beside M because never updating makes M = 0.
    """
    start, end = probabilities(before, after)
    changed = end - start
    return mean(np.where(np.isnan(changed), np.nan, np.abs(changed) <= tolerance), problem=problem)
