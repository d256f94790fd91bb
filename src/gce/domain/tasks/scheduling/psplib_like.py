"""Projects of 30 to 120 jobs like those of PSPLIB, as tiers of the preset `psplib-like`.

Drawn as ProGen does (Kolisch, Sprecher and Drexl, 1995, "Characterization and generation of a general class of
resource-constrained project scheduling problems", Management Science 41:1693-1703), by three parameters:

- Network complexity NC: non-redundant precedence arcs per activity, supersource and supersink and their arcs included.
- Resource factor RF: the share of the pairs (job, resource) with a demand above 0; each job demands at least one.
- Resource strength RS: the capacity of a resource is K_min + RS (K_max - K_min), rounded, where K_min is the largest
  demand of a job and K_max the peak of usage when each job starts as early as the precedence allows.

As in the sets J30 to J120 there are four renewable resources, durations and demands are uniform in 1 to 10, three jobs
are first and three last, and a job has at most three direct successors and three direct predecessors. NC, RF and RS are
drawn for each instance from `COMPLEXITIES`, `FACTORS` and `STRENGTHS`. PSPLIB's values of RF = 0.25 and RS from 0.7 to
1 are left out: there resources hardly bind, and the earliest starts alone, which ignore resources, are often right.

The project deadline is the makespan of `short_schedule`, which a right answer must not exceed by more than `SLACK`. So
each instance is feasible, and the same on every machine and with every solver: no deadline depends on how far CP-SAT
comes. Optimum or bounds are a reference, as `gce generate --bounds` prints them. Independent of wording.
"""

from __future__ import annotations

import random
from math import floor

from attrs import evolve, frozen

from gce.domain.tasks.drawing import draw_until_it_fits
from gce.domain.tasks.scheduling.heuristics import earliest_starts
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.resource_profile import overloads, usage
from gce.domain.tasks.scheduling.short_schedules import short_schedule

__all__ = ["PSPLIB_LIKE", "SLACK", "Network", "ProjectTier", "draw_network", "draw_project", "with_project_deadline"]

COMPLEXITIES = (1.5, 1.8, 2.1)
FACTORS = (0.5, 0.75, 1.0)
STRENGTHS = (0.2, 0.35, 0.5)
RESOURCES = ("workers", "machines", "cranes", "trucks")
LARGEST = 10
"""Largest duration and demand."""
ENDS = 3
"""Number of jobs that only the supersource precedes, and of those that only the supersink follows."""
NEIGHBOURS = 3
"""Maximum number of direct successors of a job, and of direct predecessors."""
SLACK = 0.05
"""The project deadline is the makespan of `short_schedule` x (1 + SLACK), rounded down."""


@frozen
class ProjectTier:
    """One tier."""

    name: str
    jobs: int
    held_out: bool = False


PSPLIB_LIKE = (
    ProjectTier("J30", 30),
    ProjectTier("J60", 60),
    ProjectTier("J90", 90),
    ProjectTier("J120", 120, held_out=True),
)


def draw_project(tier: ProjectTier, rng: random.Random) -> Instance:
    """Draw a feasible instance whose resources and deadline bind.

    Raises:
        NoProblem: no draw was of this kind.
    """
    parameters = rng.choice(COMPLEXITIES), rng.choice(FACTORS), rng.choice(STRENGTHS)
    what = f"psplib-like instance of {tier.jobs} jobs"
    return draw_until_it_fits(lambda: _draw(tier.jobs, *parameters, rng), what)


def with_project_deadline(instance: Instance) -> Instance:
    """Return the instance with the project deadline that follows from `short_schedule`."""
    found = instance.makespan(short_schedule(instance))
    return evolve(instance, horizon=found + floor(found * SLACK))


def _draw(count: int, complexity: float, factor: float, strength: float, rng: random.Random) -> Instance | None:
    network = draw_network(count, complexity, rng)
    if network is None:
        return None
    demands = _draw_demands(count, factor, rng)
    # A number says nothing about the place of its job in the network, or in the prompt.
    numbers = rng.sample(range(1, count + 1), count)
    labels = [f"J{number}" for number in numbers]
    listed = rng.sample(range(count), count)
    jobs = [Job(labels[j], rng.randint(1, LARGEST), demands[j]) for j in listed]
    arcs = [(labels[before], labels[after]) for before, after in network.arcs]
    unlimited = Instance(jobs, arcs, [Resource(name, LARGEST * count) for name in RESOURCES])
    instance = evolve(unlimited, resources=_capacities(unlimited, strength))
    if not overloads(instance, earliest_starts(instance)):
        return None
    instance = with_project_deadline(instance)
    assert instance.horizon is not None
    return instance if instance.horizon < sum(job.duration for job in jobs) else None


class Network:
    """A precedence network of jobs 0 to n - 1 without redundant arcs; arcs run from lower to higher numbers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.arcs: list[tuple[int, int]] = []
        self._successors: list[set[int]] = [set() for _ in range(count)]
        self._predecessors: list[set[int]] = [set() for _ in range(count)]
        self._after = [1 << j for j in range(count)]
        """As bits: each job, and all that follow it."""
        self._before = [1 << j for j in range(count)]
        self._direct = [0] * count
        """As bits: the direct successors of each job and of all before it."""

    @property
    def complexity(self) -> float:
        """Arcs per activity, with supersource and supersink and their arcs."""
        ends = sum(not each for each in self._predecessors) + sum(not each for each in self._successors)
        return (len(self.arcs) + ends) / (self.count + 2)

    def without_successor(self) -> list[int]:
        """Return the jobs that nothing follows."""
        return [j for j in range(self.count) if not self._successors[j]]

    def fits(self, before: int, after: int) -> bool:
        """True if the arc keeps the network's bounds, is not redundant, and makes no other arc so."""
        if not before < after or after < ENDS or before >= self.count - ENDS:
            return False
        if len(self._successors[before]) == NEIGHBOURS or len(self._predecessors[after]) == NEIGHBOURS:
            return False
        # Redundant: there is a path already, or an arc from `before` or a job before it to `after` or a job after it.
        return not (self._after[before] >> after & 1 or self._direct[before] & self._after[after])

    def add(self, before: int, after: int) -> None:
        """Add an arc that fits."""
        self.arcs.append((before, after))
        self._successors[before].add(after)
        self._predecessors[after].add(before)
        up, down = self._before[before], self._after[after]
        for j in range(self.count):
            if up >> j & 1:
                self._after[j] |= down
            if self._after[before] >> j & 1:
                self._direct[j] |= 1 << after
            if down >> j & 1:
                self._before[j] |= up
                self._direct[j] |= self._direct[before]


def draw_network(count: int, complexity: float, rng: random.Random) -> Network | None:
    """Draw a network of this complexity; None if it has no room for a further arc.

    As in ProGen, each job but the first ones gets a predecessor, then each but the last ones a successor where it has
    none, and then arcs are added at random.
    """
    network = Network(count)
    for after in range(ENDS, count):
        fitting = [before for before in range(after) if network.fits(before, after)]
        if not fitting:
            return None
        network.add(rng.choice(fitting), after)
    for before in reversed(network.without_successor()):
        if before < count - ENDS:
            fitting = [after for after in range(before + 1, count) if network.fits(before, after)]
            if not fitting:
                return None
            network.add(before, rng.choice(fitting))
    # A pair that does not fit fits no later either, so one pass is enough.
    pairs = [(before, after) for after in range(count) for before in range(after)]
    rng.shuffle(pairs)
    added = (pair for pair in pairs if network.fits(*pair))
    while network.complexity < complexity:
        pair = next(added, None)
        if pair is None:
            return None
        network.add(*pair)
    return network


def _draw_demands(count: int, factor: float, rng: random.Random) -> list[tuple[int, ...]]:
    """Demands of each job: a random resource of each, and as many further pairs as the resource factor asks for."""
    kinds = len(RESOURCES)
    needed = [(j, rng.randrange(kinds)) for j in range(count)]
    others = sorted({(j, kind) for j in range(count) for kind in range(kinds)} - set(needed))
    needed += rng.sample(others, round(factor * count * kinds) - count)
    demands = [[0] * kinds for _ in range(count)]
    for j, kind in sorted(needed):
        demands[j][kind] = rng.randint(1, LARGEST)
    return [tuple(row) for row in demands]


def _capacities(instance: Instance, strength: float) -> list[Resource]:
    """Return the resources with the capacities that the resource strength gives."""
    starts = earliest_starts(instance)
    peaks = list(map(max, zip(*(usage(instance, starts, moment) for moment in set(starts.values())), strict=True)))
    found = []
    for index, (resource, peak) in enumerate(zip(instance.resources, peaks, strict=True)):
        least = max(job.demands[index] for job in instance.jobs)
        found.append(Resource(resource.name, least + round(strength * (peak - least))))
    return found
