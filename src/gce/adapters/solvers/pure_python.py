"""The Solver port over the pure Python branch and bound: small instances, no extra to install."""

from __future__ import annotations

from attrs import evolve

from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution
from gce.ports.clock import Clock

__all__ = ["ExactSolver"]


class ExactSolver:
    """A `Solver` for instances of at most 16 jobs; `clock` measures the time and enforces the limit."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def solve(self, instance: Instance, limit: float = 60.0) -> Solution:
        """Return the minimum-makespan schedule; ValueError for more than 16 jobs, which need `CpSatSolver`."""
        begun = self._clock.now()
        solution = solve(instance, stop=lambda: self._clock.now() - begun >= limit)
        return evolve(solution, seconds=self._clock.now() - begun)
