"""What a run measures: rates with their intervals, and the record of one iteration. Seconds are wall-clock seconds."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

__all__ = ["Interval", "IterationRecord", "TierCount"]


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


@frozen
class TierCount:
    """Training rollouts of one tier in one iteration."""

    rollouts: int
    correct: int
    """Those that were right: positives, whose reward is at least the task's `admit_at`."""
    problems: int
    all_right: int
    """Problems whose rollouts all had the same reward, and were right: nothing to learn."""
    all_wrong: int
    """Problems whose rollouts all had the same reward, and were not."""
    truncated: int
    """Rollouts that hit the token limit."""
    unparsed: int
    """Rollouts without one readable answer."""
    distinct: int
    """Distinct correct traces."""
    mean_tokens: float
    shown: int = 0
    """Rollouts whose prompt began with worked examples."""
    shown_correct: int = 0


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
