"""SIGTERM interrupts a command as Ctrl-C does, so that it says how to continue, and still ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType

__all__ = ["terminable"]


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM an interruption of what is done inside, in this process alone; it ends by the signal afterwards."""
    if current_thread() is not main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    process, received = os.getpid(), list[int]()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != process or received:
            _end_by(number)
        received.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if received:
            _end_by(*received)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
