"""Draw scheduling instances of a tier.

Independent of wording.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from functools import partial

from attrs import evolve

from gce.domain.tasks.drawing import TRIES, draw_until_it_fits
from gce.domain.tasks.scheduling import branch_and_bound
from gce.domain.tasks.scheduling.dispatch import dispatch, predecessors_first
from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.presets import Tier
from gce.domain.tasks.scheduling.resource_profile import energy
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["CREW", "RESOURCE_NAMES", "draw_instance"]

Solve = Callable[[Instance], Solution]

RESOURCE_NAMES = ("workers", "machines", "cranes", "trucks", "rooms", "welders", "ovens", "printers")
CREW = "crew"
PLANS_COMPARED = 20
"""Number of random plans from which the plan of a grounded deadline tier is chosen."""


def draw_instance(tier: Tier, preset: str, rng: random.Random, solve: Solve, *, tries: int = TRIES) -> Instance:
    """Draw a feasible instance of `tier`.

    It is the same for every exact `solve`, because only the status and the makespan are used. A tier with a
    `node_limit` is always solved by the branch and bound, because another solver would reject other draws.

    Raises:
        NoProblem: all `tries` draws were rejected, for example because the tier's precedence leaves a single order.
    """
    if tier.subtypes:
        tier = tier.subtypes[rng.randrange(len(tier.subtypes))]
    if tier.node_limit is not None:
        solve = partial(_solve_within, tier.node_limit)
    draw = _draw_paper if preset in ("paper", "paper-larger") else _draw_grounded
    what = f"{preset} instance of {tier.name} with {tier.jobs} jobs and {tier.edges} edges"
    return draw_until_it_fits(lambda: draw(tier, rng, solve), what, tries=tries)


def _solve_within(node_limit: int, instance: Instance) -> Solution:
    """Return the optimum, or `unknown` if it takes the branch and bound more nodes."""
    found = branch_and_bound.solve(instance, node_limit=node_limit)
    return found if found.status == "optimal" else Solution("unknown", None, None, found.lower_bound)


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
