"""Priority-rule schedules: hand-worked examples, and that they are always feasible but for deadlines."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from present import present

from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.heuristics import (
    HEURISTICS,
    critical_path_length,
    earliest_deadline_order,
    earliest_starts,
    latest_finish_order,
    latest_finish_times,
    parallel_schedule,
    random_order,
    serial_schedule,
)
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.testing.contracts.solver import is_feasible, random_instance


def any_instances(max_jobs: int = 9) -> st.SearchStrategy[Instance]:
    """Feasible and infeasible ones."""
    return st.randoms(use_true_random=False).map(lambda rng: random_instance(rng, max_jobs=max_jobs))


def without_deadlines(instance: Instance) -> Instance:
    """Only precedence and resources left."""
    return evolve(instance.without("deadlines"), horizon=None)


def building() -> Instance:
    """A 3 then C 2; B 4 then C; D 3 alone. One unit each of a crew of 2; C needs both.

    Precedence alone: A 0, B 0, C 4, D 0, so 6. With the crew: 11 units of work and C, which runs alone.
    """
    jobs = [Job("A", 3, [1]), Job("B", 4, [1], 8), Job("C", 2, [2]), Job("D", 3, [1], 5)]
    return Instance(jobs, [("A", "C"), ("B", "C")], [Resource("crew", 2)])


def test_earliest_starts_follow_the_longest_path() -> None:
    """C waits for B, the longer of its two predecessors; the crew does not count."""
    assert earliest_starts(building()) == {"A": 0, "B": 0, "C": 4, "D": 0}
    assert critical_path_length(building()) == 6


def test_latest_finish_times_without_a_horizon_start_from_the_critical_path() -> None:
    """C may end at 6, so A and B must at 4; D has its own deadline, 5."""
    assert latest_finish_times(building()) == {"A": 4, "B": 4, "C": 6, "D": 5}


def test_latest_finish_times_start_from_the_horizon_and_keep_deadlines() -> None:
    """Within 12: C at 12, A at 10, B at its deadline 8, D at its deadline 5."""
    assert latest_finish_times(evolve(building(), horizon=12)) == {"A": 10, "B": 8, "C": 12, "D": 5}


def test_a_deadline_beyond_the_horizon_changes_nothing() -> None:
    """B may end at 8 by its deadline; within 7 C must end at 7 and B at 5, D at its own deadline, 5."""
    assert latest_finish_times(evolve(building(), horizon=7)) == {"A": 5, "B": 5, "C": 7, "D": 5}
    assert latest_finish_times(Instance([Job("A", 1, deadline=20)], horizon=12)) == {"A": 12}


def test_a_deadline_passes_on_to_predecessors() -> None:
    """C due at 5 and taking 2: A and B must end at 3."""
    jobs = [evolve(job, deadline=5 if job.label == "C" else None) for job in building().jobs]
    latest = latest_finish_times(evolve(building(), jobs=jobs, horizon=20))
    assert latest == {"A": 3, "B": 3, "C": 5, "D": 20}


def test_serial_schedule_places_jobs_in_order_of_priority() -> None:
    """D A beside each other, B when both end at 3, C when B ends at 7."""
    assert serial_schedule(building(), "DABC") == {"A": 0, "B": 3, "C": 7, "D": 0}


def test_serial_schedule_takes_a_job_only_after_its_predecessors() -> None:
    """C first in the list still waits for A and B; D comes last and starts beside them at 3, when A ends."""
    assert serial_schedule(building(), "CABD") == {"A": 0, "B": 0, "C": 4, "D": 6}


def test_serial_schedule_fills_gaps_before_jobs_already_placed() -> None:
    """The short E, last in the list, runs at 3 beside B, before C."""
    instance = building()
    instance = evolve(instance, jobs=[*instance.jobs, Job("E", 1, [1])])
    assert serial_schedule(instance, "ABCDE")["E"] == 3


def test_parallel_schedule_starts_whatever_can_start() -> None:
    """At 3 the unit that A frees goes to D though C is ahead in the list: C is not ready. It has to wait until 6."""
    assert parallel_schedule(building(), "ABCD") == {"A": 0, "B": 0, "C": 6, "D": 3}


def test_serial_and_parallel_differ_where_waiting_pays() -> None:
    """The serial scheme reserves C at 4, so D (3) no longer fits before it; the parallel one starts D at 3."""
    assert serial_schedule(building(), "ABCD") == {"A": 0, "B": 0, "C": 4, "D": 6}


def test_parallel_schedule_passes_jobs_that_take_no_time_at_once() -> None:
    """A leads to B leads to C, A and B in no time: all start at 0."""
    instance = Instance([Job("C", 2), Job("B", 0), Job("A", 0)], [("A", "B"), ("B", "C")])
    assert parallel_schedule(instance, "CBA") == {"C": 0, "B": 0, "A": 0}


def test_jobs_that_take_no_time_hold_nothing() -> None:
    """Z needs the only unit, which A holds, but for no time."""
    instance = Instance([Job("A", 3, [1]), Job("Z", 0, [1])], resources=[Resource("crew", 1)])
    assert serial_schedule(instance, "AZ") == parallel_schedule(instance, "AZ") == {"A": 0, "Z": 0}


def test_earliest_deadline_order_breaks_ties_by_the_path_that_follows() -> None:
    """D due at 5, B at 8; then, without a deadline, A (3 + 2 to come) before C (2)."""
    assert earliest_deadline_order(building()) == ["D", "B", "A", "C"]


def test_a_deadline_of_0_is_the_most_urgent() -> None:
    """0 is a deadline, not the lack of one."""
    assert earliest_deadline_order(Instance([Job("A", 1, (), 1), Job("B", 0, (), 0), Job("C", 9)])) == ["B", "A", "C"]


def test_latest_finish_order_keeps_prompt_order_in_ties() -> None:
    """A and B both at 4, D at 5, C at 6."""
    assert latest_finish_order(building()) == ["A", "B", "D", "C"]


def test_random_order_comes_from_the_generator_alone() -> None:
    """Same seed, same order; all 24 orders of four jobs turn up."""
    assert random_order(building(), random.Random(3)) == random_order(building(), random.Random(3))
    rng = random.Random(0)
    assert len({tuple(random_order(building(), rng)) for _ in range(500)}) == 24


def test_an_order_must_name_every_job_once() -> None:
    """A missing and a repeated label: ValueError in both schemes."""
    for schedule in (serial_schedule, parallel_schedule):
        for order in ("ABC", "ABCC", "ABCDE"):
            with pytest.raises(ValueError, match="expected an order of all labels A, B, C, D"):
                schedule(building(), order)


def test_the_rules_have_these_names() -> None:
    """Reports and configurations use them."""
    assert list(HEURISTICS) == ["earliest-start", "earliest-deadline", "latest-finish-time", "random-priority"]


@given(instance=any_instances(), rng=st.randoms(use_true_random=False))
def test_any_order_gives_a_schedule_that_keeps_precedence_and_resources(instance: Instance, rng: random.Random) -> None:
    """Both schemes, any permutation, judged hour by hour; starts in prompt order."""
    order = list(instance.labels)
    rng.shuffle(order)
    for schedule in (serial_schedule, parallel_schedule):
        starts = schedule(instance, order)
        assert tuple(starts) == instance.labels
        assert is_feasible(without_deadlines(instance), starts)


@given(instance=any_instances(), seed=st.integers(0, 2**32))
def test_rules_lie_between_the_optimum_and_the_sum_of_durations(instance: Instance, seed: int) -> None:
    """Critical path <= optimum without deadlines <= each rule <= all jobs one after another."""
    least = present(solve(without_deadlines(instance)).makespan)
    assert critical_path_length(instance) <= least
    for name, rule in HEURISTICS.items():
        starts = rule(instance, random.Random(seed))
        relaxed = without_deadlines(instance)
        if name == "earliest-start":
            relaxed = relaxed.without("resources")
        else:
            assert least <= instance.makespan(starts) <= sum(job.duration for job in instance.jobs)
        assert is_feasible(relaxed, starts)


@given(instance=any_instances())
def test_earliest_starts_and_latest_finish_times_enclose_the_optimum(instance: Instance) -> None:
    """In a feasible schedule no job starts before its earliest start, or ends after its latest finish time."""
    solution = solve(instance)
    if solution.starts is None:
        return
    earliest = earliest_starts(instance)
    latest = latest_finish_times(evolve(instance, horizon=solution.makespan))
    for job in instance.jobs:
        start = solution.starts[job.label]
        assert earliest[job.label] <= start <= latest[job.label] - job.duration


@given(instance=any_instances(max_jobs=5), rng=st.randoms(use_true_random=False))
def test_some_order_gives_the_optimum_without_deadlines(instance: Instance, rng: random.Random) -> None:
    """The serial scheme, given the jobs by start in an optimal schedule, gives one that is no longer."""
    relaxed = without_deadlines(instance)
    solution = solve(relaxed)
    in_time = sorted(relaxed.topological_order, key=present(solution.starts).__getitem__)
    assert relaxed.makespan(serial_schedule(relaxed, in_time)) == solution.makespan
