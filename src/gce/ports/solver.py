"""Exact solutions of scheduling instances."""

from __future__ import annotations

from typing import Protocol

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.solution import Solution

__all__ = ["Solver"]


class Solver(Protocol):
    """Finds a schedule of least makespan."""

    def solve(self, instance: Instance, limit: float = 60.0) -> Solution:
        """Minimise the makespan subject to every constraint of `instance`, its deadlines and horizon included.

        At most `limit` seconds. `optimal` carries starts, makespan and an equal lower bound; `infeasible` carries
        none; where time ran out: `feasible` with the best starts, or `unknown`. Same instance, same answer.
        """
        ...
