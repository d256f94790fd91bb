"""The weight of each sampled trace in the loss, from the rewards of one problem's rollouts (a group).

Methods differ in the weights, in the importance ratios that multiply them and how these are clipped, in what the loss
is divided by (`gce.domain.learning.Objective`), and in whether traces of earlier iterations are learned from. A reward
is in [0, 1]: 1 is right, 0 is wrong, what lies between is partly right; the loop gives 1 to what it admits and 0 to the
rest. Knows nothing of traces or models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from gce.domain.admission import mixed

if TYPE_CHECKING:
    from gce.domain.learning import Normalization, Ratio

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "centered",
    "drop_decided",
    "group_relative",
    "leave_one_out",
    "rejection",
    "signed",
    "truncated_ratios",
    "weighted",
]


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
    if eps < 0.0:
        raise ValueError(f"expected eps from 0, got {eps!r}")
    deviations = centered(rewards)
    if not any(deviations):
        return deviations
    std = math.sqrt(math.fsum(deviation * deviation for deviation in deviations) / len(rewards))
    return tuple(deviation / (std + eps) for deviation in deviations)


def centered(rewards: Sequence[float]) -> tuple[float, ...]:
    """Reward - mean of the group; exactly 0 where all rewards are equal.

    Dr. GRPO does not divide by the standard deviation, which would weigh problems with nearly equal rewards more.

    Source: Liu et al. (2025), Understanding R1-Zero-Like Training: A Critical Perspective, section 3.2.

    Raises:
        ValueError: a reward outside [0, 1].
    """
    _check_rewards(rewards)
    if not mixed(rewards):
        return (0.0,) * len(rewards)
    mean = math.fsum(rewards) / len(rewards)
    return tuple(reward - mean for reward in rewards)


def leave_one_out(rewards: Sequence[float]) -> tuple[float, ...]:
    """Reward - mean of the group's other rewards: G / (G - 1) times the centered reward for G rollouts.

    The baseline does not depend on the rollout itself, so the policy gradient is unbiased. A single rollout has no
    baseline and weighs 0.

    Source: RLOO, Ahmadian et al. (2024), Back to Basics: Revisiting REINFORCE Style Optimization for Learning from
    Human Feedback in LLMs, section 2.2; Kool et al. (2019), Buy 4 REINFORCE Samples, Get a Baseline for Free!

    Raises:
        ValueError: a reward outside [0, 1].
    """
    size = len(rewards)
    return tuple(size / (size - 1) * deviation if deviation else 0.0 for deviation in centered(rewards))


def truncated_ratios(target: Sequence[float], behavior: Sequence[float], *, cap: float) -> tuple[float, ...]:
    """min(p / q, cap) for tokens of log-probability log p under the policy and log q where they were sampled.

    As factors on the tokens' weights they correct for sampling from another distribution than the policy, for example
    at another temperature.

    Source: truncated importance sampling, Ionides (2008); for samplers that differ from the learner, Yao et al. (2025),
    Your Efficient RL Framework Secretly Brings You Off-Policy RL Training.

    Raises:
        ValueError: sequences of different lengths, or a cap that is not above 0.
    """
    if not cap > 0.0:
        raise ValueError(f"expected a cap above 0, got {cap!r}")
    return tuple(math.exp(min(p - q, math.log(cap))) for p, q in zip(target, behavior, strict=True))


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
    ratio: Ratio = "token"
    """What its importance ratios are of."""
    normalization: Normalization = "token"
    """What it divides the sum of token losses by."""
    clip: tuple[float, float] = (0.2, 0.2)
    """Clipping range of ratios below and above 1, unless the run's settings have another."""
    top: float | None = None
    """Share of each iteration's rollouts, over all problems together and best rewards first, that are positives, unless
    the run's settings have another share. None: positives are chosen problem by problem."""

    @property
    def compares(self) -> bool:
        """Whether rollouts of one problem are compared: those of equal rewards, as a single one, teach nothing."""
        return self.drops_decided or (
            self.weigh is not None and not any(any(self.weigh((reward, reward))) for reward in (0.0, 1.0))
        )


ALGORITHMS: Mapping[str, Algorithm] = {
    each.name: each
    for each in (
        Algorithm("raft", None),
        Algorithm("raft++", rejection),
        Algorithm("sft-top", None, top=0.1),
        Algorithm("grpo", group_relative, graded=True),
        Algorithm("reinforce-rej", signed, drops_decided=True),
        Algorithm("weighted", None, opposes=True),
        Algorithm("rloo", leave_one_out, graded=True, ratio="product", normalization="sequence"),
        Algorithm("dr-grpo", centered, graded=True, normalization="constant"),
        Algorithm("dapo", group_relative, graded=True, drops_decided=True, clip=(0.2, 0.28)),
        Algorithm("gspo", group_relative, graded=True, ratio="sequence", normalization="sequence", clip=(3e-4, 4e-4)),
    )
}
"""By name.

Source: RAFT, Dong et al. (2023); supervised fine-tuning on the tenth of trajectories with the best scores, as in
TruthSeekingGym; RAFT++ and Reinforce-Rej, Xiong et al. (2025); GRPO, Shao et al. (2024), here with the
loss averaged over tokens; weighted REINFORCE, Zhu et al. (2025), here over a replay buffer; RLOO, Ahmadian et al.
(2024), clipped as in TRL; Dr. GRPO, Liu et al. (2025), section 3.2; DAPO, Yu et al. (2025), equation 8: clip-higher,
dynamic sampling and token-level loss; GSPO, Zheng et al. (2025), equations 5 to 7, with the clipping range of its
section 5.1.
"""


def _check_rewards(rewards: Sequence[float]) -> None:
    for reward in rewards:
        if not 0.0 <= reward <= 1.0:
            raise ValueError(f"expected rewards in [0, 1], got {reward!r}")
