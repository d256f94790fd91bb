"""Whether a candidate is faster: pairs of processor times, an exact sequential interval of their ratio, a verdict.

The ratio of two times is judged by the median of d = ln(time / other time) over rounds. Its interval is that of the
sign test: the k-th smallest and k-th largest d, with k such that over all looks together the lower limit exceeds the
true median with a probability of at most 2.5 %, and so does the upper limit fall below it. This holds for any
distribution of noise, as long as rounds are independent. Nothing is drawn; the percentile bootstrap interval
of a median approximates the same order statistics.

Source: Hettmansperger and McKean (2011), Robust Nonparametric Statistical Methods, section 1.5; Lan and DeMets (1983),
Discrete sequential boundaries for clinical trials, Biometrika 70:659, with spending in proportion to the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import comb, exp, log
from statistics import median
from typing import Literal

from attrs import field, frozen

from gce.domain.statistics import Estimate

__all__ = [
    "BATCH",
    "CLOSE",
    "FAILED",
    "FIRST",
    "GAIN",
    "LEAST_HUMAN",
    "LEVEL",
    "LOOKS",
    "MOST",
    "Comparison",
    "Decision",
    "Instructions",
    "Round",
    "Rule",
    "Timing",
    "Verdict",
    "decide",
    "decide_same",
    "ratio",
    "ratio_words",
]

FIRST, BATCH, MOST = 10, 5, 30
"""Rounds at the first look, between looks, and at the last one. With fewer than 7 rounds no interval has the level."""
LOOKS = range(FIRST, MOST + 1, BATCH)
"""Numbers of rounds after which a decision may be taken."""
LEVEL = 0.025
"""Probability, over all looks together, that the interval lies above the true ratio; and that it lies below."""
GAIN = 1.05
"""The ratio that a gain must exceed."""
CLOSE = 0.95
"""The ratio to the human's time above which a candidate matches the human."""
LEAST_HUMAN = 1.2
"""The gain that the human's form of an admitted task has at least."""

Verdict = Literal[
    "incorrect", "no gain", "partial", "matches the human", "beats the human", "inconclusive", "infrastructure failure"
]
FAILED: Verdict = "infrastructure failure"
"""The verdict where sandboxes vanished: says nothing about the candidate, and is in no rate."""


@frozen
class Timing:
    """One run of a workload in a new process, seen from outside that process."""

    seconds: float
    """Processor time, user and system, from before the code was imported until the result was written."""
    wall: float = 0.0
    """Wall-clock seconds of the same."""
    peak: int = 0
    """Largest resident memory, in bytes."""


@frozen
class Instructions:
    """Instructions of one call of each version on one input; they decide nothing."""

    base: int
    candidate: int
    human: int | None = None

    @property
    def gain(self) -> float:
        """Those of the base over those of the candidate."""
        return self.base / self.candidate


@frozen
class Round:
    """One timing of each version on the same input, at the same time."""

    seed: int
    """From which the input was drawn."""
    base: Timing
    candidate: Timing
    human: Timing | None = None


@frozen
class Decision:
    """What rounds show so far. Ratios are None before the first look."""

    verdict: Verdict
    settled: bool
    """Whether further rounds are not needed."""
    gain: Estimate | None = None
    """Time of the base over that of the candidate."""
    against: Estimate | None = None
    """Time of the human's form over that of the candidate; None without the human's form."""
    human: Estimate | None = None
    """Time of the base over that of the human's form; None without it."""


Rule = Callable[[Sequence[Round]], Decision]


@frozen
class Comparison:
    """A candidate compared with the base of a task: is it equal, and is it faster?"""

    task: str
    verdict: Verdict
    rounds: tuple[Round, ...] = ()
    gain: Estimate | None = None
    """See `Decision`; None for an incorrect candidate."""
    against: Estimate | None = None
    human: Estimate | None = None
    equal: int = 0
    """Inputs on which the outputs of base and candidate were compared and equal, timed ones included."""
    fault: str = ""
    """Why the candidate is incorrect, or nothing could be measured."""
    instructions: Instructions | None = None
    """None where they were not counted."""
    accuracy: Mapping[str, float] = field(factory=dict)
    """What the task's `accuracy_command` printed, by version of the code; empty without one."""

    @property
    def failed(self) -> bool:
        """Whether nothing could be measured."""
        return self.verdict == FAILED

    @property
    def reward(self) -> float:
        """ln(gain) over the human's ln(gain), in [0, 1]; 0 unless a gain was shown, or without the human's form."""
        if self.gain is None or self.human is None or self.verdict in ("incorrect", "no gain", "inconclusive"):
            return 0.0
        return min(1.0, max(0.0, log(self.gain.value) / log(max(self.human.value, GAIN))))


def ratio(times: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the median ratio of paired times, first over second, with its sequential interval.

    Raises:
        ValueError: lists of different lengths, a number of rounds not in `LOOKS`, or a time of 0.
    """
    if len(times) != len(others) or len(times) not in _ranks():
        raise ValueError(f"expected as many times on both sides, and {', '.join(map(str, _ranks()))} of them")
    if min(*times, *others) <= 0.0:
        raise ValueError("expected times above 0")
    differences = sorted(log(time / other) for time, other in zip(times, others, strict=True))
    rank = _ranks()[len(differences)]
    return Estimate(exp(median(differences)), exp(differences[rank - 1]), exp(differences[-rank]))


def ratio_words(found: Comparison) -> str:
    """Return the gain, its interval and the number of rounds, as "1.21 (1.1-1.3, n = 10)"; the verdict without one."""
    gain = found.gain
    if gain is None:
        return found.verdict
    return f"{gain.value:.3g} ({gain.low:.3g}-{gain.high:.3g}, n = {len(found.rounds)})"


@cache
def _ranks() -> dict[int, int]:
    """Return the rank, counted from 1, of the difference that is the lower limit, by number of rounds measured.

    The number of d below the true median is a binomial random walk with probability 1/2, at most. The lower limit
    exceeds the median if that number is less than the rank.
    """
    reached, spent, before = {0: 1.0}, 0.0, 0
    ranks = {}
    for look in LOOKS:
        new, before = look - before, look
        steps = [comb(new, k) / 2**new for k in range(new + 1)]
        walked: dict[int, float] = {}
        for count, chance in reached.items():
            for step, share in enumerate(steps):
                walked[count + step] = walked.get(count + step, 0.0) + chance * share
        rank = 0
        while spent + walked.get(rank, 0.0) <= LEVEL * look / MOST:
            spent += walked.pop(rank, 0.0)
            rank += 1
        ranks[look], reached = rank, walked
    return ranks


def decide(rounds: Sequence[Round], *, least: float = GAIN) -> Decision:
    """Return the verdict on a correct candidate; `least` is the ratio that a gain must exceed.

    A candidate has a gain if the lower limit of base over candidate exceeds `least`. With a gain it beats the human if
    the lower limit of human over candidate exceeds `GAIN`, matches the human if that exceeds `CLOSE`, and is partial
    otherwise, or where the human's form was not timed. Without a gain the verdict is "inconclusive" if the interval
    contains both `least` and the human's ratio (`LEAST_HUMAN` where it was not timed), else "no gain".
    """
    if len(rounds) not in LOOKS:
        return Decision("inconclusive", False)
    base, candidate = [each.base.seconds for each in rounds], [each.candidate.seconds for each in rounds]
    gain, against, human = ratio(base, candidate), None, None
    people = [each.human.seconds for each in rounds if each.human is not None]
    if people:
        against, human = ratio(people, candidate), ratio(base, people)
    last = len(rounds) >= MOST
    if gain.low <= least:
        known = LEAST_HUMAN if human is None else human.value
        unclear = gain.high >= max(least, known)
        return Decision("inconclusive" if unclear else "no gain", last or gain.high < least, gain, against, human)
    if against is None:
        return Decision("partial", True, gain)
    if against.low > GAIN:
        return Decision("beats the human", True, gain, against, human)
    if against.low > CLOSE:
        return Decision("matches the human", last or against.high < GAIN, gain, against, human)
    return Decision("partial", last or against.high < CLOSE, gain, against, human)


def decide_same(rounds: Sequence[Round]) -> Decision:
    """As `decide`, but settled once the interval lies within [`CLOSE`, `GAIN`]: for identical code."""
    found = decide(rounds)
    within = found.gain is not None and found.gain.low >= CLOSE and found.gain.high <= GAIN
    return Decision(found.verdict, within or len(rounds) >= MOST, found.gain, found.against, found.human)
