"""Drawing again until something fits: every try counts towards the limit, whatever it was refused for, and by whom.

Whoever draws in a loop uses this, so that what can never fit ends with an error and not never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["TRIES", "NoProblem", "draw_until_it_fits", "first_that_fits"]

Drawn = TypeVar("Drawn")

TRIES = 1000
"""The hardest tier that is shipped takes four on average."""


class NoProblem(ValueError):
    """A problem that there is not: too few of a tier differ, or a file holds none."""


def first_that_fits(draw: Callable[[], Drawn | None], *, tries: int = TRIES) -> Drawn | None:
    """What `draw` gives first that is not None, in at most `tries` calls; None where nothing fitted."""
    for _ in range(tries):
        found = draw()
        if found is not None:
            return found
    return None


def draw_until_it_fits(draw: Callable[[], Drawn | None], what: str, *, tries: int = TRIES) -> Drawn:
    """The same, where something has to fit.

    Raises:
        NoProblem: nothing fitted; the message names `what` was to be drawn.
    """
    found = first_that_fits(draw, tries=tries)
    if found is None:
        raise NoProblem(f"{tries:,} draws gave no {what}: its constraints leave room for hardly any, or for none")
    return found
