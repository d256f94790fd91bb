"""From verdicts to a reward in [0, 1]: all right or nothing, or a raw score mapped from its declared range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from attrs import field, frozen

from gce.domain.verdicts import Verdict

__all__ = ["Reward", "Scored", "all_right"]

Reward = Callable[[Sequence[Verdict]], float | None]
"""Verdicts of one answer -> a reward in [0, 1]; None where the answer could not be judged."""


def all_right(verdicts: Sequence[Verdict]) -> float | None:
    """1 where there are verdicts and all are right, else 0; None where one failed."""
    if any(verdict.status == "failed" for verdict in verdicts):
        return None
    return float(bool(verdicts) and all(verdict.right for verdict in verdicts))


@frozen
class Scored:
    """A reward made of a raw score, whose declared range is mapped linearly onto [0, 1]; the raw score is kept too."""

    score: Callable[[Sequence[Verdict]], float | None]
    """Verdicts -> raw score in [low, high]; None where the answer could not be judged."""
    low: float = field()
    high: float = field()

    @high.validator
    def _is_a_range(self, _attribute: object, value: float) -> None:
        if not (isfinite(self.low) and isfinite(value) and self.low < value):
            raise ValueError(f"expected a range of scores, got {self.low!r} to {value!r}")

    def __call__(self, verdicts: Sequence[Verdict]) -> float | None:
        """The reward for these verdicts.

        Raises:
            ValueError: a score outside the range.
        """
        score = self.score(verdicts)
        return None if score is None else self.reward(score)

    def reward(self, score: float) -> float:
        """The reward for a raw score.

        Raises:
            ValueError: a score outside the range.
        """
        if not self.low <= score <= self.high:
            raise ValueError(f"expected a score in [{self.low:g}, {self.high:g}], got {score!r}")
        return (score - self.low) / (self.high - self.low)
