"""The weight of each sampled trace in the loss, from the rewards of one problem's rollouts (a group).

The loss is the same for all methods (`gce.domain.learning.TrainingBatch`): they differ in the weights, in whether these
are multiplied by clipped importance ratios, and in whether traces of earlier iterations are learned from. A reward is
in [0, 1]: 1 is right, 0 is wrong, what lies between is partly right; the loop gives 1 to what it admits and 0 to the
rest. Knows nothing of traces or models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from gce.domain.admission import mixed

__all__ = ["ALGORITHMS", "Algorithm", "drop_decided", "group_relative", "rejection", "signed", "weighted"]


def rejection(rewards: Sequence[float]) -> tuple[float, ...]:
    """1 for a right rollout, 0 for any other: fine-tuning on what the verifier accepts.

    Source: RAFT, Dong et al. (2023); ReST-EM, Singh et al. (2023).

    Raises:
        ValueError: a reward outside [0, 1].
    """
    return weighted(rewards, positive=1.0, negative=0.0)


def weighted(rewards: Sequence[float], *, positive: float = 1.0, negative: float = -0.1) -> tuple[float, ...]:
    """`positive` for a right rollout, `negative` for any other.

    A negative weight makes wrong rollouts less likely without naming a right one, which keeps pass@k where learning
    from right ones alone narrows it. The loss of a negative weight has no lower bound, so the default is small; the
    source takes positive = 0.1 and negative = -1.

    Source: weighted REINFORCE, Zhu et al. (2025), The Surprising Effectiveness of Negative Reinforcement.

    Raises:
        ValueError: a reward outside [0, 1].
    """
    _check_rewards(rewards)
    return tuple(positive if reward >= 1.0 else negative for reward in rewards)


def signed(rewards: Sequence[float]) -> tuple[float, ...]:
    """1 for a right rollout, -1 for any other.

    Source: Reinforce as in Xiong et al. (2025), A Minimalist Approach to LLM Reasoning.

    Raises:
        ValueError: a reward outside [0, 1].
    """
    return weighted(rewards, negative=-1.0)


def group_relative(rewards: Sequence[float], *, eps: float = 1e-6) -> tuple[float, ...]:
    """(reward - mean) / (std + eps) within the group, with the population's standard deviation; sums to 0.

    A group whose rewards are all equal weighs exactly 0. Implementations that divide by the sample's standard deviation
    get sqrt((G - 1) / G) times these weights for G rollouts.

    Source: GRPO, Shao et al. (2024), DeepSeekMath, section 4.1.2.

    Raises:
        ValueError: a reward outside [0, 1], or a negative eps.
    """
    _check_rewards(rewards)
    if eps < 0.0:
        raise ValueError(f"expected eps from 0, got {eps!r}")
    if not rewards or min(rewards) == max(rewards):
        return (0.0,) * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    deviations = [reward - mean for reward in rewards]
    std = math.sqrt(math.fsum(deviation * deviation for deviation in deviations) / len(rewards))
    return tuple(deviation / (std + eps) for deviation in deviations)


def drop_decided(
    groups: Mapping[str, Sequence[float]], *, all_right: bool = True, all_wrong: bool = True, admit_at: float = 1.0
) -> dict[str, tuple[float, ...]]:
    """The groups with a mixed outcome: where all rewards are the same, nothing tells a good rollout from a bad one.

    A group of equal rewards is all right where they are at least `admit_at`, else all wrong; either kind may stay.

    DAPO's dynamic sampling and Reinforce-Rej drop both kinds; most of GRPO's gain over RAFT comes from dropping the
    all-wrong ones. A group without rewards is dropped. Order stays.

    Source: Yu et al. (2025), DAPO, section 3.2; Xiong et al. (2025), A Minimalist Approach to LLM Reasoning.

    Raises:
        ValueError: a reward outside [0, 1].
    """
    kept: dict[str, tuple[float, ...]] = {}
    for problem, rewards in groups.items():
        _check_rewards(rewards)
        stays = bool(rewards) and not (all_right if min(rewards) >= admit_at else all_wrong)
        if mixed(rewards) or stays:
            kept[problem] = tuple(rewards)
    return kept


@frozen
class Algorithm:
    """A way to learn from rollouts: an entry of `ALGORITHMS`."""

    name: str
    weigh: Callable[[Sequence[float]], tuple[float, ...]] | None
    """With it batches come from the iteration's rollouts, weighed group by group (0 leaves one out), with importance
    ratios that are clipped. None: batches come from the replay buffer, whose traces are right and weigh 1."""
    graded: bool = False
    """Whether it weighs rewards as they are; else 1 for a positive and 0 for any other."""
    drops_decided: bool = False
    """Whether problems without a mixed outcome are left out."""
    opposes: bool = False
    """Whether to each batch from the buffer as many of the iteration's wrong rollouts are added, with a weight below
    0."""


ALGORITHMS: Mapping[str, Algorithm] = {
    each.name: each
    for each in (
        Algorithm("raft", None),
        Algorithm("raft++", rejection),
        Algorithm("grpo", group_relative, graded=True),
        Algorithm("reinforce-rej", signed, drops_decided=True),
        Algorithm("weighted", None, opposes=True),
    )
}
"""By name.

Source: RAFT, Dong et al. (2023); RAFT++ and Reinforce-Rej, Xiong et al. (2025); GRPO, Shao et al. (2024); weighted
REINFORCE, Zhu et al. (2025), here over a replay buffer.
"""


def _check_rewards(rewards: Sequence[float]) -> None:
    for reward in rewards:
        if not 0.0 <= reward <= 1.0:
            raise ValueError(f"expected rewards in [0, 1], got {reward!r}")
