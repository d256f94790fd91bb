"""Agreement of a qualitative judge with exact scores: a judge is only as valid as this says."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gce.domain.metrics.beliefs.clustering import Clustered, Floats, Numbers, aligned, jackknife

__all__ = ["judge_correlation", "judge_preference", "ranks"]


def judge_correlation(grade: Numbers, exact: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return Spearman's rank correlation of the judge's grades with exact scores, in [-1, 1]; higher is better.

    Give scores in the same direction, such as -(b - p*)^2. The standard error is a jackknife over problems with ranks
    held fixed. None if either column is constant.

    Traps: over several problems it rewards a judge who merely knows which problems are easy; `judge_preference`
    compares answers to one problem. A correlation over models of very different quality says little about two that
    are close.

    Source: Spearman (1904), American Journal of Psychology 15.
    """
    clusters, (given, truth) = aligned(grade, exact, problem=problem)
    if given.size < 2 or np.ptp(given) == 0 or np.ptp(truth) == 0:
        return None
    x, y = (ranks(each) - (given.size + 1) / 2 for each in (given, truth))
    return jackknife(_correlation, np.stack([np.ones(x.size), x, y, x * x, y * y, x * y], axis=1), clusters)


def judge_preference(grade: Numbers, exact: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the share of pairs of answers to one problem that the judge orders as the exact scores do, in [0, 1].

    Equal grades count one half, pairs with equal exact scores nothing; 0.5 is chance. None without such pairs.

    Traps: near-ties count as much as clear cases; the pairs of a problem grow with the square of its answers, so give
    each problem as many.

    Source: Goodman and Kruskal (1954), JASA 49, for concordance, with ties as one half.
    """
    clusters, (given, truth) = aligned(grade, exact, problem=problem)
    first, second = _pairs(clusters)
    one, other = (each[first] - each[second] for each in (given, truth))
    kept = other != 0
    agreed = np.where(one == 0, 0.5, np.sign(one) == np.sign(other))[kept]
    if not agreed.size:
        return None
    sums = np.stack([np.ones(agreed.size), agreed], axis=1)
    return jackknife(lambda each: np.asarray(each[..., 1] / each[..., 0]), sums, clusters[first][kept])


def ranks(values: Floats) -> Floats:
    """Return ranks from 1, equal values with their mean rank."""
    _, of, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[of])


def _correlation(sums: Floats) -> Floats:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.maximum((xx - x * x / n) * (yy - y * y / n), 0.0)
    return np.asarray((xy - x * y / n) / np.sqrt(np.where(spread > 0, spread, np.inf)))


def _pairs(clusters: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Rows of each pair within a cluster: sorted rows are compared with those 1, 2, ... places further on."""
    order = np.argsort(clusters, kind="stable")
    named = clusters[order]
    firsts, seconds = [], []
    for distance in range(1, len(order)):
        same = np.flatnonzero(named[distance:] == named[:-distance])
        if not same.size:
            break
        firsts.append(order[same])
        seconds.append(order[same + distance])
    nothing = np.zeros(0, np.intp)
    return np.concatenate([nothing, *firsts]), np.concatenate([nothing, *seconds])
