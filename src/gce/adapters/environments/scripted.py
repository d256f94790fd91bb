"""The fake of the Environment port: returns what functions give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gce.domain.strategies.requests import RESET, Act, Failed, Observation

__all__ = ["ScriptedEnvironment"]


class ScriptedEnvironment:
    """An environment with one tool for each name in `tools`; an observation that is `done` ends the episode."""

    def __init__(
        self, tools: Mapping[str, Callable[[Mapping[str, Any]], Observation]], *, first: str = "", steps: int = 100
    ) -> None:
        """Show `first` at the beginning, and end an episode after `steps` acts."""
        self._tools = tools
        self._first = first
        self._steps = steps
        self._left = 0
        self.closed = False
        """Lets tests see whether `close` was called."""

    def reset(self, *, seconds: float) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        self._left = self._steps
        return Observation(self._first)

    def step(self, act: Act) -> Observation | Failed:
        """See `gce.ports.environment.Environment`. Tools take no time."""
        if not self._left:
            return Failed(f"no episode is open: begin one with {RESET}")
        if act.name not in self._tools:
            return Failed(f"no tool {act.name!r}: choose one of {', '.join(self._tools)}")
        try:
            found = self._tools[act.name](act.arguments)
        except Exception as error:  # A tool may be third-party code and may raise anything.
            return Failed(f"{act.name} raised {type(error).__name__}: {error}")
        self._left = 0 if found.done else self._left - 1
        return Observation(found.text, found.reward, done=not self._left)

    def close(self) -> None:
        """See `gce.ports.environment.Environment`."""
        self._left, self.closed = 0, True
