"""The preset psplib-like: networks and resources as ProGen makes them, deadlines that bind, the same everywhere."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.scheduling.branch_and_bound import MAX_JOBS, solve
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.heuristics import critical_path_length, earliest_starts
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.psplib_like import (
    COMPLEXITIES,
    ENDS,
    NEIGHBOURS,
    PSPLIB_LIKE,
    draw_network,
    draw_project,
)
from gce.domain.tasks.scheduling.resource_profile import overloads
from gce.domain.tasks.scheduling.short_schedules import short_schedule
from gce.domain.tasks.scheduling.verify import judge, verify
from gce.testing.contracts.solver import random_instance


@cache
def project(jobs: int, seed: int) -> Instance:
    (tier,) = [tier for tier in PSPLIB_LIKE if tier.jobs == jobs]
    return draw_project(tier, random.Random(seed))


@pytest.mark.parametrize("complexity", COMPLEXITIES)
@pytest.mark.parametrize("count", [30, 60, 120])
def test_networks_have_no_redundant_arc_and_their_complexity(count: int, complexity: float) -> None:
    networks = [draw_network(count, complexity, random.Random(seed)) for seed in range(12)]
    found = [each for each in networks if each is not None]
    assert found
    for network in found:
        assert complexity <= network.complexity <= complexity + 1 / (count + 2)
        successors = [{after for before, after in network.arcs if before == j} for j in range(count)]
        after: dict[int, set[int]] = {}
        for j in reversed(range(count)):
            after[j] = set().union(successors[j], *(after[k] for k in successors[j]))
        for j in range(count):
            assert not any(k in after[i] for k in successors[j] for i in successors[j])
            assert (not successors[j]) == (j >= count - ENDS)
            assert len(successors[j]) <= NEIGHBOURS
            before = sum(j in each for each in successors)
            assert before <= NEIGHBOURS and (before == 0) == (j < ENDS)


@pytest.mark.parametrize("jobs", [30, 60])
@pytest.mark.parametrize("seed", range(4))
def test_resources_and_deadline_bind(jobs: int, seed: int) -> None:
    instance = project(jobs, seed)
    assert instance.horizon is not None
    assert overloads(instance, earliest_starts(instance)), "the earliest starts alone are wrong"
    assert critical_path_length(instance) <= instance.horizon < sum(job.duration for job in instance.jobs)
    assert not judge(instance, short_schedule(instance)), "it is feasible"
    assert all(1 <= job.duration <= 10 and 0 < max(job.demands) <= 10 for job in instance.jobs)


def test_the_same_seed_draws_the_same_problem_whatever_the_solver() -> None:
    task = TASKS["scheduling"]
    first = draw_problem(task, "psplib-like", "J30", "test", 0)
    assert first == draw_problem(task, "psplib-like", "J30", "test", 0, solve=lambda _: 1 / 0)
    assert first.digest == "830e69ebc46fb64f31f60d2ec95fe4e1", "problems have changed: runs cannot be drawn again"
    assert first != draw_problem(task, "psplib-like", "J30", "test", 1)


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_a_short_schedule_is_feasible_and_no_shorter_than_the_optimum(rng: random.Random) -> None:
    instance = random_instance(rng, max_jobs=7)
    relaxed = Instance(
        [Job(job.label, job.duration, job.demands) for job in instance.jobs], instance.precedence, instance.resources
    )
    least = solve(relaxed).makespan
    starts = short_schedule(relaxed)
    assert not judge(relaxed, starts)
    assert least is not None and relaxed.makespan(starts) >= least
    assert short_schedule(instance) == starts, "deadlines are ignored"


def test_a_short_schedule_worked_out_by_hand() -> None:
    """X and Y share one crane, and Z follows Y: Y first, so that Z runs beside X."""
    instance = Instance([Job("X", 3, [1]), Job("Y", 2, [1]), Job("Z", 4, [0])], [("Y", "Z")], [Resource("crane", 1)])
    assert short_schedule(instance) == {"X": 2, "Y": 0, "Z": 2}


def test_the_digest_of_a_large_instance_ignores_names_and_orders() -> None:
    instance = project(30, 1)
    order = random.Random(5).sample(range(4), 4)
    names = {label: f"K{label[1:]}" for label in instance.labels}
    jobs = [job.rearranged(order) for job in instance.jobs]
    renamed = Instance(
        [Job(names[job.label], job.duration, job.demands) for job in reversed(jobs)],
        [(names[before], names[after]) for before, after in reversed(instance.precedence)],
        [Resource(f"kind {index}", instance.resources[index].capacity) for index in order],
        instance.horizon,
    )
    assert canonical_digest(renamed) == canonical_digest(instance)


def test_the_digest_of_a_large_instance_follows_every_number() -> None:
    instance = project(30, 1)
    before = instance.precedence[0]
    others = [
        Instance(instance.jobs, instance.precedence[1:], instance.resources, instance.horizon),
        Instance(instance.jobs, [before[::-1], *instance.precedence[1:]], instance.resources, instance.horizon),
        Instance(instance.jobs, instance.precedence, instance.resources, 1),
        Instance(
            [Job(job.label, job.duration + (job.label == before[0]), job.demands) for job in instance.jobs],
            instance.precedence,
            instance.resources,
            instance.horizon,
        ),
    ]
    assert len({canonical_digest(each) for each in (instance, *others)}) == 1 + len(others)


@pytest.mark.parametrize("variant", ["", "-answer-only", "-relabelled", "-code-words"])
def test_demonstrations_of_every_variant_are_right(variant: str) -> None:
    task = TASKS[f"scheduling{variant}"]
    problem = draw_problem(task, "psplib-like", "J30", "train", 0)
    assert len(problem.instance.jobs) > MAX_JOBS
    assert verify(problem.instance, task.teaching.demonstration(problem, None) or "").right


def test_prompt_blind_baselines_answer_large_problems_wrongly() -> None:
    task = TASKS["scheduling"]
    training = [draw_problem(task, "psplib-like", "J30", "train", index) for index in range(3)]
    problem = draw_problem(task, "psplib-like", "J30", "test", 0)
    for name, policy in task.references.prompt_blind(training).items():
        text = policy(problem, random.Random(0))
        assert text is None or not verify(problem.instance, text).right, name


def test_bounds_within_deterministic_time_are_the_same_again() -> None:
    pytest.importorskip("ortools")
    from gce.adapters.solvers.cpsat import CpSatSolver

    instance = project(60, 0)
    first, again = (CpSatSolver().solve(instance, deterministic=0.02) for _ in range(2))
    assert (first.status, first.makespan, first.lower_bound) == (again.status, again.makespan, again.lower_bound)
    assert first.lower_bound >= critical_path_length(instance)
