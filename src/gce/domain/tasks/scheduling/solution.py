"""What a solver found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import frozen

__all__ = ["Solution", "SolutionStatus"]


SolutionStatus = Literal["optimal", "feasible", "infeasible", "unknown"]


@frozen
class Solution:
    """What a solver found. Times in the instance's units."""

    status: SolutionStatus
    """`unknown` where time ran out without a schedule: never read as infeasible."""
    starts: Mapping[str, int] | None
    makespan: int | None
    lower_bound: int
    """Proven: no schedule ends earlier."""
    seconds: float = 0.0
