"""Draws tokens from logits with uniform numbers that somebody else drew. Knows arrays only."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Array", "draw"]

Array = np.ndarray[Any, np.dtype[Any]]


def draw(logits: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """One token for each row of `logits`, by the inverse of the cumulative distribution; temperature 0 takes the best.

    Returns the tokens, their log-probabilities at temperature 1, and those under the distribution drawn from.
    `uniforms` lie in [0, 1], for they may have been rounded up.
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    normal = np.log(np.exp(shifted).sum(axis=-1))
    tokens = logits.argmax(axis=-1)
    sampling = np.zeros(len(logits), np.float32)
    warm = np.flatnonzero(temperatures)
    if len(warm):
        weights = np.exp(shifted[warm] / temperatures[warm, None])
        cumulative = weights.cumsum(axis=-1)
        total = cumulative[:, -1]
        # Strictly below the total, so that the token taken has weight.
        point = np.minimum(uniforms[warm], np.float32(1 - 2**-24)) * total
        tokens[warm] = (cumulative > point[:, None]).argmax(axis=-1)
        sampling[warm] = np.log(weights[np.arange(len(warm)), tokens[warm]] / total)
    return tokens, shifted[np.arange(len(logits)), tokens] - normal, sampling
