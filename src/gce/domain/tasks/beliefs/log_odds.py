"""Arithmetic of probabilities: conditioning, and log-odds that are finite also at 0 and 1."""

from __future__ import annotations

from math import exp, log

__all__ = ["MOST_EXTREME", "from_log_odds", "log_odds", "share_of", "shifted"]

MOST_EXTREME = 1e-15
"""Probabilities nearer to 0 or 1 than this count as this far away, so that their log-odds are finite."""


def log_odds(probability: float) -> float:
    """Return log(p / (1 - p)) of a probability in [0, 1]; at most 34.6 in size, see `MOST_EXTREME`."""
    within = min(max(probability, MOST_EXTREME), 1.0 - MOST_EXTREME)
    return log(within / (1.0 - within))


def from_log_odds(value: float) -> float:
    """Return the probability in [0, 1] that has these log-odds; any float but NaN."""
    if value >= 0.0:
        return 1.0 / (1.0 + exp(-value))
    odds = exp(value)
    return odds / (1.0 + odds)


def shifted(probability: float, by: float) -> float:
    """Return the probability after its log-odds moved `by`; 0 and 1, which no evidence moves, stay."""
    return probability if probability in (0.0, 1.0) else from_log_odds(log_odds(probability) + by)


def share_of(found: float, total: float) -> float:
    """Return found / total, the probability of a claim given evidence of probability `total`.

    Raises:
        ValueError: the evidence is impossible.
    """
    if total <= 0.0:
        raise ValueError("the evidence is impossible in this world: nothing follows from it")
    return min(found / total, 1.0)
