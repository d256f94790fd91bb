"""Which features of answers go with their scores: a regression with cross-fitting. Association, not cause."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from gce.domain.metrics.beliefs.clustering import Floats, jackknife, slope
from gce.domain.statistics import Estimate, holm

__all__ = ["LEAST_PROBLEMS", "Association", "Associations", "associations"]

LEAST_PROBLEMS = 20
"""With fewer, four of five folds are too few to fit anything."""
FOLDS = 5
PENALTY = 1.0
"""Of the ridge regressions, in rows: next to nothing, but enough for features that say the same."""
_VARIES = 1e-6
"""Least standard deviation within groups."""
_OWN = 0.01
"""Least share of a feature's variance within groups that the other features leave."""

_Codes = npt.NDArray[np.intp]


@frozen
class Association:
    """How a score differs between answers of one group that differ in one feature and not in the others."""

    change: Estimate
    """Difference in score for a difference of one standard deviation within groups; clustered by problem."""
    p: float
    """Two-sided p value of the normal test that it is 0."""
    adjusted: float = 1.0
    """Holm-adjusted p value over all features."""


@frozen
class Associations:
    """The associations of all features with one score."""

    features: Mapping[str, Association]
    """Without features that do not vary within groups, or that follow from the others."""
    explained: Estimate
    """Share of the score's variance within groups that the features predict for problems that no fit has seen.

    At most 1; below 0 where they predict worse than the group's mean. The interval takes the fits as given.
    """
    n: int
    """Answers."""
    problems: int


def associations(
    features: Mapping[str, Sequence[float]],
    score: Sequence[float],
    *,
    group: Sequence[Hashable],
    problem: Sequence[str],
) -> Associations | None:
    """Regress a score on features of answers, within groups such as the tiers of a setup, with cross-fitting.

    Double machine learning for the partially linear model: score and feature are both predicted from the other features
    and the group, by ridge regressions that were fitted on other problems; the association is the slope of what is
    left of the score on what is left of the feature. Problems are dealt to 5 folds, so that no answer is predicted
    from answers to its own problem.

    None with fewer than 20 problems, or where score or all features are constant within groups.

    Traps: a feature that goes with the score need not change it. What makes a problem hard makes answers long, too;
    groups and the other features remove only what they measure. Associations that are not linear are missed.

    Source: Chernozhukov et al. (2018), The Econometrics Journal 21, definition 3.2 with the partialling-out score of
    equation 4.4.

    Raises:
        ValueError: columns of different lengths, or a number that is not finite.
    """
    columns = np.array([score, *features.values()], float)
    if columns.ndim != 2 or not len(score) == len(group) == len(problem):
        raise ValueError("expected a score, a group and a problem for each row of the features")
    if not np.isfinite(columns).all():
        raise ValueError("expected finite numbers")
    groups, problems = _codes(group), _codes(problem)
    if not problems.size or problems.max() + 1 < LEAST_PROBLEMS:
        return None
    within = np.array([_less_means(each, groups) for each in columns])
    spread = within.std(axis=1)
    names = [name for name, each in zip(features, spread[1:], strict=True) if each > _VARIES]
    if not names or spread[0] <= 1e-12:
        return None
    kept = np.flatnonzero(spread[1:] > _VARIES) + 1
    outcome, x = columns[0], (columns[kept] / spread[kept, None]).T
    folds = problems % FOLDS
    bare = outcome - _predicted(outcome, x[:, :0], groups, folds)
    full = outcome - _predicted(outcome, x, groups, folds)
    found: dict[str, Association] = {}
    for place, name in enumerate(names):
        others = np.delete(x, place, axis=1)
        left = x[:, place] - _predicted(x[:, place], others, groups, folds)
        if left.var() <= _OWN:
            continue
        change = slope(left, outcome - _predicted(outcome, others, groups, folds), problem=problems)
        if change is not None:
            found[name] = Association(change.estimate(), change.p)
    adjusted = holm([each.p for each in found.values()])
    held = {name: evolve(each, adjusted=p) for (name, each), p in zip(found.items(), adjusted, strict=True)}
    share = jackknife(lambda sums: 1 - sums[..., 0] / sums[..., 1], np.stack([full**2, bare**2], axis=1), problems)
    assert share is not None, "there are problems"
    return Associations(held, share.estimate(), len(score), int(problems.max()) + 1)


def _codes(names: Sequence[Hashable]) -> _Codes:
    """Numbers from 0, by the order of the names as text."""
    return np.asarray(np.unique([str(each) for each in names], return_inverse=True)[1], np.intp)


def _less_means(values: Floats, groups: _Codes) -> Floats:
    counts = np.bincount(groups)
    return np.asarray(values - (np.bincount(groups, weights=values) / np.maximum(counts, 1))[groups])


def _predicted(target: Floats, x: Floats, groups: _Codes, folds: _Codes) -> Floats:
    """Predict each row from rows of other folds: the mean of its group, and a ridge regression within groups.

    A group without rows in the other folds has their overall mean.
    """
    found = np.empty(target.size)
    count = int(groups.max()) + 1
    for fold in np.unique(folds):
        out = folds == fold
        known = groups[~out]
        rows = np.bincount(known, minlength=count)

        def mean(values: Floats, known: _Codes = known, rows: _Codes = rows) -> Floats:
            sums = np.bincount(known, weights=values, minlength=count)
            return np.asarray(np.where(rows > 0, sums / np.maximum(rows, 1), values.mean()))

        centre = mean(target[~out])
        centres = np.array([mean(column) for column in x[~out].T]).reshape(x.shape[1], count).T
        across, up = x[~out] - centres[known], target[~out] - centre[known]
        weights = np.linalg.solve(across.T @ across + PENALTY * np.eye(x.shape[1]), across.T @ up)
        found[out] = centre[groups[out]] + (x[out] - centres[groups[out]]) @ weights
    return found
