"""What learners get: token sequences, which of their tokens are trained, and the loss of a token.

Knows neither traces nor models.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from gce.adapters.draws import Array

__all__ = ["Example", "Objective", "token_losses"]


@frozen
class Example:
    """One sequence to learn from."""

    tokens: tuple[int, ...]
    start: int
    """Place of the first trained token, at least 1; all from there on are trained."""
    weight: float
    sampled: tuple[float, ...] = ()
    """Log-probabilities of the trained tokens when they were sampled; empty where the objective does not clip."""
    base: tuple[float, ...] = ()
    """Those under the base; empty where the objective has no divergence."""


@frozen
class Objective:
    """What is minimised, beside each example's weight: see `gce.domain.types.TrainingBatch`."""

    clip: float | None = None
    kl: float = 0.0


def token_losses(
    objective: Objective, found: Array, weights: Array, sampled: Array | None, base: Array | None
) -> tuple[Array, Array]:
    """The loss of each token, and minus its slope in the token's log-probability `found`; all of one shape."""
    losses, pushes = weights * -found, weights
    if objective.clip is not None:
        assert sampled is not None
        # No float overflows before e^88.
        ratio = np.exp(np.minimum(found - sampled, np.float32(80.0)))
        free, cut = ratio * weights, np.clip(ratio, 1 - objective.clip, 1 + objective.clip) * weights
        losses, pushes = -np.minimum(free, cut), np.where(free <= cut, free, np.float32(0.0))
    if objective.kl:
        assert base is not None
        apart = np.minimum(base - found, np.float32(80.0))
        share = np.float32(objective.kl)
        losses = losses + share * (np.expm1(apart) - apart)
        pushes = pushes + share * np.expm1(apart)
    return losses, pushes
