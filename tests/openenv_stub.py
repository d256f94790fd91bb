"""What an exported server takes of the package openenv, for a test where that is not installed.

Only what `server/app.py` needs: records with the fields of their class, and `create_app`, which keeps the environment.
"""

from __future__ import annotations

import sys
from inspect import get_annotations
from types import ModuleType, SimpleNamespace
from typing import Any


class Record:
    """A record whose fields are its class's attributes; unknown ones are refused, as pydantic does."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            if not any(name in get_annotations(each) for each in type(self).__mro__):
                raise TypeError(f"no field {name!r}")
            setattr(self, name, value)


class Action(Record):
    pass


class Observation(Record):
    done: bool = False
    reward: float | None = None


class State(Record):
    episode_id: str | None = None
    step_count: int = 0


class Environment:
    pass


def install(monkeypatch: Any) -> None:
    """Let `openenv.core.env_server` be this, for one test."""
    module = ModuleType("openenv.core.env_server")
    vars(module).update(Action=Action, Observation=Observation, State=State, Environment=Environment)
    vars(module)["create_app"] = lambda environment, *_types, **_options: SimpleNamespace(environment=environment)
    for name in ("openenv", "openenv.core"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
