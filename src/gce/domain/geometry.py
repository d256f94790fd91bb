"""The path of training through the space of scores, with the nulls that say how much of it anything else would show.

The state after an iteration is the mean score by evaluator and tier; columns are standardised over iterations, so that
no score counts for more because it spreads wider. Problems differ from iteration to iteration, which alone moves the
state: the null of problems deals the same problems to iterations at random. Where the same fixed texts are read in each
iteration, states are dealt to iterations at random within each text: what texts differ by, which is most, cancels.
Knows neither runs nor files.
Source: ScalarScope's geometry (PCA of centred states, velocity, curvature, trailing window); parallel analysis, Horn
(1965).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import field, frozen
from numpy.random import Generator
from numpy.typing import NDArray

from gce.domain.statistics import Estimate

__all__ = ["Geometry", "Null", "ScoredProblem", "Step", "least_window", "path_geometry"]

Floats = NDArray[np.float64]

RESAMPLES = 500
"""Bootstrap samples, and draws of each null."""
TOP = 5
"""Eigenvalues that are kept."""
DEALT = "scores moved more than they do where only the problems differ (problems dealt to iterations at random)"
LEAST = 3
"""Iterations, below which there is no path."""


@frozen
class ScoredProblem:
    """The mean scores of the answers to one problem in one iteration."""

    iteration: int
    tier: str
    scores: Mapping[str, float]
    """In [0, 1], by evaluator; or any numbers, as those of a hidden state."""
    problem: str = ""
    """Where the same problems come in each iteration: which one it is."""


@frozen
class Step:
    """The path at one iteration."""

    iteration: int
    state: tuple[float, float]
    """On the first two principal components of the standardised states."""
    velocity: tuple[float, float]
    """Difference from the state before; 0 at the first."""
    curvature: float
    """The angle between this velocity and the one before, over pi; 0 where one of both is 0."""
    effective_dim: float
    """(sum l)^2 / sum l^2 of the eigenvalues of the window; 0 where nothing varies."""
    eigenvalues: tuple[float, ...]
    """The largest of the covariance of the standardised states of a trailing window."""

    @property
    def anisotropy(self) -> float:
        """The largest over the smallest eigenvalue above 0; 1 without any."""
        above = [each for each in self.eigenvalues if each > 1e-9]
        return above[0] / above[-1] if above else 1.0


@frozen
class Null:
    """A statistic of the path beside what it is under a null."""

    statistic: str
    observed: Estimate
    """With its basic bootstrap interval over problems."""
    null: Estimate
    """Mean and central 95 % under the null."""
    p: float
    """(draws at least as extreme + 1) / (draws + 1), on the side that is named."""
    says: str
    """What a small p would mean."""


@frozen
class Geometry:
    """A run's path."""

    dimensions: tuple[str, ...]
    """EVALUATOR/TIER."""
    iterations: tuple[int, ...]
    states: Floats = field(eq=False, repr=False)
    """(iterations, dimensions): mean scores in [0, 1]."""
    components: Floats = field(eq=False, repr=False)
    """(2, dimensions)."""
    explained: tuple[float, float]
    """Shares of the variance of the standardised states."""
    window: int
    steps: tuple[Step, ...]
    nulls: tuple[Null, ...]


def least_window(iterations: int) -> int:
    """Return how many iterations a trailing window has: a tenth of all, at least 10."""
    return max(10, iterations // 10)


def path_geometry(
    problems: Sequence[ScoredProblem], rng: Generator, *, resamples: int = RESAMPLES, paired: bool = False
) -> Geometry:
    """Return the path, with a bootstrap over problems and three nulls.

    Args:
        problems: with at least one answer that was judged; tiers and evaluators that some iteration lacks are left out.
        rng: draws samples and nulls.
        resamples: number of each.
        paired: whether each iteration has the same problems, by name.

    Raises:
        ValueError: fewer than three iterations, or fewer than two scores that vary.
    """
    table = _Table.of(problems, paired=paired)
    raw = table.states(table.places)
    varies = raw.std(axis=0) > 1e-12
    if varies.sum() < 2:
        raise ValueError(f"expected at least 2 scores that vary over iterations, got {int(varies.sum())}")
    states = raw[:, varies]
    scaled = _standardized(states)
    _, sizes, components = np.linalg.svd(scaled, full_matrices=False)
    shares = sizes**2 / (sizes**2).sum()
    path, window = scaled @ components[:2].T, least_window(len(states))
    return Geometry(
        tuple(name for name, kept in zip(table.dimensions, varies, strict=True) if kept),
        table.iterations,
        states,
        components[:2],
        (float(shares[0]), float(shares[1])),
        window,
        tuple(_steps(table.iterations, path, scaled, window)),
        _nulls(table, varies, rng, resamples),
    )


@frozen
class _Table:
    """Problems as arrays, a block of rows for each tier."""

    iterations: tuple[int, ...]
    dimensions: tuple[str, ...]
    scores: tuple[Floats, ...]
    """By tier: (problems, evaluators)."""
    places: tuple[NDArray[np.intp], ...]
    """By tier: the place of each problem's iteration."""
    strata: tuple[tuple[NDArray[np.intp], ...], ...]
    """By tier: rows whose iterations may change places; all of them, or those of one problem where it comes in each."""
    paired: bool

    @staticmethod
    def of(problems: Sequence[ScoredProblem], *, paired: bool) -> _Table:
        iterations = tuple(sorted({each.iteration for each in problems}))
        if len(iterations) < LEAST:
            raise ValueError(f"expected at least {LEAST} iterations with answers, got {len(iterations)}")
        evaluators = [
            name
            for name in dict.fromkeys(name for each in problems for name in each.scores)
            if all(name in each.scores for each in problems)
        ]
        blocks = {
            tier: [each for each in problems if each.tier == tier] for tier in sorted({each.tier for each in problems})
        }
        whole = {
            tier: block for tier, block in blocks.items() if len({each.iteration for each in block}) == len(iterations)
        }
        number = {iteration: place for place, iteration in enumerate(iterations)}
        strata = []
        for block in whole.values():
            rows: dict[str, list[int]] = {}
            for place, each in enumerate(block):
                rows.setdefault(each.problem if paired else "", []).append(place)
            strata.append(tuple(np.array(places) for places in rows.values()))
        return _Table(
            iterations,
            tuple(f"{name}/{tier}" for tier in whole for name in evaluators),
            tuple(
                np.array([[each.scores[name] for name in evaluators] for each in block], float).reshape(len(block), -1)
                for block in whole.values()
            ),
            tuple(np.array([number[each.iteration] for each in block]) for block in whole.values()),
            tuple(strata),
            paired,
        )

    def states(self, places: Sequence[NDArray[np.intp]], rows: Sequence[NDArray[np.intp]] | None = None) -> Floats:
        """Mean scores with problems in these iterations, and as often as `rows` names them."""
        found = []
        for block, (scores, at) in enumerate(zip(self.scores, places, strict=True)):
            chosen = np.arange(len(at)) if rows is None else rows[block]
            often = np.bincount(chosen, minlength=len(at)) * (at == np.arange(len(self.iterations))[:, None])
            found.append(often @ scores / often.sum(axis=1)[:, None])
        return np.hstack(found) if found else np.zeros((len(self.iterations), 0))

    def resampled(self, rng: Generator) -> list[NDArray[np.intp]]:
        """Rows drawn with replacement within each iteration and tier, or problems with all their rows."""
        if self.paired:
            draws = [rng.integers(len(rows), size=len(rows)) for rows in self.strata]
            return [
                np.concatenate([rows[each] for each in drawn]) for rows, drawn in zip(self.strata, draws, strict=True)
            ]
        return [
            np.concatenate(
                [
                    rng.choice(rows, len(rows))
                    for place in range(len(self.iterations))
                    if len(rows := np.flatnonzero(at == place))
                ]
            )
            for at in self.places
        ]

    def dealt(self, rng: Generator) -> list[NDArray[np.intp]]:
        """The places of problems dealt to iterations at random within strata."""
        found = [at.copy() for at in self.places]
        for at, strata in zip(found, self.strata, strict=True):
            for rows in strata:
                at[rows] = at[rng.permutation(rows)]
        return found


def _standardized(states: Floats) -> Floats:
    centred = states - states.mean(axis=0)
    deviations = centred.std(axis=0)
    return np.asarray(centred / np.where(deviations > 1e-12, deviations, 1.0))


def _eigenvalues(scaled: Floats) -> Floats:
    """Of the covariance, the largest first."""
    centred = scaled - scaled.mean(axis=0)
    return np.asarray(np.linalg.svd(centred, compute_uv=False) ** 2 / len(scaled))


def _effective_dim(values: Floats) -> float:
    total = float(values.sum())
    return total**2 / float((values**2).sum()) if total > 1e-12 else 0.0


def _straightness(scaled: Floats) -> float:
    """Distance between the ends over the length of the path."""
    length = float(np.linalg.norm(np.diff(scaled, axis=0), axis=1).sum())
    return float(np.linalg.norm(scaled[-1] - scaled[0])) / length if length > 1e-12 else 0.0


def _movement(states: Floats) -> float:
    """The variance of mean scores over iterations, summed over dimensions."""
    return float(states.var(axis=0).sum())


def _steps(iterations: Sequence[int], path: Floats, scaled: Floats, window: int) -> list[Step]:
    moves = np.vstack([np.zeros(2), np.diff(path, axis=0)])
    found = []
    for place, iteration in enumerate(iterations):
        one, other = moves[max(0, place - 1)], moves[place]
        size = float(np.linalg.norm(one) * np.linalg.norm(other))
        angle = float(np.arccos(np.clip(one @ other / size, -1.0, 1.0))) if size > 1e-12 else 0.0
        values = _eigenvalues(scaled[max(0, place + 1 - window) : place + 1])
        found.append(
            Step(
                iteration,
                (float(path[place, 0]), float(path[place, 1])),
                (float(other[0]), float(other[1])),
                angle / np.pi,
                _effective_dim(values),
                tuple(values[:TOP].tolist()),
            )
        )
    return found


def _nulls(table: _Table, varies: NDArray[np.bool_], rng: Generator, resamples: int) -> tuple[Null, ...]:
    observed = table.states(table.places)[:, varies]
    scaled = _standardized(observed)
    sampled = [table.states(table.places, table.resampled(rng))[:, varies] for _ in range(resamples)]
    dealt = [table.states(table.dealt(rng))[:, varies] for _ in range(resamples)]
    in_other_order = [scaled[rng.permutation(len(scaled))] for _ in range(resamples)]
    apart = [rng.permuted(scaled, axis=0) for _ in range(resamples)]
    return (
        _null(
            "movement",
            _movement(observed),
            [_movement(each) for each in sampled],
            [_movement(each) for each in dealt],
            "states moved more than by chance (each text's states dealt to iterations at random)"
            if table.paired
            else DEALT,
        ),
        _null(
            "straightness",
            _straightness(scaled),
            [_straightness(_standardized(each)) for each in sampled],
            [_straightness(each) for each in in_other_order],
            "the path has a direction (iterations shuffled)",
        ),
        _null(
            "effective dimension",
            _effective_dim(_eigenvalues(scaled)),
            [_effective_dim(_eigenvalues(_standardized(each))) for each in sampled],
            [_effective_dim(_eigenvalues(each)) for each in apart],
            "scores move together (each score shuffled by itself)",
            smaller=True,
            least=1.0,
        ),
    )


def _null(
    name: str,
    observed: float,
    sampled: Sequence[float],
    null: Sequence[float],
    says: str,
    *,
    smaller: bool = False,
    least: float = 0.0,
) -> Null:
    # The basic bootstrap: resampling adds noise to scores, which moves these statistics away from what was observed.
    low, high = 2.0 * observed - np.quantile(sampled, (0.975, 0.025))
    below, above = np.quantile(null, (0.025, 0.975))
    values = np.asarray(null)
    extreme = int((values <= observed + 1e-12).sum() if smaller else (values >= observed - 1e-12).sum())
    return Null(
        name,
        Estimate(observed, max(least, float(low)), max(least, float(high))),
        Estimate(float(values.mean()), float(below), float(above)),
        (extreme + 1) / (len(values) + 1),
        says,
    )
