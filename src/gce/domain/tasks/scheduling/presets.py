"""Tiers of scheduling problems, and how an instance of each is drawn.

`grounded` (default) is built so that reading the problem is needed: labels say nothing of the order, every
constraint binds, and a project deadline is tied to the optimal makespan. `paper` has exactly the parameters of the
six tiers of ISOPro 0.3 (edges from an earlier label to a later one), kept for comparison. `larger` is `grounded` with
eleven jobs in every tier. Knows nothing of wording.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from gce.domain.tasks.scheduling.dispatch import dispatch, predecessors_first
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.types import Solution

__all__ = ["PRESETS", "Family", "Tier", "draw_instance"]

Solve = Callable[[Instance], Solution]
Family = str

RESOURCE_NAMES = ("workers", "machines", "cranes", "trucks", "rooms", "welders", "ovens", "printers")
CREW = "crew"
PLANS_COMPARED = 20
"""Random plans from which the one that a grounded deadline tier is built around is chosen."""


@frozen
class Tier:
    """One tier: the families of constraints that bind, and the ranges from which its numbers are drawn."""

    name: str
    families: frozenset[Family]
    jobs: int
    edges: int
    durations: tuple[int, int]
    resource_types: int = 0
    capacities: tuple[int, int] = (1, 1)
    demands: tuple[int, int] = (1, 1)
    slack: float = 0.0
    """Grounded: horizon = optimal makespan x (1 + slack), rounded. Paper: int(sum of durations x slack) + 1."""
    deadline_slack: tuple[int, int] = (0, 0)
    """Grounded: hours between a job's end in the plan and its deadline."""
    deadlines: bool = False
    subtypes: tuple[Tier, ...] = ()
    """T4 draws one of its pairs of families."""
    held_out: bool = False


def _tier(name: str, families: str, jobs: int, edges: int, low: int, high: int, **options: object) -> Tier:
    return Tier(name, frozenset(families.split()), jobs, edges, (low, high), **options)  # type: ignore[arg-type]


_TWO = {"resource_types": 2, "demands": (1, 2), "capacities": (2, 4)}
_ONE_CREW = {"resource_types": 1, "demands": (1, 1), "capacities": (1, 1)}

GROUNDED = (
    _tier("T0", "sequencing", 4, 2, 1, 4),
    _tier("T1", "sequencing", 5, 4, 1, 4),
    _tier("T2", "resources", 6, 0, 1, 6, slack=0.2, **_TWO),
    _tier("T3", "deadlines", 6, 0, 1, 4, deadlines=True, deadline_slack=(0, 2), **_ONE_CREW),
    _tier(
        "T4", "", 8, 0, 1, 5,
        subtypes=(
            _tier("sequencing+resources", "sequencing resources", 8, 5, 1, 5, slack=0.25, **_TWO),
            _tier(
                "resources+deadlines", "resources deadlines", 8, 0, 1, 5,
                slack=0.3, deadlines=True, deadline_slack=(0, 2), **_TWO,
            ),
            _tier(
                "sequencing+deadlines", "sequencing deadlines", 8, 4, 1, 4,
                deadlines=True, deadline_slack=(0, 2), **_ONE_CREW,
            ),
        ),
    ),
    _tier(
        "T5", "sequencing resources deadlines", 10, 6, 1, 5,
        slack=0.3, deadlines=True, deadline_slack=(0, 1), held_out=True, **_TWO,
    ),
)  # fmt: skip

PAPER = (
    _tier("T0", "sequencing", 4, 2, 1, 2, slack=3.0),
    _tier("T1", "sequencing deadlines", 5, 2, 1, 3, slack=3.0, deadlines=True),
    _tier("T2", "resources deadlines", 6, 0, 1, 4, slack=2.0, deadlines=True, **_TWO | {"capacities": (2, 3)}),
    _tier("T3", "deadlines", 6, 0, 2, 5, slack=1.15, deadlines=True),
    _tier(
        "T4", "", 8, 4, 1, 4,
        subtypes=(
            _tier("sequencing+resources", "sequencing resources", 8, 4, 1, 4, slack=1.5, **_TWO),
            _tier("resources+deadlines", "resources deadlines", 8, 0, 1, 4, slack=1.5, deadlines=True, **_TWO),
            _tier("sequencing+deadlines", "sequencing deadlines", 8, 4, 1, 4, slack=1.5, deadlines=True),
        ),
    ),
    _tier(
        "T5", "sequencing resources deadlines", 10, 6, 1, 5,
        slack=1.3, deadlines=True, held_out=True, **_TWO,
    ),
)  # fmt: skip

LARGER = (
    _tier("T0", "sequencing", 11, 5, 1, 4),
    _tier("T1", "sequencing", 11, 9, 1, 4),
    *(evolve(tier, jobs=11) for tier in GROUNDED[2:4]),
    evolve(
        GROUNDED[4],
        jobs=11,
        subtypes=tuple(evolve(tier, jobs=11, edges=tier.edges * 11 // 8) for tier in GROUNDED[4].subtypes),
    ),
    evolve(GROUNDED[5], jobs=11, edges=7),
)
"""`grounded` with more jobs than the shipped model was taught with."""

PRESETS: Mapping[str, tuple[Tier, ...]] = {"grounded": GROUNDED, "paper": PAPER, "larger": LARGER}


def draw_instance(tier: Tier, preset: str, rng: random.Random, solve: Solve) -> Instance:
    """A feasible instance of `tier`; the same for every exact `solve`, since only its status and makespan are used."""
    if tier.subtypes:
        tier = tier.subtypes[rng.randrange(len(tier.subtypes))]
    draw = _draw_paper if preset == "paper" else _draw_grounded
    while True:
        instance = draw(tier, rng, solve)
        if instance is not None:
            return instance


def _draw_resources(tier: Tier, rng: random.Random, names: tuple[str, ...]) -> tuple[Resource, ...]:
    return tuple(Resource(name, rng.randint(*tier.capacities)) for name in names)


def _draw_demands(tier: Tier, rng: random.Random, resources: tuple[Resource, ...]) -> tuple[int, ...]:
    return tuple(min(rng.randint(*tier.demands), resource.capacity) for resource in resources)


def _draw_grounded(tier: Tier, rng: random.Random, solve: Solve) -> Instance | None:
    labels = rng.sample(string.ascii_uppercase, tier.jobs)
    names = (CREW,) if tier.capacities == (1, 1) else tuple(rng.sample(RESOURCE_NAMES, tier.resource_types))
    resources = _draw_resources(tier, rng, names[: tier.resource_types])
    jobs = tuple(Job(label, rng.randint(*tier.durations), _draw_demands(tier, rng, resources)) for label in labels)
    order = rng.sample(labels, tier.jobs)
    pairs = [(order[i], order[j]) for i in range(tier.jobs) for j in range(i + 1, tier.jobs)]
    instance = Instance(jobs, tuple(rng.sample(pairs, tier.edges)), resources)
    if tier.deadlines:
        instance = _with_deadlines(instance, tier, rng)
    solution = solve(instance)
    if solution.makespan is None:
        return None
    horizon = solution.makespan + int(solution.makespan * tier.slack + 0.5)
    one_after_another = sum(job.duration for job in jobs)
    if names != (CREW,) and horizon >= one_after_another:
        return None
    return evolve(instance, horizon=horizon)


def _with_deadlines(instance: Instance, tier: Tier, rng: random.Random) -> Instance:
    """Deadlines for the jobs that nothing comes after, in the order of a plan that keeps them.

    The plan is the shortest of a few random ones, so that deadlines are neither slack nor at odds with the horizon.
    A job with successors has no deadline of its own: whoever overlooks the sequence does not see that it is urgent.
    """
    last = [label for label in instance.labels if not instance.successors(label)]
    plans = []
    for _ in range(PLANS_COMPARED):
        order = predecessors_first(instance, rng.sample(last, len(last)))
        plans.append((order, dispatch(instance, order)))
    order, starts = min(plans, key=lambda plan: instance.makespan(plan[1]))
    deadlines: dict[str, int] = {}
    latest = 0
    for label in order:
        if label in last:
            end = starts[label] + instance.job(label).duration
            latest = max(latest + 1, end + rng.randint(*tier.deadline_slack))
            deadlines[label] = latest
    return evolve(instance, jobs=tuple(evolve(job, deadline=deadlines.get(job.label)) for job in instance.jobs))


def _draw_paper(tier: Tier, rng: random.Random, solve: Solve) -> Instance | None:
    labels = string.ascii_uppercase[: tier.jobs]
    durations = [rng.randint(*tier.durations) for _ in labels]
    horizon = int(sum(durations) * tier.slack) + 1
    pairs = [(labels[i], labels[j]) for i in range(tier.jobs) for j in range(i + 1, tier.jobs)]
    edges = tuple(rng.sample(pairs, tier.edges))
    resources = _draw_resources(tier, rng, RESOURCE_NAMES[: tier.resource_types])
    jobs = []
    for label, duration in zip(labels, durations, strict=True):
        deadline = rng.randint(duration, max(duration, int(0.9 * horizon))) if tier.deadlines else None
        jobs.append(Job(label, duration, _draw_demands(tier, rng, resources), deadline))
    instance = Instance(tuple(jobs), edges, resources, horizon)
    return instance if solve(instance).makespan is not None else None
