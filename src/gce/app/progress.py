"""How far a run is, and how long it still takes: from what each kind of work has cost so far.

No estimate is given before enough is known: before every kind of work that is left has been timed. Knows no terminal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import exp

from attrs import define, field, frozen

__all__ = ["Forecast", "Work", "duration"]

LEAST_SHARE, LEAST_SECONDS = 0.1, 3.0
"""Of a stage that is the first of its kind, before its pace is taken for known."""
SMOOTHING = 20.0
"""Seconds in which an estimate goes two thirds of the way to a new one."""
GREEDY = dict.fromkeys(
    ("test before", "other tasks before", "evaluate", "test after", "shifts", "other tasks after"), "answer"
)
"""Stages whose steps are alike: one greedy answer."""


def duration(seconds: float) -> str:
    """Seconds in words, no finer than can be of interest: "45 s", "3 min", "2 h 10 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


@frozen
class Work:
    """The steps of each stage of a training run, as far as its settings say."""

    last: int
    """The number of the last iteration, those of the warm-up counted."""
    before: Mapping[str, float] = field(factory=dict)
    each: Mapping[str, float] = field(factory=dict)
    """In an iteration."""
    after: Mapping[str, float] = field(factory=dict)
    warm_ups: int = 0
    """The first iterations, which are parts of a warm-up."""
    warm_up: Mapping[str, float] = field(factory=dict)
    """In one of those."""

    def iteration(self, number: int) -> Mapping[str, float]:
        """The steps of this iteration, from 1."""
        return self.warm_up if number <= self.warm_ups else self.each

    def left(self, done: int) -> Counter[str]:
        """The steps by kind that come after iteration `done`."""
        parts = ((self.warm_up, max(self.warm_ups - done, 0)), (self.each, self.last - max(done, self.warm_ups)))
        found: Counter[str] = Counter()
        for stages, times in (*parts, (self.after, 1)):
            for name, steps in stages.items():
                found[GREEDY.get(name, name)] += steps * times  # type: ignore[assignment]  # a share of a step, too
        return found


@define
class Forecast:
    """What has been timed of a run; `now` is always seconds of the same clock."""

    work: Work | None = None
    """None where only the stage itself is known."""
    iteration: int | None = 0
    """Finished iterations; None where that is not known yet, as in a resumed run."""
    began: float | None = None
    name: str = ""
    """Of the present stage."""
    total: int = 0
    done: int = 0
    _begun: set[str] = field(factory=set)
    """Stages of this iteration."""
    _steps: Counter[str] = field(factory=Counter)
    _seconds: dict[str, float] = field(factory=dict)
    """By kind, of stages that are over."""
    _stage_began: float = 0.0
    _ends: float | None = None
    _asked: float = 0.0

    def begin(self, name: str, total: int, now: float) -> None:
        """A stage of `total` steps begins."""
        self.began = now if self.began is None else self.began
        self.name, self.total, self.done, self._stage_began = name, total, 0, now
        self._begun.add(name)

    def advance(self, now: float) -> None:
        """One step of it is done; with the last one the stage is over."""
        self.done += 1
        if self.done == self.total:
            self._steps[self._kind] += self.total
            self._seconds[self._kind] = self._seconds.get(self._kind, 0.0) + now - self._stage_began

    def finish(self, iteration: int) -> None:
        """The iteration of this number is done."""
        self.iteration, self._begun = iteration, set()

    def pace(self, now: float) -> float | None:
        """Seconds of a step of the present stage; None while too little is known."""
        return self._pace(self._kind, now)

    def stage_left(self, now: float) -> float | None:
        """Seconds until the present stage is over; None while too little is known."""
        pace = self.pace(now)
        return None if pace is None else pace * (self.total - self.done)

    def left(self, now: float) -> float | None:
        """Seconds until the run is over, smoothed; None while some kind of work that is left was never timed."""
        if self.work is None or self.iteration is None or self.began is None:
            return None
        left = self._left(self.work, self.iteration)
        paces = {kind: self._pace(kind, now) for kind, steps in left.items() if steps > 0}
        if any(pace is None for pace in paces.values()):
            return None
        ends = now + sum(left[kind] * (pace or 0.0) for kind, pace in paces.items())
        weight = 1.0 if self._ends is None else 1 - exp((self._asked - now) / SMOOTHING)
        self._ends = ends if self._ends is None else self._ends + weight * (ends - self._ends)
        self._asked = now
        return max(self._ends - now, 0.0)

    @property
    def _kind(self) -> str:
        return GREEDY.get(self.name, self.name)

    def _pace(self, kind: str, now: float) -> float | None:
        steps, seconds = self._steps[kind], self._seconds.get(kind, 0.0)
        if kind == self._kind and self.done < self.total:
            own = now - self._stage_began
            if steps or (own >= LEAST_SECONDS and self.done >= LEAST_SHARE * self.total):
                steps, seconds = steps + self.done, seconds + own
        return seconds / steps if steps else None

    def _left(self, work: Work, iteration: int) -> Counter[str]:
        if self.name in work.after:
            left: Counter[str] = Counter()
            stages = list(work.after)
            for name in stages[stages.index(self.name) + 1 :]:
                left[GREEDY.get(name, name)] += work.after[name]  # type: ignore[assignment]
        else:
            present = iteration < work.last
            left = work.left(iteration + present)
            for name, steps in work.iteration(iteration + 1).items() if present else ():
                if name not in self._begun:
                    left[GREEDY.get(name, name)] += steps  # type: ignore[assignment]
        left[self._kind] += self.total - self.done
        return left
