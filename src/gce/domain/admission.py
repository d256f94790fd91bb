"""Which rollouts of one problem are positives, and whether their rewards tell them apart.

Rewards are in [0, 1]. Knows nothing of traces: a group is the rewards of one problem's rollouts, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

__all__ = ["mixed", "positives"]


def mixed(rewards: Sequence[float]) -> bool:
    """Whether a group has a mixed outcome: its rewards differ, so that there is something to learn from it."""
    return bool(rewards) and min(rewards) != max(rewards)


def positives(rewards: Sequence[float], admit_at: float = 1.0, *, top: float | None = None) -> tuple[bool, ...]:
    """Which rollouts of a group are positives: those with a reward of at least `admit_at`.

    With `top`, a share in (0, 1], the best ones of the group instead: that share of its rollouts, rounded down, but at
    least one; of equal rewards the earlier ones, and never one with reward 0.

    Raises:
        ValueError: a share outside (0, 1].
    """
    if top is None:
        return tuple(reward >= admit_at for reward in rewards)
    if not 0.0 < top <= 1.0:
        raise ValueError(f"expected a share in (0, 1], got {top!r}")
    count = max(1, floor(top * len(rewards) + 1e-9))
    best = sorted(range(len(rewards)), key=lambda place: -rewards[place])[:count]
    return tuple(place in best and reward > 0.0 for place, reward in enumerate(rewards))
