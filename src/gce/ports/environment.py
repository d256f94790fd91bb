"""The port for environments: the tools, or the stateful world, in which a conversation acts."""

from __future__ import annotations

from typing import Protocol

from gce.domain.strategies.requests import Act, Failed, Observation

__all__ = ["Environment"]


class Environment(Protocol):
    """One episode at a time, of one conversation, always in the same thread.

    Whoever does not return in time is given up: the conversation gets `Failed` for this act and all later ones.
    """

    def reset(self, *, seconds: float) -> Observation | Failed:
        """Begin a new episode, whatever happened before, and return its first observation.

        An environment begins every episode in the same way. Returns within `seconds` plus one second.
        """
        ...

    def step(self, act: Act) -> Observation | Failed:
        """Perform `act` and return the observation.

        Returns within `act.seconds` plus one second. Never raises because of the act's contents or effects. Returns
        `Failed`, without ending the episode, for an unknown act, an act that takes too long, and an act before the
        first `reset` or after an observation that is `done`. A tool that rejects its arguments says so in an
        observation.
        """
        ...

    def close(self) -> None:
        """Release all resources; closing twice has no further effect."""
        ...
