"""Environments that end no conversation by not returning: each works in a thread of its own, and within its time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from gce.domain.strategies.requests import Act, Failed, Observation
from gce.ports.environment import Environment

__all__ = ["TimedEnvironment"]

GRACE = 1.0
"""Seconds by which an environment may be late."""
TO_CLOSE = 10.0
"""Seconds that closing may take."""


class TimedEnvironment:
    """An `Environment` made by `make`, held to its time: one that does not return is given up, with all later acts.

    It is made, used and closed in one thread. What it raises is raised here.
    """

    def __init__(self, make: Callable[[], Environment]) -> None:
        self._asked: SimpleQueue[Callable[[Environment], Any] | None] = SimpleQueue()
        self._told: SimpleQueue[Any] = SimpleQueue()
        self._given_up = ""
        Thread(target=self._work, args=(make,), daemon=True).start()
        _value_of(self._told.get())

    def reset(self, *, seconds: float) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        return self._within(seconds, lambda environment: environment.reset(seconds=seconds))

    def step(self, act: Act) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        return self._within(act.seconds, lambda environment: environment.step(act))

    def close(self) -> None:
        """See `gce.ports.environment.Environment`. One that was given up is closed when it returns, if ever."""
        self._asked.put(lambda environment: environment.close())
        self._asked.put(None)
        given_up, self._given_up = self._given_up, self._given_up or "the environment is closed"
        if not given_up:
            with suppress(Empty):
                _value_of(self._told.get(timeout=TO_CLOSE))

    def _within(self, seconds: float, work: Callable[[Environment], Observation | Failed]) -> Observation | Failed:
        if not self._given_up:
            self._asked.put(work)
            try:
                found: Observation | Failed = _value_of(self._told.get(timeout=seconds + GRACE))
                return found
            except Empty:
                self._given_up = f"the environment did not return within {seconds:g} s and was given up"
        return Failed(self._given_up)

    def _work(self, make: Callable[[], Environment]) -> None:
        try:
            environment = make()
        except BaseException as error:
            self._told.put(error)
            return
        self._told.put(None)
        while (work := self._asked.get()) is not None:
            try:
                self._told.put(work(environment))
            except BaseException as error:
                self._told.put(error)


def _value_of(told: Any) -> Any:
    if isinstance(told, BaseException):
        raise told
    return told
