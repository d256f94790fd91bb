"""Episodes on an OpenEnv server: sessions over its WebSocket, held to time, size and the protocol.

An episode is named by seed and actions, so it can be played again on any session. Where a server says something else
of the same seed and actions than before, it has failed. Knows nothing of tasks.

Format: https://meta-pytorch.org/OpenEnv, openenv 0.10: messages of the WebSocket `/ws`, and `/schema`.
"""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from http.client import HTTPException
from typing import Any, TypeAlias
from urllib.error import HTTPError

from attrs import define, field, frozen

from gce.adapters.environments.foreign import number
from gce.adapters.environments.scorers import ScorerFailed
from gce.errors import one_line

__all__ = ["ROOM", "Illegal", "Sessions", "StepResult", "action_schema", "check_nesting"]

MOST_MESSAGE = 2**20
"""Maximum bytes of a message of the server."""
MOST_SESSIONS = 32
"""Sessions that are open at once, or fewer where the server takes no more. An episode that has lost its session is
played again when it goes on."""
MOST_KNOWN = 100_000
"""Replies whose digests are remembered."""
MOST_ERRORS = 20
"""Errors in an action that are looked at."""
ROOM = 50
"""Levels of nesting between what is taken and what Python can write."""
PAUSE = 0.1
"""Seconds before a server that takes no session is asked again: it may still be closing one."""

_Socket: TypeAlias = Any
Action = Mapping[str, Any]


class Illegal(Exception):
    """The server does not take an action, which has changed nothing."""


@frozen
class StepResult:
    """What came of a reset or an action."""

    observation: Mapping[str, Any]
    reward: float | None
    done: bool


@define
class _Session:
    """A connection, and what was played on it since the last reset."""

    socket: _Socket
    path: bytes
    """Digest of seed and actions; empty where the episode does not go on."""
    replies: list[StepResult] = field(factory=list)
    """The first one is that of the reset."""


def _further(path: bytes, action: Action) -> bytes:
    return blake2b(path + json.dumps(action).encode(), digest_size=16).digest()


class Sessions:
    """Plays episodes, one after another. Thread-safe."""

    def __init__(self, url: str, reset: Mapping[str, Any], *, wait: int, varies: bool) -> None:
        """`reset` goes with each seed; `wait` is the maximum of seconds for a call; `varies` allows other replies."""
        self._url, self._reset, self._wait, self._varies = url, reset, wait, varies
        self._most, self._sessions = MOST_SESSIONS, list[_Session]()
        self._known: dict[bytes, bytes] = {}
        self._lock = threading.Lock()

    def play(self, seed: int, actions: Sequence[Action], *, again: bool = False) -> list[StepResult]:
        """The reply to the reset, and to each action up to the end of the episode.

        It goes on with the session that has come as far as the last action. Where all is to be played `again`, the
        episode does not go on later.

        Raises:
            Illegal: the server does not take an action.
            ScorerFailed: it does not do its part.
        """
        path = seed.to_bytes(8, "big")
        for action in actions[:-1]:
            path = _further(path, action)
        with self._lock:
            deadline = time.monotonic() + self._wait
            come = (each for each in self._sessions if each.path == path)
            session = None if again or not actions else next(come, None)
            if session is not None:
                try:
                    return self._go_on(session, actions, deadline)
                except ScorerFailed as error:
                    if error.kind != "ended":  # Servers close sessions that were idle for long.
                        raise
            return self._go_on(self._begun(seed, deadline), actions, deadline, last=again)

    def _go_on(
        self, session: _Session, actions: Sequence[Action], deadline: float, *, last: bool = False
    ) -> list[StepResult]:
        """The replies; the session becomes the last one to be taken for another episode, or if this ends, the first."""
        others = [each for each in self._sessions if each is not session]
        self._sessions = [*others, session]
        try:
            for action in actions[len(session.replies) - 1 :]:
                if session.replies[-1].done:
                    break
                found = self._exchange(session.socket, {"type": "step", "data": action}, deadline)
                self._note(session, _further(session.path, action), found)
        except Illegal:
            raise
        except BaseException:  # After an interruption, too, the next message would get the reply to this one.
            self._sessions = others
            _close(session.socket)
            raise
        if last or session.replies[-1].done:
            session.path, self._sessions = b"", [session, *others]
        return session.replies

    def _begun(self, seed: int, deadline: float) -> _Session:
        """A session at the start of an episode: one whose episode is over, a new one, or the longest unused one."""
        while True:
            used = len(self._sessions) >= self._most or (self._sessions and not self._sessions[0].path)
            socket = self._sessions.pop(0).socket if used else self._connected(deadline)
            try:
                session = _Session(socket, b"")
                found = self._exchange(socket, {"type": "reset", "data": {**self._reset, "seed": seed}}, deadline)
                self._note(session, seed.to_bytes(8, "big"), found)
                return session
            except ScorerFailed as error:
                _close(socket)
                if error.kind == "full" and self._sessions:
                    self._most = len(self._sessions)
                elif error.kind == "full" and time.monotonic() < deadline:
                    time.sleep(PAUSE)
                elif not (used and error.kind == "ended"):
                    raise

    def _note(self, session: _Session, path: bytes, reply: StepResult) -> None:
        """Note a reply; ScorerFailed where it was another one before."""
        session.path, session.replies = path, [*session.replies, reply]
        shown = {name: value for name, value in reply.observation.items() if name != "metadata"}
        said = json.dumps([shown, reply.reward, reply.done]).encode()
        if self._known.setdefault(path, found := blake2b(said).digest()) != found and not self._varies:
            count = len(session.replies) - 1
            raise ScorerFailed(
                "nonsense",
                f"the same seed and {count} actions led to another observation than before, so that no verdict can be "
                "repeated; where that is meant, say varies=true",
            )
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _connected(self, deadline: float) -> _Socket:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        limits: dict[str, Any] = {"max_size": MOST_MESSAGE, "compression": None, "ping_interval": None}
        try:
            left = max(PAUSE, deadline - time.monotonic())
            # It is to be used in `with`; `_close` does what the end of that does.
            return connect(self._url, open_timeout=left, close_timeout=1.0, **limits).__enter__()
        except (WebSocketException, OSError, ValueError) as error:
            raise ScorerFailed("away", f"cannot connect to {self._url}: {one_line(error)}") from error

    def _exchange(self, socket: _Socket, message: Mapping[str, Any], deadline: float) -> StepResult:
        from websockets.exceptions import ConnectionClosed, WebSocketException

        try:
            with suppress(ConnectionClosed):  # A server that is full says so and closes, before it is asked.
                socket.send(json.dumps(message))
            said = json.loads(socket.recv(timeout=max(0.0, deadline - time.monotonic())))
            check_nesting(said)
        except TimeoutError as error:
            raise ScorerFailed("time", f"the server did not reply within {self._wait} s") from error
        except (WebSocketException, OSError, EOFError) as error:
            raise ScorerFailed("ended", f"the server ended the connection: {one_line(error)}") from error
        except (ValueError, RecursionError) as error:
            raise ScorerFailed("nonsense", "the server's message is no JSON") from error
        kind, data = (said.get("type"), said.get("data")) if isinstance(said, dict) else (None, None)
        if kind == "error" and isinstance(data, dict):
            errors, code = data.get("errors"), data.get("code")
            some = errors[:MOST_ERRORS] if isinstance(errors, list) else []
            if code == "VALIDATION_ERROR" and message["type"] == "step" and _are_about(message["data"], some):
                raise Illegal(_why(some))
            kind = "full" if code == "CAPACITY_REACHED" else "raised"
            raise ScorerFailed(kind, one_line(f"the server says {code}: {data.get('message')}"))
        return _reply(data if kind == "observation" else None)


def _reply(data: Any) -> StepResult:
    """ScorerFailed where it is no observation, or its reward is neither a finite number nor null."""
    try:
        shown, reward, done = data["observation"], data.get("reward"), data.get("done", False)
        reward = None if reward is None else float(number(reward))
        if not isinstance(shown, dict) or not isinstance(done, bool) or not math.isfinite(reward or 0.0):
            raise TypeError
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        said = one_line(ascii(data), 80)
        raise ScorerFailed("nonsense", f"expected an observation, its reward a number or null, got {said}") from None
    return StepResult(shown, reward, done)


def check_nesting(value: Any, *, room: int = ROOM) -> None:
    """RecursionError where a value is nested so deeply that it may not be written as JSON later."""
    for _ in range(room):
        value = [value]
    json.dumps(value)


def _are_about(action: Action, errors: Sequence[Any]) -> bool:
    """Whether all errors name a part of the action as their input, rather than what the environment made of it."""
    parts, waiting = list[Any](), list[Any]([action])
    while waiting:
        parts.append(value := waiting.pop())
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(errors) and all(isinstance(each, dict) and each.get("input", parts) in parts for each in errors)


def _why(errors: Sequence[Mapping[str, Any]]) -> str:
    places = [each["loc"] if isinstance(each.get("loc"), list) else [] for each in errors]
    said = [f"{'.'.join(map(str, place))}: {each.get('msg')}" for place, each in zip(places, errors, strict=True)]
    return f"The action is not legal: {one_line('; '.join(said))}."


def _close(socket: _Socket) -> None:
    with suppress(Exception):
        socket.close()


def action_schema(url: str, *, wait: int) -> Mapping[str, Any]:
    """The JSON schema of actions that a server publishes, without their metadata.

    Raises:
        ScorerFailed: there is none.
    """
    deadline, text = time.monotonic() + wait, b""
    try:
        with urllib.request.urlopen(url, timeout=wait) as response:
            while time.monotonic() < deadline and len(text) <= MOST_MESSAGE and (more := response.read1(2**16)):
                text += more
        schema = json.loads(text)["action"]
        properties = {name: dict(each) for name, each in schema.get("properties", {}).items() if name != "metadata"}
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, HTTPError):
            error.close()
        raise ScorerFailed("raised", f"expected the schema of an OpenEnv server at {url}: {one_line(error)}") from error
    return {**schema, "properties": properties}
