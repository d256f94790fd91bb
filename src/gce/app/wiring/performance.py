"""Performance tasks: which adapters read, fetch and measure them."""

from __future__ import annotations

from gce.adapters.performance.measuring import Measuring
from gce.app.wiring.sandboxes import AUTO

__all__ = ["find_measuring"]


def find_measuring(runner: str = AUTO) -> Measuring:
    """Return what compares versions of code, in the first sandbox that works here, after it has been checked.

    Raises:
        BadInput: no sandbox works, or it does not see the processor time of a known piece of work.
    """
    raise NotImplementedError
