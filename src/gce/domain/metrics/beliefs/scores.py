"""Proper scores of beliefs: Brier, excess Brier and log loss, and the share of beliefs that could be read.

A belief is the stated probability that a claim holds, NaN if the answer could not be read. Every score exists twice:
with the worst score for unreadable answers, which is the figure to compare models by, and over readable answers, which
stands beside their share. Losses: lower is better.
"""

from __future__ import annotations

import numpy as np

from gce.domain.metrics.beliefs.clustering import Clustered, Floats, Numbers, mean, probabilities

__all__ = ["FLOOR", "brier", "brier_losses", "excess_brier", "excess_losses", "log_losses", "log_score", "readable"]

FLOOR = 0.001
"""Least probability that the log score distinguishes from 0."""


def readable(belief: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the share of answers from which a belief could be read, in [0, 1].

    Trap: a model that refuses hard questions has good scores over readable answers. Report neither without the other.
    """
    (beliefs,) = probabilities(belief)
    return mean((~np.isnan(beliefs)).astype(float), problem=problem)


def brier(belief: Numbers, outcome: Numbers, *, problem: Numbers, unreadable: bool = True) -> Clustered | None:
    """Return the mean Brier score (b - y)^2, in [0, 1]; 0 is perfect foresight and always saying 0.5 scores 0.25.

    An unreadable belief scores 1, or is left out with `unreadable=False`; an outcome of NaN is unknown and is left out.

    Traps: exact Bayes does not score 0 but the mean of p*(1 - p*), so two sets of problems cannot be compared; the
    noise of outcomes hides small differences, which `excess_brier` shows where p* is known; a missing outcome must
    never become a score.

    Source: Brier (1950), Monthly Weather Review 78; Gneiting and Raftery (2007), JASA 102.
    """
    return mean(brier_losses(belief, outcome, unreadable=unreadable), problem=problem)


def brier_losses(belief: Numbers, outcome: Numbers, *, unreadable: bool = True) -> Floats:
    """Return the Brier score of each answer, (n,); NaN where it is left out."""
    beliefs, outcomes = _with_outcomes(belief, outcome)
    return _filled((beliefs - outcomes) ** 2, beliefs, np.where(np.isnan(outcomes), np.nan, 1.0), unreadable)


def excess_brier(belief: Numbers, posterior: Numbers, *, problem: Numbers, unreadable: bool = True) -> Clustered | None:
    """Return the mean excess Brier score (b - p*)^2, in [0, 1]; exact Bayes scores 0.

    The expected Brier score is p*(1 - p*) + (b - p*)^2: this is the part that a model can lower, without the noise of
    outcomes. An unreadable belief scores max(p*, 1 - p*)^2, the worst on its problem.

    Traps: p* must be the posterior given exactly what the prompt says; a squared error near 0.5 and near 1 counts the
    same, so confident errors on rare events show in `log_score` alone; noise in reading beliefs adds its variance.

    Source: the Murphy decomposition for one forecast; Gneiting and Raftery (2007), JASA 102, section 2.
    """
    return mean(excess_losses(belief, posterior, unreadable=unreadable), problem=problem)


def excess_losses(belief: Numbers, posterior: Numbers, *, unreadable: bool = True) -> Floats:
    """Return the excess Brier score of each answer, (n,); NaN where it is left out."""
    beliefs, exact = probabilities(belief, posterior)
    return _filled((beliefs - exact) ** 2, beliefs, np.maximum(exact, 1 - exact) ** 2, unreadable)


def log_score(
    belief: Numbers, outcome: Numbers, *, problem: Numbers, unreadable: bool = True, floor: float = FLOOR
) -> Clustered | None:
    """Return the mean log loss, -ln of the probability given to what happened, in nats, in [0, -ln(floor)].

    Probabilities below `floor` count as `floor`; an unreadable belief scores -ln(floor), 6.9 nats by default.

    Traps: without a floor one belief of 0 that is wrong makes the mean infinite; with it the score is not proper for
    beliefs beyond the floor, so all models must be given the same one; its mean is dominated by few answers.

    Source: Good (1952), JRSS B 14; Gneiting and Raftery (2007), JASA 102.
    """
    return mean(log_losses(belief, outcome, unreadable=unreadable, floor=floor), problem=problem)


def log_losses(belief: Numbers, outcome: Numbers, *, unreadable: bool = True, floor: float = FLOOR) -> Floats:
    """Return the log loss of each answer in nats, (n,); NaN where it is left out.

    Raises:
        ValueError: a floor outside (0, 0.5].
    """
    if not 0.0 < floor <= 0.5:
        raise ValueError(f"expected a floor in (0, 0.5], got {floor!r}")
    beliefs, outcomes = _with_outcomes(belief, outcome)
    given = np.where(outcomes == 1.0, beliefs, 1 - beliefs)
    worst = np.where(np.isnan(outcomes), np.nan, -np.log(floor))
    return _filled(-np.log(np.maximum(given, floor)) + 0.0 * outcomes, beliefs, worst, unreadable)


def _with_outcomes(belief: Numbers, outcome: Numbers) -> tuple[Floats, Floats]:
    beliefs, outcomes = probabilities(belief, outcome)
    if not np.isin(outcomes[~np.isnan(outcomes)], (0.0, 1.0)).all():
        raise ValueError("expected outcomes of 0 or 1, or NaN where the outcome is unknown")
    return beliefs, outcomes


def _filled(losses: Floats, beliefs: Floats, worst: Floats, unreadable: bool) -> Floats:
    return np.where(np.isnan(beliefs), worst, losses) if unreadable else losses
