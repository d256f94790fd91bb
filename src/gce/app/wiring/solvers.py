"""Find exact solvers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gce.adapters.solvers.cpsat import CpSatSolver
from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import SystemClock
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["SOLVERS", "bounds_within", "find_solve"]

SOLVERS: Mapping[str, Callable[[], Any]] = {
    "solver": lambda: ExactSolver(SystemClock()).solve,
    "cpsat": lambda: CpSatSolver().solve,
}
"""Solvers by name."""


def find_solve(name: str) -> Any:
    """Return the solve function of an exact solver; None if the name is not a solver's, such as a heuristic's."""
    return SOLVERS[name]() if name in SOLVERS else None


def bounds_within(work: float) -> Callable[[Instance], Solution]:
    """Return what finds the optimum or bounds of an instance by CP-SAT in so many units of deterministic time."""
    solver = CpSatSolver()
    return lambda instance: solver.solve(instance, deterministic=work)
