"""The resource profile of a schedule: usage and free units of each renewable resource over time.

A job takes its demands at its start and releases them as `Job.holds` says; released units can be taken at the same
moment. All sums of units over time are computed here, except the packed numbers of `exact` and the arrays of
`baselines`. Independent of precedence, deadlines and horizon; no loop runs over time steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from heapq import heappop, heappush
from operator import add, gt, sub

from gce.domain.tasks.scheduling.instance import Instance, Job

__all__ = ["Frontier", "Overload", "Profile", "Release", "energy", "fits", "overloads", "usage"]

Units = tuple[int, ...]
"""Units of each resource, in the instance's order."""
Release = tuple[str, int, Units]
"""(job, time, free units): the job releases units at that time, and this many are free afterwards."""
Overload = tuple[int, int, int, tuple[str, ...]]
"""(resource index, time, held units, jobs): the worst excess of a resource, its first moment, and the jobs that hold
units then, in prompt order."""


def energy(instance: Instance, index: int) -> int:
    """Return the units of a resource times the time for which jobs hold them, which is the same in every schedule."""
    return sum(length * units[index] for _, length, units in instance.holds)


def usage(instance: Instance, starts: Mapping[str, int], moment: int) -> Units:
    """Return the units that the started jobs hold at a moment."""
    held = [
        units
        for label, length, units in instance.holds
        if label in starts and starts[label] <= moment < starts[label] + length
    ]
    return tuple(map(sum, zip(*held, strict=True))) if held else (0,) * len(instance.resources)


def fits(instance: Instance, job: Job, time: int, starts: Mapping[str, int]) -> bool:
    """True if `job` can start at `time` beside the started jobs; a job of duration 0 holds nothing.

    Usage rises only when a job starts, so it is checked only at `time` and at the starts while `job` runs.
    """
    if job.duration == 0:
        return True
    end = time + job.duration
    held = [
        (start, start + length, units)
        for label, length, units in instance.holds
        if label in starts and (start := starts[label]) < end and time < start + length
    ]
    moments = {start if start > time else time for start, _, _ in held}
    held += [(time, time + length, units) for length, units in job.holds]
    for moment in moments:
        running = [units for start, until, units in held if start <= moment < until]
        for resource, units in zip(instance.resources, zip(*running, strict=False), strict=False):
            if sum(units) > resource.capacity:
                return False
    return True


def overloads(instance: Instance, starts: Mapping[str, int]) -> list[Overload]:
    """Return one overload for each overloaded resource; labels unknown to the instance hold nothing.

    A sweep over starts and releases: O(n log n) in the jobs, for each resource.
    """
    # Releases sort before starts of the same time (even before odd), so touching intervals do not overlap.
    changes = [(2 * (starts[label] + length), units) for label, length, units in instance.holds if label in starts]
    changes += [(2 * starts[label] + 1, units) for label, _, units in instance.holds if label in starts]
    changes.sort()
    found: list[Overload] = []
    for index, resource in enumerate(instance.resources):
        load, worst, place = 0, resource.capacity, None
        for at, units in changes:
            if at & 1:
                load += units[index]
                if load > worst:
                    worst, place = load, at
            else:
                load -= units[index]
        if place is not None:
            moment = place // 2
            holding = {
                label: units
                for label, length, units in instance.holds
                if units[index] and label in starts and 0 <= moment - starts[label] < length
            }
            found.append((index, moment, worst, tuple(holding)))
    return found


class Profile:
    """Free units over time, beside the jobs that have been placed; a job may be placed before jobs placed earlier."""

    def __init__(self, instance: Instance, starts: Mapping[str, int] | None = None) -> None:
        self._times = [0]
        self._free: list[Units] = [tuple(resource.capacity for resource in instance.resources)]
        """Free units from each time to the next; after the last time, all are free."""
        for label, start in (starts or {}).items():
            self.place(instance.job(label), start)

    def first_fit(self, job: Job, earliest: int) -> int:
        """Return the first moment, from `earliest` on, at which `job` fits; a job of duration 0 fits everywhere.

        A job that does not fit beside those of an interval fits at no moment of it: it holds the most at its start. So
        each interval is looked at once.
        """
        start = earliest
        if not job.duration:
            return start
        at = bisect_right(self._times, start) - 1
        while at < len(self._times):
            held = [units for length, units in job.holds if start + length > self._times[at]]
            if not held:
                break
            if any(map(gt, map(sum, zip(*held, strict=True)), self._free[at])):
                start = self._times[at + 1]
            at += 1
        return start

    def place(self, job: Job, start: int) -> None:
        """Take the units that the job holds from `start` on."""
        for length, units in job.holds:
            if length and any(units):
                for at in range(self._cut(start), self._cut(start + length)):
                    self._free[at] = tuple(map(sub, self._free[at], units))

    def _cut(self, time: int) -> int:
        """Return the index of the interval that begins at `time`, split off where there is none."""
        at = bisect_left(self._times, time)
        if at == len(self._times) or self._times[at] != time:
            self._times.insert(at, time)
            self._free.insert(at, self._free[at - 1])
        return at


class Frontier:
    """Free units while time moves forward: no job starts before the one started before it."""

    def __init__(self, instance: Instance) -> None:
        self.now = 0
        """Start of the last job."""
        self.free: Units = tuple(resource.capacity for resource in instance.resources)
        """Units of each resource that are free while the last job runs beside the jobs whose release `start` has not
        returned."""
        self._held: list[tuple[int, int, str, Units]] = []
        self._started = 0

    def start(self, job: Job, ready: int) -> list[Release]:
        """Start a job as soon as it fits, not before `ready`; return the releases up to then.

        These are the releases up to `ready` and the last start, and as many more as the job needs to fit. Simultaneous
        releases come in the order in which their jobs started.
        """
        now, free, held, demands = max(self.now, ready), self.free, self._held, job.demands
        releases: list[Release] = []
        while held:
            hour = held[0][0]
            if hour > now and not any(map(gt, demands, free)):
                break
            _, _, label, units = heappop(held)
            free = tuple(map(add, free, units))
            releases.append((label, hour, free))
            if hour > now:
                now = hour
        self.now, self.free = now, tuple(map(sub, free, demands))
        for length, units in job.holds:
            heappush(held, (now + length, self._started, job.label, units))
        self._started += 1
        return releases

    @property
    def running(self) -> tuple[tuple[str, int], ...]:
        """The jobs whose release `start` has not returned, with the hours of their releases, the earliest first."""
        return tuple((label, hour) for hour, _, label, _ in sorted(self._held))
