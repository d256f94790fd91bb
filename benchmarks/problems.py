"""Problems drawn a second, each with its proven shortest schedule, on one core."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

from benchmarks.contest import Turn, measured
from gce.adapters.solvers.cpsat import build_model
from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import SystemClock
from gce.domain.tasks import TASKS, ProblemSource
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution

PROBLEMS = 40


def ours() -> Callable[[], Turn]:
    """The default of `gce`: the branch and bound of `gce.domain`."""
    return _drawer(ExactSolver(SystemClock()).solve)


def cp_sat() -> Callable[[], Turn]:
    """The same draws, each solved by CP-SAT as it comes."""
    from ortools.sat.python import cp_model

    def solve(instance: Instance) -> Solution:
        model, starts, makespan = build_model(cp_model, instance, latest=sum(job.duration for job in instance.jobs))
        model.minimize(makespan)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        if solver.solve(model) != cp_model.OPTIMAL:
            return Solution("infeasible", None, None, 0)
        found = {label: int(solver.value(start)) for label, start in starts.items()}
        length = instance.makespan(found)
        return Solution("optimal", found, length, length)

    return _drawer(solve)


def _drawer(solve: Any) -> Callable[[], Turn]:
    source = ProblemSource(TASKS["scheduling"], solve=solve)
    drawn = 0
    with contextlib.suppress(AttributeError):  # There is no such call on macOS.
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

    def work() -> float:
        nonlocal drawn
        for index in range(drawn, drawn + PROBLEMS):
            source.draw("grounded", "T5", "dev", index, seed=2)
        drawn += PROBLEMS
        return PROBLEMS

    return lambda: measured(work)
