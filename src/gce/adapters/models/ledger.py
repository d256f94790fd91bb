"""One account of what all models of a command use: no request is sent that could exceed a limit.

A request is reserved at the most that it can use, and settled at what it did use. Independent of servers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

from attrs import define, field, frozen, validators

from gce.domain.spending import Limits, Used, over
from gce.errors import Unfinished

__all__ = ["Ledger", "Pace", "Rates", "Sent"]

_MINUTE = 60.0
_WORDS = {"tokens": "{max_tokens_total}", "cost": "{max_cost}", "minutes": "{max_minutes}"}


@frozen
class Rates:
    """The most that one provider may be asked for in any minute; None for no limit."""

    requests: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    tokens: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    """Of prompts and answers."""


@define(eq=False)
class Sent:
    """A request to a provider."""

    tokens: int
    """Those that it may use, until those that it did use are known."""
    time: float = 0.0


class Pace:
    """Requests to one provider, held to its rates in each window of a minute. Safe between threads."""

    def __init__(self, rates: Rates, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = rates
        self._clock = clock
        self._sent: deque[Sent] = deque()
        self._lock = Lock()

    def admit(self, request: Sent) -> float:
        """Note a request and return 0, or return the seconds after which it may be tried again.

        A request of more tokens than a minute may have is admitted to an empty window.
        """
        if self._rates == Rates():  # Without a limit nothing is noted: it would take time in proportion to the rate.
            return 0.0
        with self._lock:
            now = self._clock()
            while self._sent and self._sent[0].time <= now - _MINUTE:
                self._sent.popleft()
            most, room = self._rates.requests, self._rates.tokens
            full = most is not None and len(self._sent) >= most
            many = room is not None and request.tokens + sum(sent.tokens for sent in self._sent) > room
            if self._sent and (full or many):
                return max(self._sent[0].time + _MINUTE - now, 1e-3)
            request.time = now
            self._sent.append(request)
            return 0.0


class Ledger:
    """What all models of a command used so far, held to its limits. Safe between threads.

    The limits hold if servers heed the maximum of tokens and count truly. What may have been billed without a count,
    as where a connection broke, is counted at its maximum.
    """

    def __init__(
        self, limits: Limits | None = None, rates: Rates | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Time counts from here on."""
        self.limits = limits or Limits()
        self._rates = rates or Rates()
        self._clock = clock
        self._began = clock()
        self._used = Used()
        self._reserved = Used()
        self._paces: dict[str, Pace] = {}
        self._lock = Lock()

    @property
    def used(self) -> Used:
        """What was used so far."""
        return self._used

    def pace(self, provider: str) -> Pace:
        """Return the pace of a provider, the same one for all of its models."""
        with self._lock:
            return self._paces.setdefault(provider, Pace(self._rates, self._clock))

    def reserve(self, most: Used) -> bool:
        """Set apart what a request, or several, may use; False if it has to wait until others are settled.

        Raises:
            Unfinished: it would exceed a limit even alone, or time is up.
        """
        with self._lock:
            self._check(most)
            if over(self.limits, self._used + self._reserved + most):
                return False
            self._reserved += most
            return True

    def check(self) -> None:
        """Raise Unfinished if a limit is exceeded, or time is up."""
        with self._lock:
            self._check(Used())

    def settle(self, most: Used, used: Used) -> None:
        """Count what a reserved request used, and free the rest."""
        with self._lock:
            held = self._reserved
            self._reserved = Used(
                held.requests - most.requests,
                held.prompt_tokens - most.prompt_tokens,
                held.tokens - most.tokens,
                held.cost - most.cost if held.requests > most.requests else 0.0,
                held.unpriced - most.unpriced,
            )
            self._used += used

    def _check(self, most: Used) -> None:
        minutes = self.limits.minutes
        if minutes is not None and self._clock() - self._began >= _MINUTE * minutes:
            raise self._reached("minutes", most)
        if reached := over(self.limits, self._used + most):
            raise self._reached(reached, most)

    def _reached(self, limit: str, most: Used) -> Unfinished:
        used = self._used
        upcoming = "the next request" if most.requests < 2 else f"the next {most.requests:,} requests"
        cost = f", ${used.cost:.4f}" if used.cost else ""
        return Unfinished(
            f"{_WORDS[limit]} is reached, or {upcoming} could exceed it: {used.requests:,} requests with "
            f"{used.prompt_tokens:,} prompt tokens and {used.tokens:,} generated tokens were sent{cost}"
        )
