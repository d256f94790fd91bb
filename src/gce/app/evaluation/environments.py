"""Environments that hold up no conversation by not returning: each has a thread of its own, and so much time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from gce.domain.strategies.requests import Act, Failed, Observation
from gce.ports.environment import Environment

__all__ = ["TimedEnvironment"]

GRACE, TO_CLOSE = 1.0, 10.0
"""Seconds by which an environment may be late, and that closing may take."""


class TimedEnvironment:
    """An `Environment` made by `make`, held to its time: one that does not return is given up, with all later acts.

    It is made, used and closed in one thread. What it raises is raised here.
    """

    def __init__(self, make: Callable[[], Environment]) -> None:
        self._asked: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._told: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._given_up = ""
        Thread(target=self._work, daemon=True).start()
        try:
            self._environment: Environment = self._ask(make, None)
        except BaseException:
            self._asked.put(None)
            raise

    def reset(self, *, seconds: float) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        return self._within(seconds, partial(self._environment.reset, seconds=seconds))

    def step(self, act: Act) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        return self._within(act.seconds, partial(self._environment.step, act))

    def close(self) -> None:
        """See `gce.ports.environment.Environment`. One that was given up is closed when it returns, if ever."""
        with suppress(Empty):
            self._ask(self._environment.close, 0.0 if self._given_up else TO_CLOSE)
        self._asked.put(None)
        self._given_up = self._given_up or "the environment is closed"

    def _within(self, seconds: float, work: Callable[[], Observation | Failed]) -> Observation | Failed:
        if not self._given_up:
            try:
                found: Observation | Failed = self._ask(work, seconds + GRACE)
                return found
            except Empty:
                self._given_up = f"the environment did not return within {seconds:g} s and was given up"
        return Failed(self._given_up)

    def _ask(self, work: Callable[[], Any], timeout: float | None) -> Any:
        self._asked.put(work)
        found, error = self._told.get(timeout=timeout)
        if error is not None:
            raise error
        return found

    def _work(self) -> None:
        while (work := self._asked.get()) is not None:
            try:
                self._told.put((work(), None))
            except BaseException as error:
                self._told.put((None, error))
