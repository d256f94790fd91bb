"""Say of what was interrupted in Python what it was, and how a run continues; and of what is slow what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Timer
from typing import Any

from gce.app.settings.records import TrainSettings
from gce.app.wiring.names import plain_name

__all__ = ["Interrupted", "resume_call", "saying_if_interrupted", "saying_if_slow"]

SLOW = 3.0
"""Seconds."""


class Interrupted(KeyboardInterrupt):
    """What was interrupted, and how it continues; a notebook shows this line alone, without the frames below it."""

    def _render_traceback_(self) -> list[str]:
        """See `IPython.core.interactiveshell.InteractiveShell.showtraceback`."""
        return [f"KeyboardInterrupt: {self}"]


@contextmanager
def saying_if_interrupted(words: str) -> Iterator[None]:
    """Give a KeyboardInterrupt these words, unless it has some already: it is `Interrupted` then."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise (interrupt if interrupt.args else Interrupted(words)) from None


@contextmanager
def saying_if_slow(say: Callable[[str], None], words: str) -> Iterator[None]:
    """Say these words where what is done inside takes longer than `SLOW`."""
    timer = Timer(SLOW, say, [words])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def resume_call(name: str, settings: TrainSettings, changes: Mapping[str, Any], *, own_runs: bool = False) -> str:
    """The whole call of `gce.resume` that continues a run: with all that was given from Python.

    A task has its name where that can be a variable's; for other objects stand three dots.
    """
    given = {
        "task": settings.task,
        "model": settings.model.name,
        "algorithm": settings.objective.algorithm,
        "evaluator": settings.evaluator,
    }
    words = [repr(name), *(f"{setting.rpartition('.')[2]}={value!r}" for setting, value in changes.items())]
    for argument, stored in given.items():
        own = plain_name(stored)
        if own != stored:
            words.append(f"{argument}={own if argument == 'task' and own.isidentifier() else '...'}")
    words += ["runs=..."] if own_runs else []
    return f"gce.resume({', '.join(words)})"
