"""The budget governor: which problems of an iteration are worth further rollouts, from the rewards of the first ones.

Draws no random numbers and knows no tokens: a rollout that teaches nothing is saved, whatever it costs. Source: the
value of a rollout follows from the variance of its group's rewards, as in the budget of ScalarScope's governor and the
dynamic sampling of DAPO (Yu et al., 2025, section 3.2), which draws such groups in full and then drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gce.domain.admission import mixed
from gce.domain.algorithms import Algorithm

__all__ = ["Governor", "rounds", "worth_more"]

Governor = Literal["fixed", "adaptive"]


def rounds(samples: int, governor: Governor) -> tuple[int, ...]:
    """Return how many rollouts each round draws of a problem that is still worth more; they add up to `samples`.

    Fixed: all at once. Adaptive: one half, rounded up, and then a quarter at a time.

    Raises:
        ValueError: no samples, or an unknown governor.
    """
    if samples < 1:
        raise ValueError(f"expected at least one rollout per problem, got {samples!r}")
    if governor not in ("fixed", "adaptive"):
        raise ValueError(f"expected governor fixed or adaptive, got {governor!r}")
    if governor == "fixed":
        return (samples,)
    found, quarter = [-(-samples // 2)], -(-samples // 4)
    while (rest := samples - sum(found)) > 0:
        found.append(min(quarter, rest))
    return tuple(found)


def worth_more(rewards: Sequence[float], distinct: int, algorithm: Algorithm, per_problem: int | None) -> bool:
    """Whether further rollouts of a problem can teach anything, given those that did not fail.

    With a replay buffer, as long as it has a place for another right answer. With the weights of an algorithm, as long
    as they are not 0 for want of a mixed outcome; an algorithm that learns from equal rewards, too, always wants more.

    Args:
        rewards: of the problem's rollouts, in [0, 1].
        distinct: different right answers among them.
        algorithm: what learns from them.
        per_problem: right answers of one problem that the replay buffer keeps; None for no limit.
    """
    if algorithm.weigh is None:
        return per_problem is None or distinct < per_problem
    return not rewards or mixed(rewards) or any(algorithm.weigh((1.0,) * len(rewards)))
