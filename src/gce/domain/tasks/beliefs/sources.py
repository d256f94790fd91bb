"""Worlds of the family `sources`: a claim with a stated base rate, and sources of stated reliability that report on it.

Two kinds: witnesses and tests, among which some may copy another, be irrelevant or publish only positive findings; and
a machine whose hidden state changes by a Markov chain and is read by a sensor. Posteriors are exact, and the order in
which reports arrive does not matter. Percentages are whole numbers. Knows nothing of wording.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from math import prod
from typing import Any

from attrs import field, frozen, validators

from gce.domain.tasks.beliefs.log_odds import share_of

__all__ = ["Machine", "Source", "Witnesses", "draw_machine", "draw_witnesses"]

_percent = validators.and_(validators.ge(0), validators.le(100))


@frozen
class Source:
    """A witness or a test with what it reported."""

    hit: int = field(validator=_percent)
    """Probability in percent that it says yes if the claim is true."""
    false_alarm: int = field(validator=_percent)
    """Probability in percent that it says yes if the claim is false."""
    yes: int
    """How often it said yes: 0 or 1 for a single report."""
    runs: int = 1
    """How many independent tests it ran; if more than 1, it publishes the positive ones alone."""
    copies: int = -1
    """Index of the source whose report it may repeat; -1 for none."""
    copying: int = field(default=0, validator=_percent)
    """Probability in percent that it repeats the other's report instead of looking for itself."""

    @property
    def symmetric(self) -> bool:
        """True if it is as reliable for a true claim as for a false one."""
        return self.runs == 1 and self.hit + self.false_alarm == 100

    def likelihood(self, true: bool) -> float:
        """Return the probability of its own report, without copying, up to a factor that is the same for both cases."""
        yes = (self.hit if true else self.false_alarm) / 100
        return float(yes**self.yes * (1.0 - yes) ** (self.runs - self.yes))

    def repeating(self, true: bool, original: int) -> float:
        """Return the probability of its report if the source that it may copy said `original`, 0 or 1."""
        copied = self.copying / 100
        return copied * (self.yes == original) + (1.0 - copied) * self.likelihood(true)


@frozen
class Witnesses:
    """A claim of stated base rate, and sources that report on it."""

    base_rate: int = field(validator=_percent)
    """Probability of the claim before any report, in percent."""
    sources: tuple[Source, ...]

    @property
    def pieces(self) -> int:
        """The number of reports."""
        return len(self.sources)

    def posterior(self, seen: Collection[int]) -> float:
        """Return the probability of the claim given the reports of these sources, by index.

        A report that may be copied and was not seen is summed over. ValueError if the reports are impossible.
        """
        true = self.base_rate / 100 * self._likelihood(seen, True)
        false = (1.0 - self.base_rate / 100) * self._likelihood(seen, False)
        return share_of(true, true + false)

    def _likelihood(self, seen: Collection[int], true: bool) -> float:
        alone = prod(self.sources[at].likelihood(true) for at in seen if self.sources[at].copies < 0)
        unseen: dict[int, list[Source]] = {}
        for at in seen:
            source = self.sources[at]
            if source.copies in seen:
                alone *= source.repeating(true, self.sources[source.copies].yes)
            elif source.copies >= 0:
                unseen.setdefault(source.copies, []).append(source)
        for original, copiers in unseen.items():
            says_yes = (self.sources[original].hit if true else self.sources[original].false_alarm) / 100
            alone *= sum(
                chance * prod(copier.repeating(true, report) for copier in copiers)
                for report, chance in ((1, says_yes), (0, 1.0 - says_yes))
            )
        return alone

    @property
    def canonical(self) -> tuple[Any, ...]:
        """Equal for worlds that differ in names, in the order of sources, or in which of two options is the claim."""
        return min(self._ordered(flipped=False), self._ordered(flipped=True))

    def _ordered(self, *, flipped: bool) -> tuple[Any, ...]:
        """Sources as sorted tuples; `flipped`: the world in which the opposite is the claim."""

        def numbers(source: Source) -> tuple[Any, ...]:
            own = (source.false_alarm, source.hit) if flipped else (source.hit, source.false_alarm)
            other = numbers(self.sources[source.copies]) if 0 <= source.copies < self.pieces else ()
            return (*own, source.yes, source.runs, source.copying, other)

        base_rate = 100 - self.base_rate if flipped else self.base_rate
        return ("witnesses", base_rate, tuple(sorted(map(numbers, self.sources))))


@frozen
class Machine:
    """A machine that is in order or faulty, changes from day to day, and is read by a sensor; asked is the last day."""

    faulty: int = field(validator=_percent)
    """Probability in percent that it is faulty on day 1."""
    breaks: int = field(validator=_percent)
    """Probability in percent that a machine in order is faulty on the next day."""
    repairs: int = field(validator=_percent)
    """Probability in percent that a faulty machine is in order on the next day."""
    hit: int = field(validator=_percent)
    """Probability in percent that the sensor warns if the machine is faulty."""
    false_alarm: int = field(validator=_percent)
    """Probability in percent that the sensor warns if the machine is in order."""
    warns: tuple[bool, ...]
    """The sensor's reading on each day."""

    @property
    def pieces(self) -> int:
        """The number of readings."""
        return len(self.warns)

    def posterior(self, seen: Collection[int]) -> float:
        """Return the probability that the machine is faulty on the last day, given the readings of these days from 0.

        The forward algorithm (Rabiner, 1989, section III.A); a day that was not seen is predicted only.
        """
        faulty = self.faulty / 100
        for day, warns in enumerate(self.warns):
            if day:
                faulty = faulty * (1.0 - self.repairs / 100) + (1.0 - faulty) * self.breaks / 100
            if day in seen:
                hit, alarm = self.hit / 100, self.false_alarm / 100
                if_faulty = faulty * (hit if warns else 1.0 - hit)
                in_order = (1.0 - faulty) * (alarm if warns else 1.0 - alarm)
                faulty = share_of(if_faulty, if_faulty + in_order)
        return faulty

    @property
    def canonical(self) -> tuple[Any, ...]:
        """All numbers: days cannot be exchanged."""
        return ("machine", self.faulty, self.breaks, self.repairs, self.hit, self.false_alarm, self.warns)


def _report(rng: random.Random, percent: int) -> bool:
    return rng.random() * 100 < percent


def _reporting(rng: random.Random, true: bool, hit: int, false_alarm: int, *, runs: int = 1) -> Source:
    percent = hit if true else false_alarm
    return Source(hit, false_alarm, sum(_report(rng, percent) for _ in range(runs)), runs)


def _reliable(rng: random.Random, true: bool, reliabilities: Sequence[int]) -> Source:
    percent = rng.choice(reliabilities)
    return _reporting(rng, true, percent, 100 - percent)


_GOOD = range(60, 91)
_MIXED = (*range(15, 41), *range(60, 86))
"""Reliabilities that tell something; below 50 are those of sources that are wrong more often than right."""


def draw_witnesses(level: int, rng: random.Random) -> tuple[Witnesses, bool]:
    """Draw a world of a level, 1 to 5, and whether its claim is true.

    1: two reliable witnesses. 2: three or four, some more often wrong than right. 3: three tests whose hit and
    false-alarm rates differ. 4: two tests, an irrelevant source and one that may copy another. 5: the same and a
    laboratory that publishes positive findings alone. One more source comes last, which the problem withholds.
    """
    base_rate = rng.randint(10, 90) if level == 1 else rng.randint(8, 92)
    true = _report(rng, base_rate)
    if level == 1:
        return Witnesses(base_rate, tuple(_reliable(rng, true, _GOOD) for _ in range(3))), true
    if level == 2:
        return Witnesses(base_rate, tuple(_reliable(rng, true, _MIXED) for _ in range(rng.randint(4, 5)))), true
    if level == 3:
        return Witnesses(base_rate, tuple(_test(rng, true) for _ in range(4))), true
    indifferent = rng.randint(20, 80)
    found = [_test(rng, true), _test(rng, true)]
    found.insert(rng.randint(0, 2), _reporting(rng, true, indifferent, indifferent))
    found.append(_copier(rng, true, found))
    if level == 5:
        found.append(_reporting(rng, true, rng.randint(50, 80), rng.randint(15, 45), runs=rng.randint(3, 6)))
    return Witnesses(base_rate, (*found, _reliable(rng, true, _GOOD))), true


def _test(rng: random.Random, true: bool) -> Source:
    return _reporting(rng, true, rng.randint(50, 90), rng.randint(10, 45))


def _copier(rng: random.Random, true: bool, others: Sequence[Source]) -> Source:
    copied, copying = rng.randrange(len(others)), rng.randint(30, 95)
    own = _reliable(rng, true, _GOOD)
    yes = others[copied].yes if _report(rng, copying) else own.yes
    return Source(own.hit, own.false_alarm, yes, copies=copied, copying=copying)


def draw_machine(rng: random.Random) -> tuple[Machine, bool]:
    """Draw a machine with four readings and a withheld fifth one, and whether it is faulty on the last day."""
    faulty, breaks, repairs = rng.randint(5, 95), rng.randint(3, 30), rng.randint(3, 30)
    hit, false_alarm = rng.randint(55, 95), rng.randint(5, 45)
    state, warns = _report(rng, faulty), []
    for day in range(5):
        if day:
            state = not _report(rng, repairs) if state else _report(rng, breaks)
        warns.append(_report(rng, hit if state else false_alarm))
    return Machine(faulty, breaks, repairs, hit, false_alarm, tuple(warns)), state
