"""Drawing again until something fits: every try counts towards the limit, whatever it was refused for, and by whom.

Whoever draws in a loop uses this, so that what can never fit ends with an error and not never.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gce.domain.tasks.task import NoProblem

__all__ = ["TRIES", "draw_until_it_fits"]

Drawn = TypeVar("Drawn")

TRIES = 1000
"""The hardest tier that is shipped takes four on average."""


def draw_until_it_fits(draw: Callable[[], Drawn | None], what: str, *, tries: int = TRIES) -> Drawn:
    """What `draw` gives first that is not None, in at most `tries` calls.

    Raises:
        NoProblem: nothing fitted; the message names `what` was to be drawn.
    """
    for _ in range(tries):
        found = draw()
        if found is not None:
            return found
    raise NoProblem(f"{tries:,} draws gave no {what}: its constraints leave room for hardly any, or for none")
