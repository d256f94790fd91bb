"""Processor time of one call, in a process whose heap holds what a thousand tests left."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["seconds_of", "within"]


@contextmanager
def _heap_set_aside() -> Iterator[None]:
    """The garbage collector leaves alone what is there already: going through it may take seconds."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def seconds_of(call: Callable[[], object]) -> float:
    """What a call takes in this thread."""
    with _heap_set_aside():
        began = time.thread_time()
        call()
        return time.thread_time() - began


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where the block takes that long in this thread."""
    with _heap_set_aside():
        began = time.thread_time()
        yield
        assert time.thread_time() - began < seconds
