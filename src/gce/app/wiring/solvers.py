"""From the name of an exact solver to its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gce.adapters.solvers.branch_and_bound import ExactSolver
from gce.adapters.solvers.cpsat import CpSatSolver
from gce.adapters.system.clocks import SystemClock

__all__ = ["SOLVERS", "find_solve"]

SOLVERS: Mapping[str, Callable[[], Any]] = {
    "solver": lambda: ExactSolver(SystemClock()).solve,
    "cpsat": lambda: CpSatSolver().solve,
}
"""By name."""


def find_solve(name: str) -> Any:
    """The exact solver's function; None where the name is none of a solver, as that of a heuristic."""
    return SOLVERS[name]() if name in SOLVERS else None
