"""Map verdicts to a reward in [0, 1]: all or nothing, or a raw score scaled from its declared range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from attrs import field, frozen

from gce.domain.verdicts import Verdict

__all__ = ["Reward", "Scored", "all_right", "lowest_score"]

Reward = Callable[[Sequence[Verdict]], float | None]
"""Maps the verdicts on one answer to a reward in [0, 1]; None if the answer could not be judged."""


def all_right(verdicts: Sequence[Verdict]) -> float | None:
    """Return 1 if there are verdicts and all are right, otherwise 0; None if one of them failed."""
    if any(verdict.status == "failed" for verdict in verdicts):
        return None
    return float(bool(verdicts) and all(verdict.right for verdict in verdicts))


def lowest_score(verdicts: Sequence[Verdict]) -> float | None:
    """Return the lowest score; None if there are no verdicts or one of them failed."""
    scores = [None if verdict.status == "failed" else verdict.score for verdict in verdicts]
    judged = [score for score in scores if score is not None]
    return min(judged) if judged and len(judged) == len(scores) else None


@frozen
class Scored:
    """A reward from a raw score: its declared range is mapped linearly to [0, 1], and the raw score is kept."""

    score: Callable[[Sequence[Verdict]], float | None]
    """Maps verdicts to a raw score in [low, high]; None if the answer could not be judged."""
    low: float = field()
    high: float = field()

    @high.validator
    def _is_a_range(self, _attribute: object, value: float) -> None:
        if not (isfinite(self.low) and isfinite(value) and self.low < value):
            raise ValueError(f"expected a range of scores, got {self.low!r} to {value!r}")

    def __call__(self, verdicts: Sequence[Verdict]) -> float | None:
        """Return the reward for these verdicts; None if the answer could not be judged.

        Raises:
            ValueError: a score outside the range.
        """
        score = self.score(verdicts)
        return None if score is None else self.reward(score)

    def reward(self, score: float) -> float:
        """Return the reward for a raw score.

        Raises:
            ValueError: a score outside the range.
        """
        if not self.low <= score <= self.high:
            raise ValueError(f"expected a score in [{self.low:g}, {self.high:g}], got {score!r}")
        return (score - self.low) / (self.high - self.low)
