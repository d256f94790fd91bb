"""The value of each prefix of an answer: the mean reward of answers that continue it; and what each segment adds.

An answer is cut at line ends. The advantage of a segment is the difference of the values at its end and at its
beginning, so that the advantages of an answer add up to its reward minus the value of the empty prefix.
Source: VinePPO, Kazemnejad et al. (2024), section 4: Monte Carlo values as advantages of steps. Draws nothing itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import isfinite
from typing import Literal

from attrs import field, frozen

from gce.domain.statistics import Estimate, mean_of_problems

__all__ = ["MOST_SEGMENTS", "Credit", "Prefix", "PrefixValues", "ends_of_segments", "prefix_values"]

Credit = Literal["outcome", "prefix-value"]
"""What the tokens of a rollout are weighed by: its outcome, or what their segment adds to the value."""

MOST_SEGMENTS = 8


@frozen
class Prefix:
    """A prefix of an answer."""

    tokens: int
    """Its length."""
    segment: str
    """The text of its last segment; empty for the empty prefix."""
    value: float
    """Mean reward of the answers that begin with it, in [0, 1]; for the whole answer, its reward."""
    low: float
    """Of the value's 95 % interval, as if each continuation answered a problem of its own."""
    high: float
    n: int
    """Answers that the value is the mean of; 1 for the whole answer."""


def _prefixes(_values: object, _attribute: object, prefixes: tuple[Prefix, ...]) -> None:
    lengths = [prefix.tokens for prefix in prefixes]
    if len(lengths) < 2 or lengths[0] or any(one >= other for one, other in itertools.pairwise(lengths)):
        raise ValueError(f"expected prefixes of growing length from 0, got {lengths}")
    if not all(isfinite(prefix.value) for prefix in prefixes):
        raise ValueError("expected finite values")


@frozen
class PrefixValues:
    """The values of an answer's prefixes, from the empty one to the whole answer."""

    prefixes: tuple[Prefix, ...] = field(validator=_prefixes)
    cost: int
    """Tokens that its continuations took, prompts not counted."""

    @property
    def advantages(self) -> tuple[float, ...]:
        """What each segment adds to the value, in [-1, 1]."""
        return tuple(after.value - before.value for before, after in itertools.pairwise(self.prefixes))

    @property
    def token_weights(self) -> tuple[float, ...]:
        """The advantage of its segment, for each token of the answer."""
        pairs = zip(itertools.pairwise(self.prefixes), self.advantages, strict=True)
        return tuple(
            itertools.chain.from_iterable([a] * (after.tokens - before.tokens) for (before, after), a in pairs)
        )


def ends_of_segments(tokens: Sequence[str], *, most: int = MOST_SEGMENTS) -> tuple[int, ...]:
    """Return after how many tokens each segment ends: at most so many, at line ends that are evenly chosen.

    Args:
        tokens: the text of each token.
        most: segments, at most.

    Raises:
        ValueError: no tokens, or no segments.
    """
    if not tokens or most < 1:
        raise ValueError(f"expected tokens and at least one segment, got {len(tokens)} and {most}")
    lines = [place for place, text in enumerate(tokens, 1) if "\n" in text and place < len(tokens)]
    count = min(most - 1, len(lines))
    chosen = [lines[(2 * place + 1) * len(lines) // (2 * count)] for place in range(count)]
    return (*dict.fromkeys(chosen), len(tokens))


def prefix_values(
    before: Sequence[float],
    segments: Sequence[tuple[int, str]],
    continued: Sequence[Sequence[float]],
    reward: float,
    *,
    cost: int = 0,
) -> PrefixValues:
    """Return the values of an answer's prefixes. A prefix without judged continuations is left out, its segment joined.

    Args:
        before: rewards of answers to the problem, in [0, 1], at least one.
        segments: of each segment, after how many tokens it ends, and its text.
        continued: rewards of the continuations of each segment's end but the last.
        reward: of the answer itself.
        cost: see `PrefixValues`.

    Raises:
        ValueError: no reward in `before`, or sequences that do not fit.
    """
    prefixes, text = [_prefix(0, "", before)], ""
    for (end, segment), rewards in zip(segments[:-1], continued, strict=True):
        text += segment
        if rewards:
            prefixes.append(_prefix(end, text, rewards))
            text = ""
    end, segment = segments[-1]
    return PrefixValues((*prefixes, Prefix(end, text + segment, reward, reward, reward, 1)), cost)


def _prefix(tokens: int, segment: str, rewards: Sequence[float]) -> Prefix:
    found: Estimate = mean_of_problems(rewards)
    return Prefix(tokens, segment, found.value, found.low, found.high, len(rewards))
