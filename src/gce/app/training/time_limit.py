"""A run's time limit, looked at after every answer and every optimizer step.

What is not complete when time is over is dropped, as if the run had been killed in it, so that a resumed run comes to
the same end. Tests at the end are taken whole: without them a run says nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from gce.app.training.state import Run
from gce.errors import Unfinished

__all__ = ["TimeIsUp", "in_minutes", "is_over", "no_time_to_train", "stage"]


class TimeIsUp(Exception):
    """A run's time is over before an iteration, or a test before the first one, is complete."""


def is_over(run: Run, *, needed: float = 0.0) -> bool:
    """Return whether less than the `needed` seconds are left."""
    return run.deadline is not None and run.clock.now() + needed >= run.deadline


def stage(run: Run, name: str, total: int) -> Callable[[], None]:
    """Begin a stage of `total` steps; return a function to call after each step.

    The function raises TimeIsUp if the run's time is over and further steps are left.
    """
    advance, left = run.watcher.stage(name, total), total

    def step() -> None:
        nonlocal left
        advance()
        left -= 1
        if left > 0 and is_over(run):
            raise TimeIsUp

    return step


def in_minutes(minutes: float) -> str:
    """Return a time limit in words."""
    return "1 minute" if minutes == 1 else f"{minutes:g} minutes"


def no_time_to_train(minutes: float) -> Unfinished:
    """Return the error of a run whose tests take all of its time."""
    return Unfinished(
        f"tests before and after training take longer than the limit of {in_minutes(minutes)}: nothing was trained",
        hint="resume with more {stopping.minutes}, or begin a run with fewer {evaluation.test} problems",
    )
