"""What an agent did over several tasks: mean gains, fast_p curves, and the harmonic mean of the literature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from statistics import fmean

from gce.domain.performance.decision import Comparison
from gce.domain.statistics import Estimate, clustered_mean

__all__ = ["fast_p", "geometric_mean", "harmonic_mean", "speedup"]

Attempts = Mapping[str, Sequence[Comparison]]
"""Comparisons by task: one for each attempt."""


def speedup(comparison: Comparison) -> float:
    """Return the gain of an attempt; 1 for an incorrect one, which is not used."""
    return 1.0 if comparison.gain is None else comparison.gain.value


def geometric_mean(attempts: Attempts) -> Estimate:
    """Return the geometric mean of the gains; its interval is clustered by task.

    Attempts at a task may be correlated. With a single task the interval is (0, inf).

    Raises:
        ValueError: no attempts.
    """
    found = clustered_mean([[log(speedup(each)) for each in several] for several in attempts.values() if several])
    return Estimate(exp(found.value), exp(found.low), exp(min(found.high, 700.0)))


def fast_p(attempts: Attempts, p: float) -> float:
    """Return the share of attempts that are correct and at least `p` times as fast as the base, averaged over tasks.

    Source: fast_p of KernelBench (Ouyang et al., 2025).

    Raises:
        ValueError: no attempts.
    """
    return fmean(
        sum(each.gain is not None and each.gain.value >= p for each in several) / len(several)
        for several in attempts.values()
        if several
    )


def harmonic_mean(attempts: Attempts) -> float:
    """Return the harmonic mean of the gains over all attempts, as SWE-fficiency and GSO report it.

    A few tasks with small gains carry most of it: for comparison with the literature alone.

    Raises:
        ValueError: no attempts.
    """
    gains = [speedup(each) for several in attempts.values() for each in several]
    if not gains:
        raise ValueError("expected at least one attempt, got none")
    return len(gains) / sum(1 / gain for gain in gains)
