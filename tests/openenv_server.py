"""A server of the OpenEnv protocol on this machine, with a game of guessing, that can be told to misbehave.

    with OpenEnvServer() as server:
        task = find_task(f"openenv:{server.url}?low=-20")

`faults` are what the next messages of the kind `on` are answered with instead, one after another: see `FAULTS`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

SECRETS = 16
"""Numbers that are to be guessed lie so far behind the one that is shown, at most."""
SCHEMA = {
    "title": "GuessAction",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "number": {"type": "integer", "description": "The guess"},
        "metadata": {"type": "object", "default": {}},
    },
    "required": ["number"],
}


def secret(seed: int) -> tuple[int, int]:
    """The number that is shown at first, and the one that is to be guessed."""
    rng = random.Random(seed)
    low = rng.randrange(10_000)
    return low, low + rng.randrange(SECRETS)


class Guessing:
    """Each guess costs 1, the right one ends the episode with 10."""

    schema: Mapping[str, Any] = SCHEMA

    def reset(self, seed: int, **_options: Any) -> dict[str, Any]:
        low, self.secret = secret(seed)
        self.told = f"Guess my number, from {low} to {low + SECRETS - 1}."
        return self.shown(None, done=False)

    def step(self, action: Any) -> dict[str, Any]:
        number = action.get("number")
        if not isinstance(number, int) or isinstance(number, bool) or len(action) > 1:
            error = {"type": "int_type", "loc": ["number"], "msg": "Input should be an integer", "input": action}
            return {"type": "error", "data": {"message": "Invalid", "code": "VALIDATION_ERROR", "errors": [error]}}
        self.told = "Right." if number == self.secret else "It is larger." if number < self.secret else "It is smaller."
        return self.shown(10.0 if number == self.secret else -1.0, done=number == self.secret)

    def shown(self, reward: Any, *, done: Any) -> dict[str, Any]:
        observation = {"hint": self.told, "metadata": {"at": time.monotonic()}}
        return {"type": "observation", "data": {"observation": observation, "reward": reward, "done": done}}


class Echo(Guessing):
    """The reward is the length of the message; no episode ever ends, and all begin alike."""

    schema: Mapping[str, Any] = {"properties": {"message": {"type": "string", "description": "What to say"}}}

    def reset(self, seed: int, **options: Any) -> dict[str, Any]:
        self.told = options.get("hello", "Hello.")
        return self.shown(None, done=False)

    def step(self, action: Any) -> dict[str, Any]:
        self.told = action["message"]
        return self.shown(float(len(self.told)), done=False)


def _observation(**data: Any) -> str:
    return json.dumps({"type": "observation", "data": {"observation": {"hint": "x"}, "reward": 1.0, **data}})


def _error(code: str, **data: Any) -> str:
    return json.dumps({"type": "error", "data": {"message": "a\nfault", "code": code, **data}})


_NUMBERS = count()
FAULTS: Mapping[str, Callable[[], str | None]] = {
    "hang": lambda: time.sleep(3) or "",  # type: ignore[func-returns-value]
    "drop": lambda: None,
    "large": lambda: _observation(observation={"hint": "x" * 2**21}),
    "no JSON": lambda: "{",
    "deep": lambda: "[" * 100_000,
    "list": lambda: "[1]",
    "other type": lambda: json.dumps({"type": "state", "data": {}}),
    "no data": lambda: json.dumps({"type": "observation"}),
    "no observation": lambda: json.dumps({"type": "observation", "data": {"reward": 1.0, "done": True}}),
    "not a number": lambda: _observation(reward=float("nan"), done=True),
    "infinite": lambda: _observation(reward=float("-inf"), done=True),
    "huge": lambda: _observation(reward=10**400, done=True),
    "text as reward": lambda: _observation(reward="1.0", done=True),
    "text as done": lambda: _observation(done="yes"),
    "no reward": lambda: _observation(reward=None, done=True),
    "out of range": lambda: _observation(reward=1e6, done=True),
    "raises": lambda: _error("EXECUTION_ERROR"),
    "its own error": lambda: _error("VALIDATION_ERROR", errors=[{"loc": ["hint"], "msg": "no text", "input": "else"}]),
    "an error of nothing": lambda: _error("VALIDATION_ERROR", errors=[]),
    "other each time": lambda: _observation(observation={"hint": f"{next(_NUMBERS)}"}),
}


class OpenEnvServer:
    """Listens between `with` and its end."""

    def __init__(self, environment: Callable[[], Any] = Guessing, *, sessions: int = 100, schema: Any = None) -> None:
        self.faults: list[str] = []
        self.on = "step"
        """Messages that the faults befall: step or reset."""
        self.sessions = sessions
        """Most at once."""
        self.messages = 0
        self.opened = 0
        self._environment = environment
        self._schema = getattr(environment, "schema", None) if schema is None else schema
        self._open = 0
        self._server = serve(self._session, "127.0.0.1", 0, process_request=self._http, close_timeout=1)
        self.url = f"http://127.0.0.1:{self._server.socket.getsockname()[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> OpenEnvServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()

    def _http(self, connection: Any, request: Any) -> Any:
        if request.path == "/schema":
            return connection.respond(200, json.dumps({"action": self._schema}))
        return None if request.path == "/ws" else connection.respond(404, "")

    def _session(self, connection: Any) -> None:
        if self._open >= self.sessions:
            connection.send(_error("CAPACITY_REACHED"))
            return
        self._open += 1
        self.opened += 1
        environment = self._environment()
        try:
            for text in connection:
                self.messages += 1
                message = json.loads(text)
                if self.faults and message["type"] == self.on:
                    said = FAULTS[self.faults.pop(0)]()
                    if said is None:
                        return
                    connection.send(said)
                    continue
                reset = message["type"] == "reset"
                found = environment.reset(**message["data"]) if reset else environment.step(message["data"])
                connection.send(json.dumps(found))
        except ConnectionClosed:
            pass
        finally:
            self._open -= 1
