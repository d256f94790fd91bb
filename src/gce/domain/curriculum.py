"""Who gets how many rollouts next: problems with a mixed outcome teach, the more the further their rewards differ.

Reads rewards of training rollouts only, never an evaluation; held-out tiers are not among the tiers it is given.
Draws no random numbers: the same history gives the same plan. Knows nothing of what a problem or a tier is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from attrs import field, fields, frozen

from gce.domain.admission import mixed, relative_variance

__all__ = [
    "Allocation",
    "Policy",
    "TierHistory",
    "TierRewards",
    "expected_variance",
    "needs_demonstrations",
    "open_levels",
    "plan",
    "predicted_wave",
    "remember",
    "second_wave",
    "tier_rewards",
]

Policy = Literal["adaptive", "uniform"]
Allocation = Literal["rewards", "critic"]
"""What a second wave is allocated by."""

LEVEL_HOLDS = 0.1
"""Mean reward from which the next curriculum level is tried."""
ENOUGH_WITHOUT_DEMONSTRATIONS = 0.2
"""Mean reward of rollouts without demonstrations from which on a tier needs none."""


@frozen
class TierRewards:
    """What one iteration's training rollouts of a tier showed; `tier_rewards` makes it."""

    problems: float
    undecided: float
    """The problems' relative variances of rewards, added up: where rewards are 0 or 1, those with a mixed outcome."""
    rollouts: float
    right: float
    """Rewards of the rollouts, added up: where they are 0 or 1, those that were right."""
    alone: float
    """Rollouts without demonstrations."""
    alone_right: float
    """Their rewards, added up."""

    @property
    def mean(self) -> float:
        """The mean reward."""
        return self.right / self.rollouts


def tier_rewards(groups: Iterable[Sequence[tuple[float, bool]]]) -> TierRewards:
    """What the rollouts of a tier showed, a group for each problem: rewards, and whether demonstrations were shown.

    Raises:
        ValueError: a group without rollouts.
    """
    found = list(groups)
    rewards = [reward for group in found for reward, _ in group]
    alone = [reward for group in found for reward, shown in group if not shown]
    undecided = math.fsum(relative_variance([reward for reward, _ in group]) for group in found)
    return TierRewards(len(found), undecided, len(rewards), math.fsum(rewards), len(alone), math.fsum(alone))


@frozen
class TierHistory:
    """What past training rollouts showed of each tier, by tier; recent ones weigh more. Starts empty.

    Fields are those of `TierRewards`, each number weighing less the longer ago it was.
    """

    problems: Mapping[str, float] = field(factory=dict)
    undecided: Mapping[str, float] = field(factory=dict)
    rollouts: Mapping[str, float] = field(factory=dict)
    right: Mapping[str, float] = field(factory=dict)
    alone: Mapping[str, float] = field(factory=dict)
    alone_right: Mapping[str, float] = field(factory=dict)


def remember(history: TierHistory, showed: Mapping[str, TierRewards], *, decay: float = 0.7) -> TierHistory:
    """The history after one more iteration, given what its training rollouts showed.

    Everything remembered weighs `decay` times what it did: with 0.7, half after two iterations.

    Raises:
        ValueError: a decay outside [0, 1].
    """
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"expected a decay in [0, 1], got {decay!r}")

    def after(name: str) -> dict[str, float]:
        weights = {tier: decay * weight for tier, weight in getattr(history, name).items()}
        return weights | {tier: weights.get(tier, 0.0) + getattr(each, name) for tier, each in showed.items()}

    return TierHistory(*(after(each.name) for each in fields(TierHistory)))


def open_levels(history: TierHistory, tiers: Sequence[str]) -> tuple[str, ...]:
    """The first of `tiers`, from easy to hard, and each after a tier with a mean reward of `LEVEL_HOLDS`."""
    found = []
    for tier in tiers:
        found.append(tier)
        if history.right.get(tier, 0.0) < LEVEL_HOLDS * history.rollouts.get(tier, math.inf):
            break
    return tuple(found)


def needs_demonstrations(history: TierHistory, tier: str) -> bool:
    """Whether rollouts without demonstrations earn less than `ENOUGH_WITHOUT_DEMONSTRATIONS`, or there were none."""
    alone = history.alone.get(tier, 0.0)
    return not alone or history.alone_right.get(tier, 0.0) / alone < ENOUGH_WITHOUT_DEMONSTRATIONS


def expected_variance(history: TierHistory, tier: str) -> float:
    """The mean relative variance of rewards that is expected of the tier's problems, in (0, 1).

    Where rewards are 0 or 1, it is the share of problems expected to have a mixed outcome.

    Counted, not derived from the accuracy: 1 - p^K - (1 - p)^K would hold only if all problems of a tier were equally
    hard, and promises too much where they differ. The mean of a Beta(1, 1) prior after the weighed counts: 0.5 for a
    tier never sampled, so new tiers are tried.
    """
    return (history.undecided.get(tier, 0.0) + 1.0) / (history.problems.get(tier, 0.0) + 2.0)


def plan(
    history: TierHistory,
    tiers: Sequence[str],
    *,
    problems: int,
    policy: Policy = "adaptive",
    floor: float = 0.25,
) -> dict[str, int]:
    """How many problems each tier gets in the next iteration; adds up to `problems`.

    Every tier gets at least `floor` of an even share, rounded up where the total allows it, and never less than one
    problem: a tier that teaches nothing now is how the policy finds out that it does later. The rest goes by
    `expected_variance` (adaptive) or evenly (uniform), by largest remainder; ties go to the earlier tier.

    Raises:
        ValueError: no tiers, a tier twice, fewer problems than tiers, a floor outside [0, 1], an unknown policy.
    """
    names = tuple(tiers)
    if not names or len(set(names)) != len(names):
        raise ValueError(f"expected training tiers, each once, got {names!r}")
    if problems < len(names):
        raise ValueError(f"expected at least one problem for each of {len(names)} tiers, got {problems!r}")
    if not 0.0 <= floor <= 1.0:
        raise ValueError(f"expected a floor in [0, 1], got {floor!r}")
    if policy not in ("adaptive", "uniform"):
        raise ValueError(f"expected policy adaptive or uniform, got {policy!r}")
    wanted = math.ceil(floor * problems / len(names) - 1e-9)
    least = max(1, min(wanted, problems // len(names)))
    weights = [expected_variance(history, tier) if policy == "adaptive" else 1.0 for tier in names]
    rest = _largest_remainder(weights, problems - least * len(names))
    return {tier: least + extra for tier, extra in zip(names, rest, strict=True)}


def second_wave(groups: Mapping[str, Sequence[float]], rollouts: int, *, admit_at: float = 1.0) -> dict[str, int]:
    """Extra rollouts for problems of a first wave, from its rewards: `rollouts` in all where they find a place.

    Problems with a mixed outcome come first, by `relative_variance` of their rewards, the largest first, and where that
    is equal, as it is where rewards are 0 or 1, by mean reward, the smallest first; then problems whose rewards are all
    the same and below `admit_at`; never those whose rewards are all the same and not below it. Inside each of the two
    kinds the rollouts go round, one each, until every problem has as many extra ones as its first wave had.
    Problems that get none are left out; ties go to the earlier problem.

    Raises:
        ValueError: a negative number, or a problem without rewards.
    """
    if rollouts < 0:
        raise ValueError(f"expected rollouts from 0, got {rollouts!r}")
    for problem, rewards in groups.items():
        if not rewards:
            raise ValueError(f"expected at least one verdict for problem {problem!r}, got none")
    rank = {
        problem: (-relative_variance(rewards), math.fsum(rewards) / len(rewards)) for problem, rewards in groups.items()
    }
    open_ones = sorted((problem for problem in groups if mixed(groups[problem])), key=rank.__getitem__)
    all_wrong = [problem for problem, rewards in groups.items() if max(rewards) < admit_at and not mixed(rewards)]
    extra: dict[str, int] = {}
    for kind in (open_ones, all_wrong):
        given = _go_round([len(groups[problem]) for problem in kind], rollouts)
        extra.update((problem, count) for problem, count in zip(kind, given, strict=True) if count)
        rollouts -= sum(given)
    return extra


def predicted_wave(predicted: Mapping[str, Sequence[float]], rollouts: int) -> dict[str, int]:
    """Extra rollouts for problems in proportion to p (1 - p), with p the mean reward that a critic predicts.

    Problems that get none are left out; ties go to the earlier problem.

    Raises:
        ValueError: a negative number, or a problem without predictions.
    """
    if rollouts < 0:
        raise ValueError(f"expected rollouts from 0, got {rollouts!r}")
    if empty := [problem for problem, found in predicted.items() if not found]:
        raise ValueError(f"expected at least one prediction for problem {empty[0]!r}, got none")
    means = {problem: math.fsum(found) / len(found) for problem, found in predicted.items()}
    variances = {problem: p * (1.0 - p) for problem, p in means.items() if 0.0 < p < 1.0}
    given = _largest_remainder(variances.values(), rollouts) if variances else []
    return {problem: count for problem, count in zip(variances, given, strict=True) if count}


def _go_round(room: Sequence[int], total: int) -> list[int]:
    """One for each in turn until `total` are given or all have what they have room for."""
    given = [0] * len(room)
    while total and (takers := [index for index, space in enumerate(room) if given[index] < space]):
        for index in takers[:total]:
            given[index] += 1
        total -= min(total, len(takers))
    return given


def _largest_remainder(weights: Iterable[float], total: int) -> list[int]:
    """Whole numbers in proportion to `weights` that add up to `total`; ties go to the earlier one."""
    shares = list(weights)
    whole = math.fsum(shares)
    quotas = [total * share / whole for share in shares]
    given = [math.floor(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda index: given[index] - quotas[index])
    for index in by_remainder[: total - sum(given)]:
        given[index] += 1
    return given
