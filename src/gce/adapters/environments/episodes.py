"""Tasks whose problems are episodes: played turn by turn, and judged by playing their actions again from the start.

An episode is a seed and the texts of its actions; whoever plays it, as a worker or a server, keeps nothing that these
do not say. `play` of a `Scoring` takes a row and the actions so far and returns what the last of them led to: `text`,
`reward` (None for none) and `done`, or `illegal`, with what was expected, where it was refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from attrs import evolve

from gce.adapters.environments.foreign import (
    LEAST_TO_SPLIT,
    Given,
    Scoring,
    drawn_task,
    listed_task,
    shares_of,
)
from gce.adapters.environments.scorers import ScorerFailed
from gce.domain.problems import Problem
from gce.domain.strategies.requests import RESET, STEP, Act, Failed, Observation
from gce.domain.tasks.parts import Episodes
from gce.domain.tasks.task import Draw, Drawn, Task
from gce.errors import BadInput, one_line

__all__ = ["ACTIONS", "ONE_ACTION", "actions_of", "as_answer", "episodes_task", "most_actions", "observed"]

ACTIONS = 200
"""Default for the maximum number of actions in an answer."""
MOST_TEXT = 20_000
"""Maximum characters of an observation."""
SEEDS = 64
"""Seeds that are looked at to see whether first observations differ."""
ONE_ACTION = "The episode goes on after this one action: it is played turn by turn with the strategy episode."
BEGIN, END = "<episode>", "</episode>"


def as_answer(actions: Sequence[str]) -> str:
    """The response that lists all actions of an episode, as the strategy `episode` writes it."""
    return f"{BEGIN}{json.dumps(list(actions))}{END}"


def actions_of(answer: str) -> list[str] | None:
    """The actions of such a response; None where it is another one."""
    text = answer.strip()
    if not (text.startswith(BEGIN) and text.endswith(END)):
        return None
    try:
        found = json.loads(text[len(BEGIN) : -len(END)])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(each, str) for each in found) else None


def observed(text: str, reward: float | None = None) -> str:
    """An observation as the model is shown it, with the reward of the action before it."""
    if len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]} ... (cut after {MOST_TEXT:,} characters)"
    return text if reward is None else f"{text}\nReward: {reward:g}"


def most_actions(given: Given) -> int:
    """The option `actions`."""
    actions = given.options.get("actions", ACTIONS)
    if not isinstance(actions, int) or isinstance(actions, bool) or not 1 <= actions <= 10_000:
        raise BadInput(f"{given.text}: expected actions to be a whole number from 1 to 10,000, got {actions!r:.40}")
    return actions


def episodes_task(
    given: Given,
    scoring: Scoring,
    label: str,
    *,
    read: Callable[[str], str],
    write: Callable[[Sequence[str]], str],
    seconds: float,
    most: int = ACTIONS,
    stream: str = "",
    **options: Any,
) -> Task:
    """The task of rows that `draw` draws, each a seed with its first observation.

    Where there are few first observations, these are listed, all for testing, as few rows of a list are. `stream` is as
    for `Drawn`.
    """
    first: dict[str, Mapping[str, Any]] = {}
    for seed in range(SEEDS):
        try:
            row = scoring.call("draw", "default", seed)
        except ScorerFailed as error:
            raise BadInput(f"{given.text}: {one_line(error)}") from error
        first.setdefault(row["digest"], row)
        if len(first) >= LEAST_TO_SPLIT:
            task = drawn_task(given, scoring, label, {"default": ["default"]}, **options)
            if stream:
                task = evolve(task, draw=Drawn(cast(Draw, task.draw), stream))
            break
    else:
        task = listed_task(given, scoring, first.values(), label, shares=shares_of(len(first)), **options)
    opened = partial(_ReplayedEpisode, scoring)
    episodes = Episodes(open=opened, read=read, write=write, seconds=seconds, most=most)
    return evolve(task, teaching=evolve(task.teaching, episodes=episodes))


class _ReplayedEpisode:
    """An `Environment`: all actions so far go to `play` in each turn."""

    def __init__(self, scoring: Scoring, problem: Problem) -> None:
        self._scoring = scoring
        self._row = {"seed": problem.instance.row["seed"]}
        self._actions: list[str] | None = None
        """None where no episode is open."""

    def reset(self, *, seconds: float) -> Observation | Failed:
        """See `gce.ports.environment.Environment`. Whoever plays has a time limit of its own."""
        self._actions = None
        found = self._played([])
        if isinstance(found, Observation):
            if found.done:
                return Failed("the episode ended before its first action")
            self._actions = []
        return found

    def step(self, act: Act) -> Observation | Failed:
        """See `gce.ports.environment.Environment`."""
        action = act.arguments.get("action")
        if act.name != STEP or not isinstance(action, str):
            return Failed(f"no tool {act.name!r} with these arguments: the one tool is {STEP}, with an action as text")
        if self._actions is None:
            return Failed(f"no episode is open: begin one with {RESET}")
        found = self._played([*self._actions, action])
        if isinstance(found, Observation) and not found.illegal:
            self._actions = None if found.done else [*self._actions, action]
        return found

    def close(self) -> None:
        """See `gce.ports.environment.Environment`."""
        self._actions = None

    def _played(self, actions: Sequence[str]) -> Observation | Failed:
        try:
            found = self._scoring.call("play", self._row, actions)
        except ScorerFailed as error:
            return Failed(one_line(error))
        if "illegal" in found:
            return Observation(found["illegal"], illegal=True)
        return Observation(found["text"], found["reward"], found["done"])
