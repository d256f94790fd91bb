"""Contract check for solvers, to run on an adapter of the Solver port.

The reference implementation checks every hour and tries every start, so it shares no method with the solvers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.solution import Solution
from gce.ports.solver import Solver

__all__ = ["check_solver", "is_feasible", "least_makespan", "random_instance"]

_RANDOM_INSTANCES = 60


def check_solver(make_solver: Callable[[], Solver]) -> None:
    """Assert the docstring of `Solver` for solvers made by `make_solver`.

    Instances have at most 8 jobs; the random ones are small enough to try every schedule.
    """
    solver = make_solver()
    for name, instance, least in _hand_made():
        _check_solution(instance, solver.solve(instance), least, name)
    for seed in range(_RANDOM_INSTANCES):
        instance = random_instance(random.Random(seed), max_jobs=4, max_duration=3)
        _check_solution(instance, solver.solve(instance), least_makespan(instance), f"random instance {seed}")
    _check_repeatable(make_solver)
    _check_no_time(make_solver())


def random_instance(rng: random.Random, *, max_jobs: int, max_duration: int = 5) -> Instance:
    """Draw an instance, possibly infeasible, with zero durations, demands and capacities among its values.

    Labels do not reveal the precedence.
    """
    labels = rng.sample("ABCDEFGHIJKLMNOPQRSTUVWXYZ", rng.randint(1, max_jobs))
    pairs = [(before, after) for i, before in enumerate(labels) for after in labels[i + 1 :]]
    precedence = rng.sample(pairs, rng.randint(0, min(len(pairs), len(labels))))
    resources = [Resource(f"r{r}", rng.randint(0, 4)) for r in range(rng.randint(0, 2))]
    durations = {label: rng.randint(0, max_duration) for label in labels}
    total = sum(durations.values())
    jobs = [
        Job(
            label,
            durations[label],
            tuple(rng.randint(0, resource.capacity) for resource in resources),
            deadline=rng.randint(total // 3, total) if rng.random() < 0.4 else None,
        )
        for label in sorted(labels)
    ]
    horizon = rng.randint(total // 2, total) if rng.random() < 0.4 else None
    return Instance(jobs, precedence, resources, horizon)


def is_feasible(instance: Instance, starts: Mapping[str, int]) -> bool:
    """True if the starts of all jobs satisfy every constraint; checks each hour, so only for short schedules."""
    ends = {job.label: starts[job.label] + job.duration for job in instance.jobs}
    if min(starts.values()) < 0 or any(ends[before] > starts[after] for before, after in instance.precedence):
        return False
    if any(job.deadline is not None and ends[job.label] > job.deadline for job in instance.jobs):
        return False
    if instance.horizon is not None and max(ends.values()) > instance.horizon:
        return False
    for hour in range(max(ends.values())):
        running = [job for job in instance.jobs if starts[job.label] <= hour < ends[job.label]]
        for r, resource in enumerate(instance.resources):
            if sum(job.demands[r] for job in running) > resource.capacity:
                return False
    return True


def least_makespan(instance: Instance) -> int | None:
    """Return the minimum makespan, or None if infeasible; tries every start, so only for few, short jobs."""
    latest = sum(job.duration for job in instance.jobs)
    order = instance.topological_order
    least: int | None = None

    def place(starts: dict[str, int]) -> None:
        nonlocal least
        if len(starts) == len(order):
            if is_feasible(instance, starts):
                makespan = instance.makespan(starts)
                least = makespan if least is None else min(least, makespan)
            return
        label = order[len(starts)]
        bound = latest if least is None else least - 1
        ends = [starts[before] + instance.job(before).duration for before in instance.predecessors(label)]
        for start in range(max(ends, default=0), bound - instance.job(label).duration + 1):
            place({**starts, label: start})

    place({})
    return least


def _hand_made() -> list[tuple[str, Instance, int | None]]:
    """Return name, instance and minimum makespan (None: infeasible), worked out by hand."""
    crew = [Resource("crew", 1)]
    pair = [Resource("crew", 2)]
    chain = [("A", "B"), ("B", "C")]
    three = [Job("A", 2), Job("B", 3), Job("C", 1)]
    million = 10**6
    return [
        ("one job", Instance([Job("A", 4)]), 4),
        ("no job takes time", Instance([Job("A", 0), Job("B", 0)], [("A", "B")]), 0),
        ("side by side", Instance(three), 3),
        ("a chain", Instance(three, chain), 6),
        ("a chain within its horizon", Instance(three, chain, horizon=6), 6),
        ("a chain beyond its horizon", Instance(three, chain, horizon=5), None),
        ("one crew", Instance([Job("A", 2, [1]), Job("B", 3, [1])], resources=crew), 5),
        ("one crew and a deadline", Instance([Job("A", 2, [1]), Job("B", 3, [1], 3)], resources=crew), 5),
        ("one crew, two urgent jobs", Instance([Job("A", 2, [1], 4), Job("B", 3, [1], 4)], resources=crew), None),
        ("a deadline shorter than its job", Instance([Job("A", 4, deadline=3)]), None),
        ("a deadline passed on", Instance([Job("A", 2), Job("B", 2, deadline=3)], [("A", "B")]), None),
        # Without the deadlines: D, then A beside B and C, ends at 6. They force C, then D, and only then A beside B.
        (
            "deadlines cost time",
            Instance([Job("A", 4, [1]), Job("B", 3, [1]), Job("C", 1, [1], 1), Job("D", 2, [2], 3)], resources=pair),
            7,
        ),
        ("demand 2 of 3 excludes a second", Instance([Job("A", 2, [2]), Job("B", 2, [2])], [], [Resource("r", 3)]), 4),
        ("no time, no resource", Instance([Job("A", 3, [1]), Job("B", 0, [1], 0)], resources=crew), 3),
        ("no time, but a deadline", Instance([Job("A", 3), Job("B", 0, deadline=2)], [("A", "B")]), None),
        ("capacity 0, demand 0", Instance([Job("A", 3, [0]), Job("B", 2, [0])], [], [Resource("r", 0)]), 3),
        (
            "long jobs",
            Instance([Job("A", 2 * million, [1]), Job("B", 3 * million, [1], 3 * million)], resources=crew),
            5 * million,
        ),
    ]


def _check_solution(instance: Instance, solution: Solution, least: int | None, name: str) -> None:
    assert solution.seconds >= 0.0, f"{name}: negative seconds in {solution}"
    if least is None:
        assert solution.status == "infeasible", f"{name}: expected infeasible, got {solution}"
        assert solution.starts is None and solution.makespan is None, f"{name}: a schedule in {solution}"
        return
    assert solution.status == "optimal", f"{name}: expected optimal, got {solution}"
    assert solution.makespan == least == solution.lower_bound, f"{name}: expected makespan {least}, got {solution}"
    _check_starts(instance, solution, name)


def _check_starts(instance: Instance, solution: Solution, name: str) -> None:
    assert solution.starts is not None and set(solution.starts) == set(instance.labels), f"{name}: {solution}"
    assert all(type(start) is int for start in solution.starts.values()), f"{name}: not whole numbers in {solution}"
    assert solution.makespan == instance.makespan(dict(solution.starts)), f"{name}: wrong makespan in {solution}"
    short = sum(job.duration for job in instance.jobs) < 1000
    assert not short or is_feasible(instance, solution.starts), f"{name}: infeasible schedule in {solution}"


def _check_repeatable(make_solver: Callable[[], Solver]) -> None:
    """Check that equal instances give equal solutions: from the same solver, from a new one, and after other work."""
    solver = make_solver()
    for seed in range(5):
        instance = random_instance(random.Random(seed), max_jobs=8)
        first = solver.solve(instance)
        for again in (solver.solve(instance), make_solver().solve(instance)):
            same = (again.status, again.starts, again.makespan, again.lower_bound)
            assert same == (first.status, first.starts, first.makespan, first.lower_bound), f"{again} after {first}"


def _check_no_time(solver: Solver) -> None:
    """Check that without time no feasible instance is called infeasible, and all claims still hold."""
    for name, instance, least in _hand_made():
        solution = solver.solve(instance, limit=0.0)
        if least is None:
            assert solution.status in ("infeasible", "unknown"), f"{name}: {solution}"
            continue
        assert solution.status in ("optimal", "feasible", "unknown"), f"{name}: {solution}"
        assert solution.lower_bound <= least, f"{name}: {solution}"
        if solution.status == "unknown":
            assert solution.starts is None and solution.makespan is None, f"{name}: {solution}"
        else:
            assert solution.makespan is not None and solution.makespan >= least, f"{name}: {solution}"
            assert solution.status == "feasible" or solution.makespan == least, f"{name}: {solution}"
            _check_starts(instance, solution, name)
