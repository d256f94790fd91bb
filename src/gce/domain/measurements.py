"""What a run measures: rates with their intervals, and the record of one iteration. Seconds are wall-clock seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from math import fsum
from operator import add
from typing import TYPE_CHECKING

from attrs import field, fields, frozen

from gce.domain.admission import mixed
from gce.domain.serialization import OMIT_DEFAULT

if TYPE_CHECKING:
    from gce.domain.answers import Answer

__all__ = [
    "Counted",
    "Interval",
    "IterationRecord",
    "MeanReward",
    "TierCount",
    "TrainingMetrics",
    "add_counts",
    "count_tier",
    "is_unparsed",
]

UNPARSED = frozenset({"grammar", "missing-answer", "several-answers"})
"""Kinds of violations of answers that could not be read."""


@frozen
class Interval:
    """A share with its confidence interval."""

    n: int
    """Those that were judged, whatever was found; what failed is not among them."""
    correct: int
    low: float
    high: float
    unreadable: int = 0
    """Of `n`, those in which no answer could be read."""
    failed: int = 0
    """Further ones, which the sandbox, the server or the verifier failed to judge or to answer."""

    @property
    def coverage(self) -> float:
        """The share of all that were asked which did not fail; 1 where none was asked."""
        return self.n / (self.n + self.failed) if self.n + self.failed else 1.0

    @property
    def share(self) -> float:
        """The point estimate, 0 where n is 0."""
        return self.correct / self.n if self.n else 0.0

    @property
    def value(self) -> float:
        """The same, under the name that it has in a `MeanReward`."""
        return self.share


@frozen
class MeanReward:
    """The mean reward of answers that were judged, with its confidence interval; all in [0, 1]."""

    n: int
    """Number of rewards; answers that failed have none."""
    total: float
    """Their sum."""
    low: float
    high: float
    graded: bool = False
    """True if one of the rewards is neither 0 nor 1."""

    @property
    def value(self) -> float:
        """The mean, 0 where n is 0."""
        return self.total / self.n if self.n else 0.0


@frozen
class TierCount:
    """Training rollouts of one tier in one iteration."""

    rollouts: int
    correct: int
    """Those that were right: positives, whose reward is at least the task's `admit_at`."""
    problems: int
    all_right: int
    """Problems whose rollouts all had the same reward, at least the task's `admit_at`."""
    all_wrong: int
    """Problems whose rollouts all had the same reward, below that. A problem none of whose rollouts was right is not
    among them where partial rewards differ."""
    truncated: int
    """Rollouts that hit the token limit."""
    unparsed: int
    """Rollouts without one readable answer."""
    distinct: int
    """Distinct correct traces."""
    mean_tokens: float
    shown: int = 0
    """Rollouts whose prompt began with demonstrations."""
    shown_correct: int = 0
    reward: float | None = field(default=None, metadata=OMIT_DEFAULT)
    """Sum of the rewards; None where each is 0 or 1, so that it is `correct`."""

    @property
    def equal_rewards(self) -> int:
        """Problems whose rollouts all had the same reward."""
        return self.all_right + self.all_wrong

    @property
    def graded_problems(self) -> int:
        """Problems whose rollouts have different rewards, where rewards are graded; 0 where each is 0 or 1."""
        return 0 if self.reward is None else self.problems - self.equal_rewards

    @property
    def total_reward(self) -> float:
        """Sum of the rewards."""
        return self.correct if self.reward is None else self.reward

    def __add__(self, other: TierCount) -> TierCount:
        """Both as one; `mean_tokens` weighs by rollouts."""
        names = [each.name for each in fields(TierCount) if each.name != "reward"]
        found = {name: getattr(self, name) + getattr(other, name) for name in names}
        graded = self.reward is not None or other.reward is not None
        found["reward"] = self.total_reward + other.total_reward if graded else None
        tokens = self.mean_tokens * self.rollouts + other.mean_tokens * other.rollouts
        rollouts = found["rollouts"]
        return TierCount(**found | {"mean_tokens": tokens / rollouts if rollouts else 0.0})


@frozen
class Counted:
    """A training rollout as it is counted."""

    answer: Answer
    """One that did not fail."""
    digest: str
    """Of its trace: equal for answers that teach the same."""
    tokens: int
    """Tokens that the model wrote, over all its replies; 0 where the backend does not tell."""
    shown: bool = False
    """Whether its prompt began with demonstrations."""


def count_tier(rollouts: Sequence[Counted], *, admit_at: float = 1.0) -> TierCount:
    """The counts of one tier's rollouts, at least one; equal rewards of a problem are all right from `admit_at` on."""
    groups: dict[str, list[float]] = defaultdict(list)
    for each in rollouts:
        groups[each.answer.problem.key].append(each.answer.reward or 0.0)
    decided = [rewards[0] >= admit_at for rewards in groups.values() if not mixed(rewards)]
    right = [each for each in rollouts if each.answer.right]
    rewards = [reward for group in groups.values() for reward in group]
    return TierCount(
        rollouts=len(rollouts),
        correct=len(right),
        problems=len(groups),
        all_right=decided.count(True),
        all_wrong=decided.count(False),
        truncated=sum(each.answer.completion.finish_reason == "length" for each in rollouts),
        unparsed=sum(is_unparsed(each.answer) for each in rollouts),
        distinct=len({each.digest for each in right}),
        mean_tokens=sum(each.tokens for each in rollouts) / len(rollouts),
        shown=sum(each.shown for each in rollouts),
        shown_correct=sum(each.shown for each in right),
        reward=None if set(rewards) <= {0.0, 1.0} else fsum(rewards),
    )


def is_unparsed(answer: Answer) -> bool:
    """Whether an answer could not be read: its format is wrong, whatever it says."""
    kinds = (violation.kind for verdict in answer.verdicts for violation in verdict.violations)
    return answer.outcome == "unreadable" or any(kind in UNPARSED for kind in kinds)


def add_counts(counts: Sequence[TierCount]) -> TierCount:
    """The counts of several iterations or tiers as one.

    Raises:
        ValueError: nothing to add.
    """
    if not counts:
        raise ValueError("expected counts to add, got none")
    return reduce(add, counts)


@frozen(kw_only=True)
class TrainingMetrics:
    """Metrics of an iteration's rollouts and optimizer steps, beside those of `IterationRecord` and `TierCount`.

    What is unknown is None, as rewards in a warm-up or ratios without log-probabilities. Metrics of steps are means
    over the iteration's steps unless they say otherwise; `gce.domain.learning.UpdateReport` defines them.
    """

    reward: float | None = None
    """Mean reward of rollouts, in [0, 1]."""
    reward_std: float | None = None
    """Sample standard deviation of these rewards; None if there are fewer than two."""
    learning_rate: float | None = None
    """That of the last step."""
    kl: float | None = None
    """From the base model; None unless the objective has a KL term."""
    approx_kl: float | None = None
    """Of the policy that sampled from the policy that is trained."""
    clipped_low: float | None = None
    clipped_high: float | None = None
    logp_difference: float | None = None
    """Of the iteration's first step alone: in an iteration that trains on its own rollouts, the weights are still those
    that sampled, and what differs is the computation."""
    max_logp_difference: float | None = None
    """Of the first step, too."""
    max_length: int | None = None
    """Tokens of the longest completion."""
    tokens: int = 0
    """Tokens of prompts and completions of all rollouts since the start of the run, and of continuations of them, where
    the model reports them."""


@frozen
class IterationRecord:
    """One iteration of a run as it is printed and stored."""

    iteration: int
    tiers: Mapping[str, TierCount]
    buffer: Mapping[str, int]
    """Traces held, by tier, after admission."""
    admitted: int
    updates: int
    loss: float | None
    """Mean over the iteration's updates; None where there was none."""
    gradient_norm: float | None
    entropy: float | None
    """Mean negative log-probability of sampled tokens, nats a token."""
    dropped: int
    dev: Mapping[str, Interval] = field(factory=dict)
    """Greedy accuracy on dev problems by tier; empty where it was not evaluated."""
    seconds: Mapping[str, float] = field(factory=dict)
    """By stage: sample, verify, train, evaluate. Excluded from what must repeat."""
    failed: Mapping[str, int] = field(factory=dict)
    """By tier, rollouts that failed; they are not among those of `tiers`."""
    dev_reward: Mapping[str, MeanReward] = field(factory=dict, metadata=OMIT_DEFAULT)
    """Mean rewards on dev problems by tier; empty where each reward is 0 or 1."""
    metrics: TrainingMetrics | None = None
    """None in runs of earlier versions."""
    saved: int = field(default=0, metadata=OMIT_DEFAULT)
    """Rollouts that an adaptive governor did not draw, because they could teach nothing."""

    credit_tokens: int = field(default=0, metadata=OMIT_DEFAULT)
    """Tokens of continuations that were sampled to value the prefixes of answers."""
    staleness: int = field(default=0, metadata=OMIT_DEFAULT)
    """How many iterations were learned between the weights that wrote the rollouts and those that learn from them."""

    @property
    def graded(self) -> bool:
        """Whether a rollout's reward is neither 0 nor 1."""
        return any(count.reward is not None for count in self.tiers.values())

    @property
    def tokens_per_second(self) -> float | None:
        """Generated tokens per second of sampling; None without rollouts or the time they took."""
        seconds = self.seconds.get("sample", 0.0)
        generated = sum(count.mean_tokens * count.rollouts for count in self.tiers.values())
        return generated / seconds if seconds > 0 and generated else None
