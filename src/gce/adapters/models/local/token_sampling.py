"""Draw tokens from logits, given uniform random numbers. Works on arrays only."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Array", "draw"]

Array = np.ndarray[Any, np.dtype[Any]]


def draw(logits: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
    """Draw one token for each row of `logits` by inverse transform sampling; temperature 0 takes the argmax.

    Returns the tokens, their log-probabilities at temperature 1, and those under the sampling distribution. `uniforms`
    are in [0, 1]: rounding may have made them 1.
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
        # Strictly below the total, so that the drawn token has positive probability.
        point = np.minimum(uniforms[warm], np.float32(1 - 2**-24)) * total
        tokens[warm] = (cumulative > point[:, None]).argmax(axis=-1)
        sampling[warm] = np.log(weights[np.arange(len(warm)), tokens[warm]] / total)
    return tokens, shifted[np.arange(len(logits)), tokens] - normal, sampling
