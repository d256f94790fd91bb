"""World in the loop: does reading a model's reasoning help a forecaster to predict what the world does next?"""

from __future__ import annotations

import numpy as np

from gce.domain.metrics.beliefs.clustering import Clustered, Numbers, mean

__all__ = ["uplift_per_token"]


def uplift_per_token(
    with_trajectory: Numbers, without: Numbers, tokens: Numbers, *, problem: Numbers
) -> Clustered | None:
    """Return the mean of (log p(r | task, trajectory) - log p(r | task)) / tokens of r, in nats per token.

    r is an investigator's report on a prediction task drawn from the trajectory, and p the forecaster's. Where the
    world is a simulator, r is a further draw from it, and exact. Above 0, the reasoning helps.

    Traps: a trajectory that restates the evidence helps as much as one that weighs it, unless the task has the
    evidence too; a forecaster who ignores the trajectory gives 0 to all; dividing by the tokens of r weighs short
    reports most; a report that quotes the trajectory is predicted by copying.

    Source: the log score's difference (Good 1952), per token so that reports of different length can be averaged.

    Raises:
        ValueError: a log-probability above 0, or fewer than one token.
    """
    known, blind, length = (np.asarray(each, float) for each in (with_trajectory, without, tokens))
    if (known > 1e-9).any() or (blind > 1e-9).any():
        raise ValueError("expected log-probabilities of at most 0")
    if (length < 1).any():
        raise ValueError(f"expected reports of at least one token, got {float(length.min())!r}")
    return mean((known - blind) / length, problem=problem)
