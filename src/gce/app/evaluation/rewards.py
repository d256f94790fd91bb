"""Mean rewards of answers, which stand beside accuracy where a task's rewards are not all 0 or 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from gce.app.evaluation.scoring import stored_reward
from gce.domain.answers import Answer
from gce.domain.baselines import PolicyScore
from gce.domain.conversations import Conversation
from gce.domain.measurements import MeanReward
from gce.domain.metrics import by_unit
from gce.domain.metrics.means import REWARD
from gce.domain.outcomes import mean_reward
from gce.domain.serialization import from_plain
from gce.domain.statistics import DEFAULT_INTERVAL
from gce.ports.runs import RunReader

__all__ = [
    "Rewards",
    "from_stored",
    "is_graded",
    "reference_rewards",
    "rewards_of_answers",
    "rewards_of_conversations",
    "rewards_of_run",
]

Rewards = Mapping[str, MeanReward]
"""Mean rewards by tier."""

MOMENTS = ("before", "after")


def is_graded(rows: Iterable[Rewards]) -> bool:
    """Return whether any reward is neither 0 nor 1."""
    return any(found.graded for row in rows for found in row.values())


def rewards_of_conversations(conversations: Sequence[Conversation], *, method: str) -> Rewards:
    """Return the mean reward of each tier over its problems, with intervals by one of the methods in `INTERVALS`."""
    units = by_unit(REWARD, conversations)
    found = _by_tier(((tier, reward) for (tier, *_), reward in units.items()), method=method)
    # A problem's samples of 0 and 1 have a fraction for their mean, and are not graded.
    graded = {each.last.problem.tier for each in conversations if each.last.reward not in (None, 0.0, 1.0)}
    return {tier: evolve(mean, graded=tier in graded) for tier, mean in found.items()}


def rewards_of_answers(answers: Iterable[Answer]) -> Rewards:
    """Return the mean rewards of one answer per problem; empty if each reward is 0 or 1."""
    found = _by_tier((answer.problem.tier, answer.reward) for answer in answers)
    return found if is_graded([found]) else {}


def reference_rewards(scores: Iterable[PolicyScore]) -> dict[str, dict[str, MeanReward]]:
    """Return mean rewards by policy and tier."""
    rows: dict[str, dict[str, MeanReward]] = {}
    for score in scores:
        rows.setdefault(score.policy, {})[score.tier] = score.reward
    return rows


def rewards_of_run(run: RunReader) -> dict[str, Rewards]:
    """Return the mean rewards of a run's stored answers to test problems, `before` and `after`."""
    return {
        moment: _by_tier((answer["tier"], stored_reward(answer)) for answer in run.each_answer(f"test-{moment}"))
        for moment in MOMENTS
    }


def from_stored(row: Mapping[str, Any]) -> Rewards:
    """Read mean rewards back from a record."""
    return {tier: from_plain(MeanReward, found) for tier, found in row.items()}


def _by_tier(rewards: Iterable[tuple[str, float | None]], *, method: str = DEFAULT_INTERVAL) -> Rewards:
    tiers: dict[str, list[float | None]] = {}
    for tier, reward in rewards:
        tiers.setdefault(tier, []).append(reward)
    return {tier: mean_reward(found, method=method) for tier, found in tiers.items()}
