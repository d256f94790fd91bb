"""What is found where a stored run is checked against its digests."""

from __future__ import annotations

from attrs import frozen

__all__ = ["Verified"]


@frozen
class Verified:
    """What was found when everything that is kept of a run was held against its digests."""

    iteration: int | None
    """The last one whose commit is intact; None where there is none."""
    digest: str
    """Of that commit: equal in two runs only if everything that was committed is."""
    checkpoints: tuple[int, ...]
    """Iterations whose model states are kept."""
    problems: tuple[str, ...]
    """One line for each part that is missing, or not as it was written."""
