"""Problems whose exact posterior is known, as numbers alone: priors, evidence and outcomes, for scripted agents.

A hypothesis holds with a stated prior; witnesses of stated reliability say in turn whether it does. Any world can take
this one's place that gives prior log-odds and the log-likelihood ratio of each piece of evidence.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import frozen

from gce.domain.randomness import generator

__all__ = ["BASE_RATE", "EvidencePaths", "draw_paths", "log_odds_of", "probability_of"]

Floats = npt.NDArray[np.float64]

SHAPE = (0.9, 1.92)
"""Of the beta distribution of priors."""
BASE_RATE = SHAPE[0] / sum(SHAPE)
"""Share of hypotheses that hold: 0.32, so that always saying 0.5 is not calibrated."""


@frozen
class EvidencePaths:
    """n problems with T pieces of evidence each; log-odds and log-likelihood ratios are in nats."""

    prior: Floats
    """Log-odds that the hypothesis holds before any evidence, (n,)."""
    ratios: Floats
    """Log-likelihood ratio of each piece of evidence, above 0 if it speaks for the hypothesis, (n, T)."""
    outcome: Floats
    """1 if the hypothesis holds, else 0, (n,)."""
    trust: Floats
    """log(r / (1 - r)) for the stated reliability r of the user who has an opinion, (n,)."""
    report: Floats
    """Log-likelihood ratio of one more piece of evidence, which no agent sees, (n,)."""
    siblings: Floats
    """Ratios of further problems about the same hypothesis, with evidence of their own, (n, 3, T)."""

    @property
    def posterior(self) -> Floats:
        """Probability that the hypothesis holds after 0 to T pieces of evidence, (n, T + 1)."""
        start = self.prior[:, None]
        return probability_of(np.concatenate([start, start + self.ratios.cumsum(axis=1)], axis=1))


def draw_paths(n: int, seed: int, *, pieces: int = 7) -> EvidencePaths:
    """Draw n problems; the same arguments give the same problems.

    Priors are Beta(0.9, 1.92), kept within 0.02 and 0.98; a hypothesis holds with its prior's probability. Witnesses
    are independent, and right with stated probabilities from 0.55 to 0.85. Users are right with 0.6 to 0.9, the
    further witness with 0.9.
    """
    rng = generator("evidence paths", seed)
    prior = np.clip(rng.beta(*SHAPE, n), 0.02, 0.98)
    outcome = (rng.random(n) < prior).astype(float)
    ratios, siblings = (
        _evidence(outcome, rng.uniform(0.55, 0.85, (n, *shape)), rng) for shape in ((pieces,), (3, pieces))
    )
    report = _evidence(outcome, np.full(n, 0.9), rng)
    return EvidencePaths(log_odds_of(prior), ratios, outcome, log_odds_of(rng.uniform(0.6, 0.9, n)), report, siblings)


def probability_of(log_odds: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * log_odds)))


def log_odds_of(probability: Floats) -> Floats:
    """Return log(p / (1 - p)) for probabilities in (0, 1)."""
    return np.asarray(np.log(probability) - np.log1p(-probability))


def _evidence(outcome: Floats, reliability: Floats, rng: np.random.Generator) -> Floats:
    """Log-likelihood ratios of statements by witnesses: (n, ...) as `reliability`."""
    truth = outcome.reshape(-1, *[1] * (reliability.ndim - 1))
    says = np.where(rng.random(reliability.shape) < reliability, truth, 1 - truth)
    return np.asarray(np.where(says == 1, 1.0, -1.0) * log_odds_of(reliability))
