"""Rejection sampling with a limit: every rejected draw counts, whatever the reason.

Every loop that draws until something fits uses these functions, so an impossible request ends with an error instead of
running forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["TRIES", "NoProblem", "draw_until_it_fits", "first_that_fits"]

Drawn = TypeVar("Drawn")

TRIES = 1000
"""Maximum number of draws; the hardest shipped tier takes four on average."""


class NoProblem(ValueError):
    """Raised if a problem cannot be drawn: a tier has too few different problems, or a file holds none."""


def first_that_fits(draw: Callable[[], Drawn | None], *, tries: int = TRIES) -> Drawn | None:
    """Return the first result of `draw` that is not None, in at most `tries` calls; None if there is none."""
    for _ in range(tries):
        found = draw()
        if found is not None:
            return found
    return None


def draw_until_it_fits(draw: Callable[[], Drawn | None], what: str, *, tries: int = TRIES) -> Drawn:
    """Return the first result of `draw` that is not None, in at most `tries` calls.

    Raises:
        NoProblem: every call returned None; the message says `what` was being drawn.
    """
    found = first_that_fits(draw, tries=tries)
    if found is None:
        raise NoProblem(f"{tries:,} draws gave no {what}: its constraints allow too few, or none")
    return found
