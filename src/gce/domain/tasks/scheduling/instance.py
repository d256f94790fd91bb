"""The resource-constrained project scheduling problem (RCPSP): jobs, precedence, renewable resources, deadlines.

Single mode, no preemption; time in whole units from 0. A job that starts at s runs over [s, s + duration): a successor
may start, and its resource units are free again, at s + duration. Terms follow the PSPLIB literature (Kolisch and
Sprecher, 1996). Independent of prompts and answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve, field, frozen

__all__ = ["Instance", "Job", "Resource"]

MOST = 10**15
"""Maximum time and resource units: sums over many jobs fit in 64 bits, and floats represent the values exactly."""


def _whole_number(owner: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{owner}: {name} must be a whole number, got {value!r}")
    if value < 0:
        raise ValueError(f"{owner}: {name} must not be negative, got {value}")
    if value > MOST:
        raise ValueError(f"{owner}: {name} must be at most {MOST:,}, got more")


# Typed converters, so that callers may pass any iterable under strict type checking.


def _demands(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


def _edges(edges: Iterable[Iterable[str]]) -> tuple[tuple[str, str], ...]:
    found = tuple(tuple(edge) for edge in edges)
    for edge in found:
        if len(edge) != 2:
            raise ValueError(f"a precedence edge is (before, after), got {edge!r}")
    return found  # type: ignore[return-value]  # pairs, as just checked


def _jobs(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(jobs)


def _resources(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    return tuple(resources)


@frozen
class Job:
    """One activity."""

    label: str = field()
    duration: int = field()
    demands: tuple[int, ...] = field(default=(), converter=_demands)
    """Units of each resource held while running, in the order of the instance's resources."""
    deadline: int | None = field(default=None)
    """Latest time at which the job may end."""
    holds: tuple[tuple[int, tuple[int, ...]], ...] = field(init=False, eq=False, repr=False)
    """(time from the start, units) in the order of release; here all units are held until the end."""

    def __attrs_post_init__(self) -> None:
        if not self.label or not self.label.isascii() or not self.label.isalnum():
            raise ValueError(f"a job's label must be ASCII letters and digits, got {self.label!r}")
        _whole_number(f"job {self.label}", "duration", self.duration)
        for demand in self.demands:
            _whole_number(f"job {self.label}", "demand", demand)
        if self.deadline is not None:
            _whole_number(f"job {self.label}", "deadline", self.deadline)
        object.__setattr__(self, "holds", ((self.duration, self.demands),))

    def numbers(self, order: Iterable[int]) -> tuple[object, ...]:
        """Return all that defines the job except its label, with the resources in the given order of indices."""
        return self.duration, self.deadline, [self.demands[index] for index in order]

    def rearranged(self, order: Iterable[int]) -> Job:
        """Return this job for an instance with its resources in the given order of indices."""
        return evolve(self, demands=[self.demands[index] for index in order])

    def scaled(self, by: int) -> Job:
        """Return this job with all times multiplied."""
        return evolve(self, duration=self.duration * by, deadline=None if self.deadline is None else self.deadline * by)


@frozen
class Resource:
    """A renewable resource: `capacity` units at every moment."""

    name: str = field()
    capacity: int = field()

    def __attrs_post_init__(self) -> None:
        if not self.name:
            raise ValueError("a resource needs a name, got ''")
        _whole_number(f"resource {self.name}", "capacity", self.capacity)


@frozen
class Instance:
    """One project, validated on construction; error messages name the offending part.

    Raises:
        ValueError: no job, duplicate job or resource, unknown job in the precedence, duplicate edge, a cycle, a
            negative number or one above `MOST`, a demand above its capacity, or a wrong number of demands.
    """

    jobs: tuple[Job, ...] = field(converter=_jobs)
    """Jobs in the order in which a prompt lists them."""
    precedence: tuple[tuple[str, str], ...] = field(default=(), converter=_edges)
    """Edges (before, after) between labels."""
    resources: tuple[Resource, ...] = field(default=(), converter=_resources)
    horizon: int | None = field(default=None)
    """Project deadline: latest time at which the last job may end."""

    holds: tuple[tuple[str, int, tuple[int, ...]], ...] = field(init=False, eq=False, repr=False)
    """`Job.holds` of all jobs, each preceded by the job's label."""
    _by_label: dict[str, Job] = field(init=False, eq=False, repr=False)
    _predecessors: dict[str, tuple[str, ...]] = field(init=False, eq=False, repr=False)
    _successors: dict[str, tuple[str, ...]] = field(init=False, eq=False, repr=False)
    _topological: tuple[str, ...] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.jobs:
            raise ValueError("an instance needs at least one job, got none")
        self._refuse_duplicates("job", [job.label for job in self.jobs])
        self._refuse_duplicates("resource", [resource.name for resource in self.resources])
        if self.horizon is not None:
            _whole_number("instance", "horizon", self.horizon)
        by_label = {job.label: job for job in self.jobs}
        predecessors: dict[str, list[str]] = {label: [] for label in by_label}
        successors: dict[str, list[str]] = {label: [] for label in by_label}
        for before, after in self.precedence:
            for label in (before, after):
                if label not in by_label:
                    raise ValueError(f"precedence {before} before {after}: no job {label!r}")
            successors[before].append(after)
            predecessors[after].append(before)
        self._refuse_duplicates("precedence edge", [f"{before} before {after}" for before, after in self.precedence])
        for job in self.jobs:
            if len(job.demands) != len(self.resources):
                raise ValueError(
                    f"job {job.label}: expected {len(self.resources)} demands, one for each resource, "
                    f"got {len(job.demands)}"
                )
            for demand, resource in zip(job.demands, self.resources, strict=True):
                if demand > resource.capacity:
                    raise ValueError(
                        f"job {job.label}: demands {demand} of {resource.name}, "
                        f"more than its capacity of {resource.capacity}"
                    )
        set_hidden = object.__setattr__
        set_hidden(self, "holds", tuple((job.label, *held) for job in self.jobs for held in job.holds))
        set_hidden(self, "_by_label", by_label)
        set_hidden(self, "_predecessors", {label: tuple(labels) for label, labels in predecessors.items()})
        set_hidden(self, "_successors", {label: tuple(labels) for label, labels in successors.items()})
        set_hidden(self, "_topological", self._sort_topologically())

    @staticmethod
    def _refuse_duplicates(what: str, names: Iterable[str]) -> None:
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise ValueError(f"duplicate {what} {name!r}")
            seen.add(name)

    def _sort_topologically(self) -> tuple[str, ...]:
        position = {job.label: index for index, job in enumerate(self.jobs)}
        waiting = {label: len(before) for label, before in self._predecessors.items()}
        ready = [position[label] for label, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order: list[str] = []
        while ready:
            label = self.jobs[heapq.heappop(ready)].label
            order.append(label)
            for after in self._successors[label]:
                waiting[after] -= 1
                if waiting[after] == 0:
                    heapq.heappush(ready, position[after])
        if len(order) < len(self.jobs):
            stuck = sorted(label for label, count in waiting.items() if count)
            raise ValueError(f"the precedence has a cycle among {', '.join(stuck)}")
        return tuple(order)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels in prompt order."""
        return tuple(self._by_label)

    @property
    def topological_order(self) -> tuple[str, ...]:
        """Labels in topological order; ties keep the prompt order."""
        return self._topological

    def job(self, label: str) -> Job:
        """Return the job with this label; KeyError if there is none."""
        return self._by_label[label]

    def predecessors(self, label: str) -> tuple[str, ...]:
        """Return the labels that must have ended before `label` starts."""
        return self._predecessors[label]

    def successors(self, label: str) -> tuple[str, ...]:
        """Return the labels that may start only when `label` has ended."""
        return self._successors[label]

    def makespan(self, starts: Mapping[str, int]) -> int:
        """Return the end of the last job, given the start of every job."""
        return max(starts[job.label] + job.duration for job in self.jobs)

    def without(self, family: str) -> Instance:
        """Return this instance without one family of constraints: sequencing, resources or deadlines.

        `deadlines` drops the deadlines of single jobs; the horizon stays.
        """
        match family:
            case "sequencing":
                return evolve(self, precedence=())
            case "resources":
                return evolve(self, resources=(), jobs=tuple(evolve(job, demands=()) for job in self.jobs))
            case "deadlines":
                return evolve(self, jobs=tuple(evolve(job, deadline=None) for job in self.jobs))
        raise ValueError(f"expected sequencing, resources or deadlines, got {family!r}")
