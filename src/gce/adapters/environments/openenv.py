"""`openenv:URL`: the environment of an OpenEnv server, played turn by turn with the strategy `episode`.

A problem is the first observation of a seed, which `reset` is given; splits follow from its digest. Where an action is
one text, the response is the action; otherwise it is a JSON object between <action> and </action>, of the schema that
the server publishes. An episode is judged by playing its actions again, in a new episode from its seed. The reward is
the sum of rewards, or `low` where the actions end before the episode does. A server that says something else than
before has failed, as has one that is away, slow, or talks nonsense.

The server is another program, on this machine or elsewhere; it is sent seeds and actions, and sends data.

Options: `steps`, the number of actions after which an episode ends, where the server sets no end; `actions`, the
maximum in an answer; `wait`, seconds for one turn or verdict; `low`, `high`, `admit_at` and `varies` as for `trl:`;
others are given to `reset`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult, urlsplit

from attrs import evolve

from gce.adapters.environments.episodes import (
    ONE_ACTION,
    actions_of,
    as_answer,
    episodes_task,
    most_actions,
    observed,
)
from gce.adapters.environments.foreign import LIMITS, REWARDS, Given, Open, limits_of, text_digest, unreadable
from gce.adapters.environments.openenv_sessions import ROOM, Illegal, Sessions, StepResult, action_schema, check_nesting
from gce.adapters.environments.scorers import Call, ScorerFailed
from gce.domain.tasks.extraction import NoAnswer, extraction_of
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = ["open_task"]

OWN = (*REWARDS, "actions", "steps", "wait")
MOST_ACTION = 2**16
"""Maximum characters of an action."""
ASKED = "Give one action in each turn, a JSON object between <action> and </action>. Its JSON schema: {}"


def open_task(given: Given, _open: Open) -> Task:
    """The task of one server.

    Raises:
        MissingExtra: websockets is not installed.
        BadInput: the URL is none, or no OpenEnv server is there.
    """
    if find_spec("websockets") is None:
        raise MissingExtra("websockets", "openenv")
    player = _Player(given)
    return episodes_task(
        given,
        player,
        "openenv",
        read=player.read,
        write=as_answer,
        seconds=player.wait,
        most=player.most,
        stream="openenv",  # Wherever the server listens, its problems are the same.
        extract="text",
        **given.rewards(),
        max_tokens=1024,
        unread=("prompt",),
    )


class _Player:
    """What draws, plays and scores episodes on the server: a `Scoring`, as `episodes` takes it."""

    def __init__(self, given: Given) -> None:
        parts, options = _address(given), given.options
        steps = options.get("steps")
        if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
            raise BadInput(f"{given.text}: expected steps to be a whole number from 1 on, got {steps!r:.40}")
        self._steps: int | None = steps
        self.most, self._low = most_actions(given), options.get("low", 0.0)
        self.wait = limits_of(
            evolve(given, options={name: options[name] for name in ("wait",) if name in options})
        ).wait
        where, secure = f"{parts.netloc}{parts.path.rstrip('/')}", "s" * (parts.scheme in ("https", "wss"))
        try:
            schema = action_schema(f"http{secure}://{where}/schema", wait=self.wait)
        except ScorerFailed as error:
            raise BadInput(f"{given.text}: {error}") from error
        for name in ("seed", *LIMITS):
            if name in options and name not in OWN:
                raise BadInput(f"{given.text}: {name} is no option here: leave it out")
        reset = {name: value for name, value in options.items() if name not in OWN}
        varies = bool(options.get("varies", False))
        self._sessions = Sessions(f"ws{secure}://{where}/ws", reset, wait=self.wait, varies=varies)
        self._field, self._asked = _action_of(schema)
        self.read = extraction_of(("tag", "action") if self._field is None else "text").answer

    def call(self, *call: Any) -> Any:
        """See `Scoring`: `draw`, `play` or `score`."""
        name, *arguments = call
        functions: Mapping[str, Callable[..., Any]]
        functions = {"draw": self._draw, "play": self._play, "score": self._score}
        return functions[name](*arguments)

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """See `Scoring`."""
        for call in calls:
            try:
                yield self.call(*call)
            except ScorerFailed as error:
                yield error

    def _draw(self, _tier: str, seed: int) -> dict[str, Any]:
        (first,) = self._sessions.play(seed, [], again=True)
        return {"prompt": self._first(first), "seed": seed, "digest": text_digest(_text(first))}

    def _play(self, row: Mapping[str, Any], texts: Sequence[str]) -> dict[str, Any]:
        try:
            replies = self._sessions.play(row["seed"], list(map(self._action, texts)))
        except Illegal as error:
            return {"illegal": str(error)}
        last = replies[-1]
        text = observed(_text(last), last.reward) if texts else self._first(last)
        return {"text": text, "reward": last.reward, "done": self._is_over(replies)}

    def _score(self, answer: str, row: Mapping[str, Any]) -> Any:
        listed = actions_of(answer)
        try:
            actions = [*map(self._action, [self.read(answer)] if listed is None else listed)][: self._steps]
            if not 1 <= len(actions) <= self.most:
                return unreadable(f"The answer is no list of 1 to {self.most} actions.")
            replies = self._sessions.play(row["seed"], actions, again=True)
        except (NoAnswer, Illegal) as error:
            return unreadable(str(error))
        if not self._is_over(replies):
            return unreadable(ONE_ACTION) if listed is None else self._low
        if replies[-1].reward is None:
            raise ScorerFailed("nonsense", "the episode ended without a reward")
        return math.fsum(each.reward or 0.0 for each in replies[1:])

    def _is_over(self, replies: Sequence[StepResult]) -> bool:
        return replies[-1].done or len(replies) - 1 == self._steps

    def _first(self, first: StepResult) -> str:
        return f"{_text(first)}\n\n{self._asked}" if self._asked else _text(first)

    def _action(self, text: str) -> Mapping[str, Any]:
        """The action that a text is; Illegal where it is none that can be sent."""
        if len(text) > MOST_ACTION:
            raise Illegal(f"Expected an action of at most {MOST_ACTION:,} characters.")
        try:
            action = json.loads(text) if self._field is None else {self._field: text}
            json.dumps(action, allow_nan=False, ensure_ascii=False).encode()
            check_nesting(action, room=2 * ROOM)  # A server may repeat it in what it says.
        except (ValueError, RecursionError):
            raise Illegal("The action is no JSON." if self._field is None else "The action is no text.") from None
        if not isinstance(action, dict):
            raise Illegal("Expected a JSON object as the action.")
        return action


def _address(given: Given) -> SplitResult:
    try:
        parts = urlsplit(given.name)
        if (
            parts.scheme in ("http", "https", "ws", "wss")
            and parts.hostname
            and parts.port != 0
            and "@" not in parts.netloc
        ):
            return parts
    except ValueError:
        pass
    raise BadInput(f"{given.text}: expected openenv:http://HOST:PORT, without a user's name")


def _action_of(schema: Mapping[str, Any]) -> tuple[str | None, str]:
    """The name of the one text that an action is, None where it is more; and what a model is told of actions."""
    fields = list(schema["properties"].items())
    if len(fields) == 1 and fields[0][1].get("type") == "string" and not {"enum", "const"} & fields[0][1].keys():
        said = fields[0][1].get("description")
        return fields[0][0], f"Your whole response is the action: {said}" if isinstance(said, str) and said else ""
    shown = {name: value for name, value in schema.items() if name not in ("additionalProperties", "title")}
    return None, ASKED.format(observed(json.dumps(shown)))


def _text(reply: StepResult) -> str:
    """The one text of an observation, or its fields, one a line, without empty ones and without metadata."""
    fields = {name: value for name, value in reply.observation.items() if value not in (None, "", [], {})}
    fields.pop("metadata", None)
    if [*map(type, fields.values())] == [str]:
        return observed(*fields.values())
    lines = [f"{name}: {value if isinstance(value, str) else json.dumps(value)}" for name, value in fields.items()]
    return observed("\n".join(lines) or "(nothing to see)")
