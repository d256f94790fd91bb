"""Tiers of scheduling problems, and how to draw an instance of each.

- `grounded` (default) makes reading the problem necessary: labels do not reveal the order, every constraint binds, and
  the project deadline is tied to the optimal makespan.
- `paper` has exactly the parameters of the six tiers of ISOPro 0.3 (edges run from an earlier label to a later one),
  for comparison.
- `larger` is `grounded` with eleven jobs in every tier; `paper-larger` is `paper` with eleven.

L2 and L3, of two and three jobs, are curriculum levels below the six tiers. They are used only in training, and only if
a run asks for them. Independent of wording.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from gce.domain.tasks.drawing import TRIES, draw_until_it_fits
from gce.domain.tasks.scheduling.dispatch import dispatch, predecessors_first
from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.resource_profile import energy
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["PRESETS", "Family", "Tier", "draw_instance"]

Solve = Callable[[Instance], Solution]
Family = str

RESOURCE_NAMES = ("workers", "machines", "cranes", "trucks", "rooms", "welders", "ovens", "printers")
CREW = "crew"
PLANS_COMPARED = 20
"""Number of random plans from which the plan of a grounded deadline tier is chosen."""


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
    rung: bool = False
    """True for a curriculum level below the six tiers, on which a weak model starts."""


def _tier(name: str, families: str, jobs: int, edges: int, low: int, high: int, **options: object) -> Tier:
    return Tier(name, frozenset(families.split()), jobs, edges, (low, high), **options)  # type: ignore[arg-type]


_TWO = {"resource_types": 2, "demands": (1, 2), "capacities": (2, 4)}
_ONE_CREW = {"resource_types": 1, "demands": (1, 1), "capacities": (1, 1)}

GROUNDED = (
    *(
        _tier(
            f"L{jobs}", "", jobs, 0, 1, 4,
            subtypes=(
                _tier("sequencing", "sequencing", jobs, jobs - 1, 1, 4),
                _tier("resources", "resources", jobs, 0, 1, 4, slack=0.2, **_TWO),
                _tier("deadlines", "deadlines", jobs, 0, 1, 4, deadlines=True, deadline_slack=(0, 2), **_ONE_CREW),
            ),
            rung=True,
        )
        for jobs in (2, 3)
    ),
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
    *(
        _tier(
            f"L{jobs}", "", jobs, 0, 1, 4,
            subtypes=(
                _tier("sequencing", "sequencing", jobs, jobs - 1, 1, 2, slack=3.0),
                _tier(
                    "resources+deadlines", "resources deadlines", jobs, 0, 1, 4,
                    slack=2.0, deadlines=True, **_TWO | {"capacities": (2, 3)},
                ),
                _tier("deadlines", "deadlines", jobs, 0, 2, 5, slack=1.15, deadlines=True),
            ),
            rung=True,
        )
        for jobs in (2, 3)
    ),
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


def _with_eleven_jobs(tiers: Sequence[Tier], edges: Sequence[int]) -> tuple[Tier, ...]:
    """Return the six tiers, without the levels below them, with eleven jobs and these numbers of edges."""
    return tuple(
        evolve(
            tier,
            jobs=11,
            edges=count,
            subtypes=tuple(evolve(pair, jobs=11, edges=pair.edges * 11 // pair.jobs) for pair in tier.subtypes),
        )
        for tier, count in zip((tier for tier in tiers if not tier.rung), edges, strict=True)
    )


LARGER = _with_eleven_jobs(GROUNDED, (5, 9, 0, 0, 0, 7))
"""`grounded` with more jobs than the shipped model was trained on."""

PAPER_LARGER = _with_eleven_jobs(PAPER, (5, 4, 0, 0, 4, 7))
"""`paper` with more jobs than its held-out tier."""

PRESETS: Mapping[str, tuple[Tier, ...]] = {
    "grounded": GROUNDED,
    "paper": PAPER,
    "larger": LARGER,
    "paper-larger": PAPER_LARGER,
}


def draw_instance(tier: Tier, preset: str, rng: random.Random, solve: Solve, *, tries: int = TRIES) -> Instance:
    """Draw a feasible instance of `tier`.

    It is the same for every exact `solve`, because only the status and the makespan are used.

    Raises:
        NoProblem: all `tries` draws were rejected, for example because the tier's precedence leaves a single order.
    """
    if tier.subtypes:
        tier = tier.subtypes[rng.randrange(len(tier.subtypes))]
    draw = _draw_paper if preset in ("paper", "paper-larger") else _draw_grounded
    what = f"{preset} instance of {tier.name} with {tier.jobs} jobs and {tier.edges} edges"
    return draw_until_it_fits(lambda: draw(tier, rng, solve), what, tries=tries)


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
    last = [label for label in labels if not instance.successors(label)] if tier.deadlines else []
    # Draw everything before rejecting anything, so that a rejection does not change later draws.
    orders = [rng.sample(last, len(last)) for _ in range(PLANS_COMPARED)]
    slacks = [rng.randint(*tier.deadline_slack) for _ in last]
    one_after_another = sum(job.duration for job in jobs)
    limit = None if names == (CREW,) else one_after_another
    if limit is not None and _horizon(tier, _least_makespan(instance)) >= limit:
        return None
    if last:
        instance = _with_deadlines(instance, orders, slacks)
    solution = solve(instance)
    if solution.makespan is None:
        return None
    horizon = _horizon(tier, solution.makespan)
    return None if limit is not None and horizon >= limit else evolve(instance, horizon=horizon)


def _horizon(tier: Tier, makespan: int) -> int:
    return makespan + int(makespan * tier.slack + 0.5)


def _least_makespan(instance: Instance) -> int:
    """Return a lower bound on the makespan: the critical path, or the work of a resource."""
    work = [-(-energy(instance, index) // resource.capacity) for index, resource in enumerate(instance.resources)]
    return max(critical_path_length(instance), *work)


def _with_deadlines(instance: Instance, orders: Sequence[Sequence[str]], slacks: Sequence[int]) -> Instance:
    """Give the jobs without successors deadlines, at least `slacks` hours after their ends in a plan.

    The plan is the shortest of those that follow `orders`, so deadlines are neither loose nor in conflict with the
    horizon. A job with successors has no deadline of its own, so only the sequence shows that it is urgent.
    """
    last = set(orders[0])
    plans = []
    for some in dict.fromkeys(map(tuple, orders)):
        order = predecessors_first(instance, some)
        plans.append((order, dispatch(instance, order)))
    order, starts = min(plans, key=lambda plan: instance.makespan(plan[1]))
    deadlines: dict[str, int] = {}
    latest = 0
    for label, slack in zip([label for label in order if label in last], slacks, strict=True):
        latest = max(latest + 1, starts[label] + instance.job(label).duration + slack)
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
