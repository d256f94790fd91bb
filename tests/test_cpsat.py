"""CP-SAT behind the Solver port, and that the pure solver agrees with it."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

from gce.adapters.solvers.cpsat import CpSatSolver, check_starts
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.heuristics import HEURISTICS
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.errors import MissingExtra
from gce.testing.contracts.solver import check_solver, is_feasible, random_instance
from gce.testing.scheduling.generators import Flawed, Scheduled, flawed_schedules, random_schedules, scheduled_instances

pytest.importorskip("ortools")


def any_instances(max_jobs: int) -> st.SearchStrategy[Instance]:
    """Feasible and infeasible ones."""
    return st.randoms(use_true_random=False).map(lambda rng: random_instance(rng, max_jobs=max_jobs))


def assert_solvers_agree(instance: Instance) -> None:
    """Same status, makespan and bound; each accepts the other's schedule."""
    pure, vendor = solve(instance), CpSatSolver().solve(instance)
    assert (pure.status, pure.makespan) == (vendor.status, vendor.makespan)
    if pure.starts is not None:
        assert pure.lower_bound == vendor.lower_bound
        assert check_starts(instance, pure.starts)
        assert is_feasible(instance, present(vendor.starts))


def test_the_adapter_keeps_to_the_solver_port() -> None:
    """Every sentence of the port's docstring, over hand-made and random instances."""
    check_solver(CpSatSolver)


@given(instance=any_instances(max_jobs=8))
def test_the_pure_solver_agrees(instance: Instance) -> None:
    """Feasible or not, up to 8 jobs."""
    assert_solvers_agree(instance)


@pytest.mark.slow
@given(scheduled=scheduled_instances(max_jobs=8))
def test_the_pure_solver_agrees_on_feasible_instances(scheduled: Scheduled) -> None:
    """Constraints laid around a known schedule, so that all are tight at once."""
    assert_solvers_agree(scheduled.instance)


@pytest.mark.slow
@given(instance=any_instances(max_jobs=12))
@settings(max_examples=300)
def test_the_pure_solver_agrees_up_to_its_largest_instances(instance: Instance) -> None:
    """Feasible or not, up to 12 jobs."""
    assert_solvers_agree(instance)


@pytest.mark.slow
@given(scheduled=scheduled_instances(min_jobs=9, max_jobs=12))
@settings(max_examples=300)
def test_the_pure_solver_agrees_on_large_feasible_instances(scheduled: Scheduled) -> None:
    """9 to 12 jobs, all constraints tight at once."""
    assert_solvers_agree(scheduled.instance)


def test_more_jobs_than_the_pure_solver_takes() -> None:
    """30 jobs of 1 on 4 units, two each: 15 pairs, 15 hours."""
    jobs = [Job(f"J{number}", 1, [2]) for number in range(30)]
    assert CpSatSolver().solve(Instance(jobs, resources=[Resource("crew", 4)])).makespan == 15


def test_a_time_out_is_not_infeasible() -> None:
    """Feasible (one after another ends at 60) but given no time: nothing false is said."""
    rng = random.Random(0)
    jobs = [Job(f"J{number}", rng.randint(1, 9), [rng.randint(1, 3)]) for number in range(60)]
    solution = CpSatSolver().solve(Instance(jobs, resources=[Resource("crew", 4)]), limit=0.0)
    assert solution.status == "unknown"
    assert solution.starts is None and solution.makespan is None
    assert solution.lower_bound <= 300


@given(scheduled=scheduled_instances(max_jobs=6), data=st.data())
@settings(max_examples=60)
def test_fixed_starts_are_judged_like_hour_by_hour(scheduled: Scheduled, data: st.DataObject) -> None:
    """Right schedules are accepted; random ones exactly when looking at every hour accepts them."""
    assert check_starts(scheduled.instance, scheduled.starts)
    starts = data.draw(random_schedules(scheduled.instance))
    assert check_starts(scheduled.instance, starts) == is_feasible(scheduled.instance, starts)


@given(flawed=flawed_schedules(max_jobs=6))
@settings(max_examples=60)
def test_fixed_starts_with_one_flaw_are_refused(flawed: Flawed) -> None:
    """Each kind of constraint, broken by just enough."""
    assert not check_starts(flawed.instance, flawed.starts)


def test_fixed_starts_before_time_0_are_refused() -> None:
    """A start of -1 breaks no precedence, but time begins at 0."""
    assert not check_starts(Instance([Job("A", 2)]), {"A": -1})
    assert check_starts(Instance([Job("A", 2)]), {"A": 1000})


def test_fixed_starts_must_name_every_job_once() -> None:
    """A missing and an unknown job: ValueError, not a verdict."""
    instance = Instance([Job("A", 2), Job("B", 1)])
    for starts in ({"A": 0}, {"A": 0, "B": 0, "C": 0}):
        with pytest.raises(ValueError, match="expected a start for each of A, B"):
            check_starts(instance, starts)


def test_heuristics_never_beat_the_optimum() -> None:
    """A second look at 40 instances of 10 jobs: CP-SAT's makespan is at most that of every dispatching rule."""
    for seed in range(40):
        instance = random_instance(random.Random(seed), max_jobs=10).without("deadlines")
        least = CpSatSolver().solve(instance).makespan
        for name in ("earliest-deadline", "latest-finish-time", "random-priority"):
            starts = HEURISTICS[name](instance, random.Random(seed))
            assert least is None or least <= instance.makespan(starts)


def test_without_ortools_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing the adapter needs no vendor; making a solver does."""
    real = builtins.__import__

    def without_ortools(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("ortools"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_ortools)
    with pytest.raises(MissingExtra, match=r"pip install 'grounded-eval\[solver\]'"):
        CpSatSolver()
