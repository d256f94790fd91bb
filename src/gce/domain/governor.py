"""The budget governor: which problems of an iteration are worth further rollouts, from the rewards of the first ones.

Draws no random numbers and knows no tokens: a rollout that teaches nothing is saved, whatever it costs. Source: the
value of a rollout follows from the variance of its group's rewards, as in the budget of ScalarScope's governor and the
dynamic sampling of DAPO (Yu et al., 2025, section 3.2), which draws such groups in full and then drops them.
"""

from __future__ import annotations

from collections import Counter
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


def worth_more(
    rewards: Sequence[float],
    right: Sequence[str],
    algorithm: Algorithm,
    *,
    per_problem: int | None,
    deduplicate: bool = True,
) -> bool:
    """Whether further rollouts of a problem can teach anything, given those that did not fail.

    With a replay buffer: while it has a place for another right answer, and a further rollout may be a new one. The
    probability of that is estimated by Good and Turing as the share of rollouts with a right answer that was seen
    once: 0 where each right answer was seen again. With the weights of an algorithm: unless they are 0 for want of a
    mixed outcome, which a single rollout cannot have.

    Args:
        rewards: of the problem's rollouts, in [0, 1].
        right: the right answers among them, as often as each occurred.
        algorithm: what learns from them.
        per_problem: right answers of one problem that the replay buffer keeps; None for no limit.
        deduplicate: whether it keeps only one of several equal answers.

    Source: Good (1953), The Population Frequencies of Species and the Estimation of Population Parameters, equation 9.
    """
    if algorithm.weigh is not None:
        return len(rewards) < 2 or mixed(rewards) or any(algorithm.weigh((1.0,) * len(rewards)))
    seen = Counter(right)
    held = len(seen) if deduplicate else len(right)
    if per_problem is not None and held >= per_problem:
        return False
    return not (deduplicate and seen) or 1 in seen.values()
