"""The port for exact solvers of scheduling instances."""

from __future__ import annotations

from typing import Protocol

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["Solver"]


class Solver(Protocol):
    """Finds minimum-makespan schedules."""

    def solve(self, instance: Instance, limit: float = 60.0) -> Solution:
        """Minimise the makespan under every constraint of `instance`, deadlines and horizon included.

        Takes at most `limit` seconds. An `optimal` solution has starts, a makespan and an equal lower bound; an
        `infeasible` one has no schedule. If time runs out, the solution is `feasible` with the best starts so far, or
        `unknown`. Deterministic: the same instance gives the same solution.
        """
        ...
