"""Contract check for environments."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from gce.domain.strategies.requests import Act, Failed, Observation
from gce.ports.environment import Environment

__all__ = ["check_environment"]

UNKNOWN = "no tool of any environment 5c1f"


def check_environment(make: Callable[[], Environment], acts: Sequence[Act], *, seconds: float = 5.0) -> None:
    """Assert the docstring of `Environment`.

    `make` returns a new instance of the same environment; `acts` are an episode that does not end before its last act.
    """
    environment = make()
    assert isinstance(environment.step(acts[0]), Failed), "no act before the first reset"
    first = environment.reset(seconds=seconds)
    assert isinstance(first, Observation), first
    for act in acts:
        unknown = environment.step(Act(UNKNOWN, seconds=act.seconds))
        assert isinstance(unknown, Failed) and unknown.reason, unknown
        _check_observation(_timed(environment, act))
    for _ in range(2):
        assert environment.reset(seconds=seconds) == first, "every episode begins alike"
    last = environment.step(acts[0])
    for _ in range(1000):
        if isinstance(last, Observation) and last.done:
            assert isinstance(environment.step(acts[0]), Failed), "no act after the end"
            break
        last = environment.step(acts[0])
    assert environment.reset(seconds=seconds) == first, "after the end, too"
    environment.close()
    environment.close()


def _timed(environment: Environment, act: Act) -> Observation | Failed:
    began = time.monotonic()
    found = environment.step(act)
    assert time.monotonic() - began <= act.seconds + 1.0, f"{act.name} took longer than {act.seconds} s and a second"
    return found


def _check_observation(found: Observation | Failed) -> None:
    assert isinstance(found, Observation), found
    assert found.reward is None or math.isfinite(found.reward), found
