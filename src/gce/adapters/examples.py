"""What learners get: token sequences, which of their tokens are trained, and the loss of a token.

Knows neither traces nor models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen

from gce.adapters.draws import Array

__all__ = ["Example", "Objective", "batch_arrays", "passes", "token_losses"]

_BUCKET = 32


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


def passes(examples: Sequence[Example], tokens: int) -> Iterator[list[Example]]:
    """Examples of near-equal length together, as many as fit into `tokens` with their padding, at least one."""
    chunk: list[Example] = []
    for example in sorted(examples, key=_width):
        if chunk and (len(chunk) + 1) * _width(example) > tokens:
            yield chunk
            chunk = []
        chunk.append(example)
    yield chunk


def batch_arrays(chunk: Sequence[Example]) -> tuple[np.ndarray, ...]:
    """Inputs (sequences, width); then for each trained token its place in the flat inputs, the token, its weight.

    Last its log-probabilities when sampled and under the base, 0 where they are not known.
    """
    width = max(map(_width, chunk))
    inputs = np.zeros((len(chunk), width), np.int32)
    places, targets, weights, sampled, base = [], [], [], [], []
    for row, example in enumerate(chunk):
        inputs[row, : len(example.tokens) - 1] = example.tokens[:-1]
        # The output at one position predicts the token at the next.
        places.append(row * width + np.arange(example.start - 1, len(example.tokens) - 1))
        targets.append(np.asarray(example.tokens[example.start :]))
        trained = len(example.tokens) - example.start
        weights.append(np.full(trained, example.weight))
        sampled.append(np.asarray(example.sampled or np.zeros(trained)))
        base.append(np.asarray(example.base or np.zeros(trained)))
    return (
        inputs,
        np.concatenate(places).astype(np.int32),
        np.concatenate(targets).astype(np.int32),
        *(np.concatenate(part).astype(np.float32) for part in (weights, sampled, base)),
    )


def _width(example: Example) -> int:
    """Positions that go through the model: all tokens but the last, rounded up to a bucket."""
    return -(-(len(example.tokens) - 1) // _BUCKET) * _BUCKET
