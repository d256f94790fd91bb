"""What an agent achieved over tasks: rates, geometric mean speed-up and reward, with intervals clustered by task.

An attempt that is not correct counts as a speed-up of 1: its patch would not be used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, fsum, log

from attrs import frozen

from gce.domain.performance.decision import Comparison
from gce.domain.performance.overlap import GAINS
from gce.domain.randomness import generator
from gce.domain.statistics import Estimate, stratified_bootstrap

__all__ = ["Summary", "speed_up", "summary"]


@frozen
class Summary:
    """Attempts of one agent."""

    tasks: int
    attempts: int
    correct: int
    faster: int
    """With a shown gain."""
    human_level: int
    """That match or beat the human."""
    speed_up: Estimate
    """Geometric mean over tasks."""
    reward: Estimate
    """Mean over tasks, in [0, 1]."""


def speed_up(found: Comparison) -> float:
    """Return the time of the base over that of the candidate; 1 for an incorrect candidate."""
    return 1.0 if found.gain is None or found.verdict == "incorrect" else found.gain.value


def summary(comparisons: Mapping[str, Sequence[Comparison]], seed: int) -> Summary:
    """Summarize the comparisons of one agent, by task.

    The attempts at a task are not independent, so tasks are resampled: a percentile bootstrap of task means. With few
    tasks it is too narrow, and with one it has no width.

    Raises:
        ValueError: no task, or a task without comparisons.
    """
    every = [each for several in comparisons.values() for each in several]
    means = [fsum(log(speed_up(each)) for each in several) / len(several) for several in comparisons.values()]
    rewards = [fsum(each.reward for each in several) / len(several) for several in comparisons.values()]
    gain = stratified_bootstrap([means], generator(seed, "speed-up"))
    return Summary(
        tasks=len(comparisons),
        attempts=len(every),
        correct=sum(each.verdict != "incorrect" for each in every),
        faster=sum(each.verdict in GAINS for each in every),
        human_level=sum(each.verdict in ("matches the human", "beats the human") for each in every),
        speed_up=Estimate(exp(gain.value), exp(gain.low), exp(gain.high)),
        reward=stratified_bootstrap([rewards], generator(seed, "reward")),
    )
