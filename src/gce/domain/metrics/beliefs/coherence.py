"""Coherence of beliefs in related claims: complements, implications and partitions. Needs no outcomes.

Errors are means over problems of absolute violations; an answer with an unreadable belief is left out.
"""

from __future__ import annotations

import numpy as np

from gce.domain.metrics.beliefs.clustering import Clustered, Numbers, mean, probabilities

__all__ = ["complement_error", "implication_error", "partition_error"]


def complement_error(belief: Numbers, negation: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean of |b(A) + b(not A) - 1|, in [0, 1]; 0 is coherent.

    Traps: always saying 0.5 is coherent, and so is any rule that treats a claim and its negation alike, such as
    neglect of the base rate: coherence does not imply truth. Noise in reading beliefs alone makes it positive.

    Source: de Finetti (1937); Fluri, Paleka and Tramer (2023), arXiv 2306.09983, for language models.
    """
    stated, opposite = probabilities(belief, negation)
    return mean(np.abs(stated + opposite - 1), problem=problem)


def implication_error(belief: Numbers, implied: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean of max(0, b(A) - b(B)) for claims A that imply B, in [0, 1]; 0 is coherent.

    Traps: the same belief in everything violates nothing; a wide margin between the claims hides incoherence, so
    implications are informative only where the probabilities are close.

    Source: Tversky and Kahneman (1983), Psychological Review 90, for the conjunction fallacy.
    """
    stated, weaker = probabilities(belief, implied)
    return mean(np.maximum(stated - weaker, 0.0), problem=problem)


def partition_error(beliefs: Numbers, *, problem: Numbers) -> Clustered | None:
    """Return the mean of |sum of beliefs - 1| over partitions, from beliefs (n, cells); 0 is coherent.

    The largest possible value is cells - 1. Partitions of different sizes need calls of their own.

    Traps: only sums are tested, so that a permutation of the beliefs goes unnoticed; asking for all cells in one
    prompt measures arithmetic, and asking for each in a prompt of its own measures coherence.

    Source: Tversky and Koehler (1994), Psychological Review 101 (subadditivity).

    Raises:
        ValueError: beliefs that are not two-dimensional, or fewer than two cells.
    """
    (cells,) = probabilities(beliefs)
    if cells.ndim != 2 or cells.shape[1] < 2:
        raise ValueError(f"expected beliefs of shape (n, cells) with at least two cells, got shape {cells.shape}")
    return mean(np.abs(cells.sum(axis=1) - 1), problem=problem)
