"""The result of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

__all__ = ["Solution", "SolutionStatus"]


SolutionStatus = Literal["optimal", "feasible", "infeasible", "unknown"]


@frozen
class Solution:
    """The result of a solver. Times are in the instance's units."""

    status: SolutionStatus
    """`unknown`: time ran out without a schedule; never read it as infeasible."""
    starts: Mapping[str, int] | None
    makespan: int | None
    lower_bound: int
    """Proven lower bound on the makespan."""
    seconds: float = 0.0
