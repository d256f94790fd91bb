"""Where a conversation acts: tools, or a world with a state of its own."""

from __future__ import annotations

from typing import Protocol

from gce.domain.strategies.requests import Act, Failed, Observation

__all__ = ["Environment"]


class Environment(Protocol):
    """One episode at a time, of one conversation."""

    def reset(self, *, seconds: float) -> Observation | Failed:
        """Begin an episode, whatever went before, and show where it begins.

        The same environment begins every episode alike. Returns within `seconds` and a second more.
        """
        ...

    def step(self, act: Act) -> Observation | Failed:
        """Do what `act` says, and show what came of it.

        Returns within `act.seconds` and a second more, and raises nothing for what an act says or does. What cannot be
        done is `Failed`, and the episode goes on: an act that is not known, one that takes too long, one before the
        first `reset` or after an observation that is `done`. What a tool has to say against its arguments is an
        observation.
        """
        ...

    def close(self) -> None:
        """Free what it holds; closing twice does nothing more."""
        ...
