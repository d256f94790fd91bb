"""Which rollouts of one problem are positives, and how far their rewards tell them apart.

Rewards are in [0, 1]. Knows nothing of traces: a group is the rewards of one problem's rollouts, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, fsum

__all__ = ["mixed", "positives", "relative_variance"]


def mixed(rewards: Sequence[float]) -> bool:
    """Whether a group has a mixed outcome: its rewards differ, so that there is something to learn from it."""
    return bool(rewards) and min(rewards) != max(rewards)


def relative_variance(rewards: Sequence[float]) -> float:
    """The variance of a group's rewards as a share of the largest that their mean allows, in [0, 1].

    0 where all are the same, exactly 1 where they are zeros and ones in any mixture: (E[r^2] - m^2) / (m - m^2) for the
    mean m.

    Source: Bhatia and Davis (2000), A Better Bound on the Variance, American Mathematical Monthly 107:353.

    Raises:
        ValueError: no rewards.
    """
    if not rewards:
        raise ValueError("expected at least one reward, got none")
    if not mixed(rewards):
        return 0.0
    mean, squares = fsum(rewards) / len(rewards), fsum(reward * reward for reward in rewards) / len(rewards)
    largest = mean - mean * mean
    # Rewards that differ in their last digit alone: rounding may leave nothing of either.
    return min(1.0, max(0.0, (squares - mean * mean) / largest)) if largest > 0.0 else 0.0


def positives(
    rewards: Sequence[float],
    admit_at: float = 1.0,
    *,
    top: float | None = None,
    ranks: Sequence[int] | None = None,
) -> tuple[bool, ...]:
    """Which rollouts of a group are positives: those with a reward of at least `admit_at`.

    With `top`, a share in (0, 1], the best ones of the group instead: that share of its rollouts, rounded down, but at
    least one; of equal rewards those with lower `ranks`, which are their places by default; never one with reward 0.

    Raises:
        ValueError: a share outside (0, 1].
    """
    if top is None:
        return tuple(reward >= admit_at for reward in rewards)
    if not 0.0 < top <= 1.0:
        raise ValueError(f"expected a share in (0, 1], got {top!r}")
    count = max(1, floor(top * len(rewards) + 1e-9))
    ranks = range(len(rewards)) if ranks is None else ranks
    best = sorted(range(len(rewards)), key=lambda place: (-rewards[place], ranks[place]))[:count]
    return tuple(place in best and reward > 0.0 for place, reward in enumerate(rewards))
