"""The pure branch and bound: hand-worked optima, brute force, and what happens when it is cut short."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import FakeClock, SystemClock
from gce.domain.tasks.scheduling.branch_and_bound import MAX_JOBS, solve
from gce.domain.tasks.scheduling.heuristics import critical_path_length
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.testing.contracts.solver import check_solver, is_feasible, least_makespan, random_instance
from gce.testing.scheduling.generators import Scheduled, scheduled_instances


def any_instances(max_jobs: int, max_duration: int = 5) -> st.SearchStrategy[Instance]:
    """Feasible and infeasible ones."""
    rngs = st.randoms(use_true_random=False)
    return rngs.map(lambda rng: random_instance(rng, max_jobs=max_jobs, max_duration=max_duration))


def packing() -> Instance:
    """Ten jobs on four units without any order: 12 is an easy bound, 13 the optimum, the first schedule takes 14."""
    durations = (5, 2, 1, 1, 2, 1, 3, 4, 5, 3)
    demands = ((2, 1), (2, 1), (2, 1), (2, 2), (1, 1), (2, 2), (1, 2), (1, 2), (2, 1), (2, 2))
    jobs = [
        Job(label, duration, demand) for label, duration, demand in zip("ABCDEFGHIJ", durations, demands, strict=True)
    ]
    return Instance(jobs, resources=[Resource("crew", 4), Resource("crane", 4)])


class CountingClock:
    """One second passes each time it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def now(self) -> float:
        self.reads += 1
        return float(self.reads)


def test_the_adapter_keeps_to_the_solver_port() -> None:
    """Every sentence of the port's docstring, over hand-made and random instances."""
    check_solver(lambda: ExactSolver(SystemClock()))


def test_the_longest_job_first_is_not_always_best() -> None:
    """Two crews: 5, 4, 3, 3, 3 packs into 9 as 5+4 and 3+3+3; longest first gives 5+3+3 = 11."""
    jobs = [Job(label, duration, [1]) for label, duration in zip("ABCDE", (5, 4, 3, 3, 3), strict=True)]
    solution = solve(Instance(jobs, resources=[Resource("crew", 2)]))
    assert (solution.status, solution.makespan, solution.lower_bound) == ("optimal", 9, 9)


def test_waiting_can_beat_starting_at_once() -> None:
    """One crew. A (3) could start at 0, but B (1, due at 2) is ready at 1: the crew has to stay idle for an hour."""
    jobs = [Job("A", 3, [1]), Job("R", 1, [0]), Job("B", 1, [1], 2), Job("C", 4, [0])]
    solution = solve(Instance(jobs, [("R", "B"), ("B", "C")], [Resource("crew", 1)]))
    assert solution.starts == {"A": 2, "R": 0, "B": 1, "C": 2}
    assert solution.makespan == 6


def test_jobs_without_demand_pass_their_time_on() -> None:
    """A (crew, 2) leads to X (3) leads to B (crew, 1); C (crew, 2) fits into the three hours between: 6, not 8."""
    jobs = [Job("A", 2, [1]), Job("X", 3, [0]), Job("B", 1, [1]), Job("C", 2, [1])]
    solution = solve(Instance(jobs, [("A", "X"), ("X", "B")], [Resource("crew", 1)]))
    assert solution.starts == {"A": 0, "X": 2, "B": 5, "C": 2}


def test_a_job_that_takes_no_time_still_orders_its_neighbours() -> None:
    """A (2) leads to Z (0) leads to B (2): B starts at 2 though Z holds the crew for no time."""
    jobs = [Job("B", 2, [0]), Job("Z", 0, [1]), Job("A", 2, [0]), Job("D", 4, [1])]
    solution = solve(Instance(jobs, [("A", "Z"), ("Z", "B")], [Resource("crew", 1)]))
    assert solution.starts == {"B": 2, "Z": 2, "A": 0, "D": 0}


def test_alike_jobs_may_differ_in_their_deadlines() -> None:
    """A and B are alike, but B is due first and A leads to the long C: B A C, 10. Without deadlines A goes first."""
    jobs = [Job("A", 2, [1]), Job("B", 2, [1], 2), Job("C", 6, [0])]
    instance = Instance(jobs, [("A", "C")], [Resource("crew", 1)])
    assert solve(instance).makespan == 10
    assert solve(instance.without("deadlines")).makespan == 8


def test_alike_jobs_may_differ_in_what_waits_for_them() -> None:
    """A is due at 4, B at 4 too, because of the long C: B goes first all the same, for 8 and not 10."""
    jobs = [Job("A", 2, [1], 4), Job("B", 2, [1]), Job("C", 6, [0])]
    assert solve(Instance(jobs, [("B", "C")], [Resource("crew", 1)])).makespan == 8


def test_alike_jobs_may_differ_in_what_they_wait_for() -> None:
    """A waits for P until 3 and leads to D as well: B goes before it, while the crew is idle, for 10 and not 12."""
    jobs = [Job("P", 3, [0]), Job("A", 2, [1]), Job("B", 2, [1]), Job("C", 5, [0]), Job("D", 1, [0])]
    edges = [("P", "A"), ("A", "C"), ("B", "C"), ("A", "D")]
    assert solve(Instance(jobs, edges, [Resource("crew", 1)])).makespan == 10


def test_a_deadline_of_a_job_without_demand_orders_those_that_have_one() -> None:
    """X, due at 3, follows A (2): A goes before B though the long Y follows B, for 12 and not 10."""
    jobs = [Job("A", 2, [1]), Job("B", 3, [1]), Job("X", 1, [0], 3), Job("Y", 7, [0])]
    instance = Instance(jobs, [("A", "X"), ("B", "Y")], [Resource("crew", 1)])
    assert solve(instance).makespan == 12
    assert solve(instance.without("deadlines")).makespan == 10


def test_two_orders_that_free_the_crew_at_once_may_differ_in_what_they_set_off() -> None:
    """A and B have both ended at 4, whichever goes first, but the long X follows A: 12 after A B C, 14 after B A C."""
    jobs = [Job("A", 2, [1]), Job("B", 2, [1], 5), Job("C", 6, [1]), Job("X", 10, [0])]
    assert solve(Instance(jobs, [("A", "X")], [Resource("crew", 1)])).makespan == 12


def test_work_beyond_a_deadline_does_not_count_against_it() -> None:
    """A runs from 0 to 10, and what it does after 4 takes nothing from B, which is ready at 1 and due at 4."""
    jobs = [Job("A", 10, [1], 10), Job("P", 1, [0]), Job("B", 2, [1], 4), Job("C", 5, [1])]
    solution = solve(Instance(jobs, [("P", "B")], [Resource("crew", 2)]))
    assert solution.starts == {"A": 0, "P": 0, "B": 1, "C": 3}


def test_the_horizon_is_a_constraint() -> None:
    """Optimal makespan 13: feasible within 13, infeasible within 12, and no bound above the horizon is invented."""
    assert solve(packing()).makespan == 13
    assert solve(evolve(packing(), horizon=13)).makespan == 13
    assert solve(evolve(packing(), horizon=12)).status == "infeasible"


def test_a_node_limit_never_gives_a_false_answer() -> None:
    """Cut short anywhere, the status says what is known: a schedule no better than 13, a bound of at most 13."""
    instance = packing()
    statuses = [solve(instance, node_limit=limit).status for limit in (0, 5, 100)]
    assert statuses == ["unknown", "unknown", "feasible"]
    for limit in range(0, 400, 13):
        solution = solve(instance, node_limit=limit)
        assert solution.status in ("unknown", "feasible")
        assert solution.lower_bound <= 13
        if solution.starts is not None:
            assert is_feasible(instance, present(solution.starts))
            assert solution.makespan == instance.makespan(solution.starts) >= 13


def test_a_node_limit_does_not_call_the_unproven_infeasible() -> None:
    """Infeasible within 12, but a handful of nodes cannot know it."""
    assert solve(evolve(packing(), horizon=12), node_limit=20).status == "unknown"


def test_the_clock_ends_a_search() -> None:
    """The search reads the clock now and then; after 3 s it stops with what it has."""
    solution = ExactSolver(CountingClock()).solve(packing(), limit=3.0)
    assert solution.status == "feasible"
    assert 3.0 <= solution.seconds <= 6.0


def test_seconds_come_from_the_clock_alone() -> None:
    """A clock that stands still: 0 s, and no limit is reached."""
    assert ExactSolver(FakeClock()).solve(packing(), limit=1e-9).status == "optimal"
    assert solve(packing()).seconds == 0.0


def test_too_many_jobs_name_the_alternative() -> None:
    """17 jobs: the message says how many are possible and what to use instead."""
    labels = "ABCDEFGHIJKLMNOPQ"
    assert solve(Instance([Job(label, 1) for label in labels[:MAX_JOBS]])).makespan == 1
    with pytest.raises(ValueError, match="at most 16 jobs, got 17: use CP-SAT"):
        solve(Instance([Job(label, 1) for label in labels]))


@pytest.mark.slow
@given(instance=any_instances(max_jobs=4, max_duration=3))
def test_brute_force_finds_nothing_shorter(instance: Instance) -> None:
    """Trying every start of every job gives the same makespan, or none."""
    solution = solve(instance)
    assert solution.makespan == least_makespan(instance)
    assert solution.status == ("infeasible" if solution.makespan is None else "optimal")


@given(instance=any_instances(max_jobs=9))
def test_schedules_keep_every_constraint(instance: Instance) -> None:
    """Answer hour by hour; labels in prompt order; the bound lies between critical path and makespan."""
    solution = solve(instance)
    if solution.status == "optimal":
        assert is_feasible(instance, present(solution.starts))
        assert tuple(present(solution.starts)) == instance.labels
        assert critical_path_length(instance) <= solution.lower_bound == solution.makespan


@pytest.mark.slow
@given(scheduled=scheduled_instances(max_jobs=9))
def test_a_known_schedule_is_never_beaten_by_infeasible_or_longer(scheduled: Scheduled) -> None:
    """Where some schedule keeps every constraint, the optimum exists and ends no later."""
    solution = solve(scheduled.instance)
    assert solution.status == "optimal"
    assert present(solution.makespan) <= scheduled.instance.makespan(scheduled.starts)


@pytest.mark.slow
@given(instance=any_instances(max_jobs=7), rng=st.randoms(use_true_random=False))
def test_the_order_of_the_prompt_does_not_matter(instance: Instance, rng: random.Random) -> None:
    """Jobs, edges and resources shuffled: same makespan."""
    order = list(range(len(instance.resources)))
    rng.shuffle(order)
    jobs = [evolve(job, demands=tuple(job.demands[r] for r in order)) for job in instance.jobs]
    edges = list(instance.precedence)
    rng.shuffle(jobs)
    rng.shuffle(edges)
    shuffled = Instance(jobs, edges, [instance.resources[r] for r in order], instance.horizon)
    assert solve(shuffled).makespan == solve(instance).makespan


@pytest.mark.slow
@given(instance=any_instances(max_jobs=7), factor=st.integers(2, 10**6))
def test_time_has_no_unit(instance: Instance, factor: int) -> None:
    """All times multiplied: the makespan is multiplied, and it takes no longer."""

    def scaled(time: int | None) -> int | None:
        return None if time is None else time * factor

    jobs = [evolve(job, duration=job.duration * factor, deadline=scaled(job.deadline)) for job in instance.jobs]
    solution = solve(evolve(instance, jobs=jobs, horizon=scaled(instance.horizon)))
    assert solution.makespan == scaled(solve(instance).makespan)


@given(instance=any_instances(max_jobs=8))
@settings(max_examples=50)
def test_fewer_constraints_never_cost_time(instance: Instance) -> None:
    """Dropping a family of constraints gives a makespan no greater."""
    least = solve(instance).makespan
    for family in ("sequencing", "resources", "deadlines"):
        assert least is None or present(solve(instance.without(family)).makespan) <= least
