"""Processor time of one call, in a process whose heap holds what a thousand tests left."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["seconds_of", "within"]


def seconds_of(call: Callable[[], object]) -> float:
    """What it takes in this thread; the garbage collector leaves alone what is there already: that may take seconds."""
    gc.freeze()
    try:
        began = time.thread_time()
        call()
        return time.thread_time() - began
    finally:
        gc.unfreeze()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the block takes that long in this thread, measured as `seconds_of` does."""
    gc.freeze()
    try:
        began = time.thread_time()
        yield
        assert time.thread_time() - began < seconds
    finally:
        gc.unfreeze()
