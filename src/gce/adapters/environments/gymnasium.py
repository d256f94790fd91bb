"""`gymnasium:ID`: an environment of Gymnasium whose episode one response decides.

Where the action space is text, the response is the one action of the episode. Where it is a range of whole numbers,
the response is a plan: all actions, in order, between <answer> and </answer>; the episode is played again from its
seed. The reward is the return, or `low` where the plan ends before the episode does: to stop early would spare the cost
of each step. What is no plan is unreadable. An episode that has to be answered turn by turn is refused. ID may be
MODULE:ID, as for `gymnasium.make`.

A problem is the first observation of a seed: text, what the environment renders as `ansi`, or the observation as Python
writes it; splits follow from its digest.

Options: `low`, `high` and `admit_at` of the return as for `trl:`; `varies=true` where a seed does not decide the
episode; `actions`, the maximum length of a plan; others are given to `gymnasium.make`.

Format: https://gymnasium.farama.org/api/env, 1.4.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

from gce.adapters.environments.foreign import (
    LIMITS,
    REWARDS,
    Given,
    Open,
    described,
    drawn_task,
    limits_of,
    number,
    text_digest,
    unreadable,
)
from gce.adapters.environments.places import place_of
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = ["load", "open_task"]

OWN = (*LIMITS, *REWARDS, "actions")
ACTIONS = 200
"""Default for the maximum length of a plan."""
PLAN = (
    "Actions are whole numbers from {} to {}. Give all actions of the episode, at most {}, in order and with spaces "
    "between them, between <answer> and </answer>. The episode has to end with them."
)
_COLOUR = re.compile(r"\x1b\[[0-9;]+m(.*?)\x1b\[0m")
_SECTION = re.compile(r"## (Action|Observation) Space\n(.*?)(?=\n## |\Z)", re.DOTALL)


def open_task(given: Given, open_scorers: Open) -> Task:
    """The task of one environment.

    Raises:
        MissingExtra: gymnasium is not installed.
        BadInput: there is no such environment, or its actions are neither text nor whole numbers.
    """
    if find_spec("gymnasium") is None:
        raise MissingExtra("gymnasium", "gymnasium")
    options = given.options
    module, colon, _ = given.name.rpartition(":")
    files, path = place_of(module, given.text) if colon else ([], [])
    actions = options.get("actions", ACTIONS)
    if not isinstance(actions, int) or isinstance(actions, bool) or not 1 <= actions <= 10_000:
        raise BadInput(f"{given.text}: expected actions to be a whole number from 1 to 10,000, got {actions!r:.40}")
    arguments = {
        "id": given.name,
        "actions": actions,
        "low": options.get("low", 0.0),
        "options": {name: value for name, value in options.items() if name not in OWN},
    }
    scorers = open_scorers(__name__, arguments, files=files, path=path, limits=limits_of(given))
    facts = described(given, scorers)
    return drawn_task(
        given,
        scorers,
        "gymnasium",
        {"default": ["default"]},
        extract=("tag", "answer") if facts["plan"] else "text",
        **given.rewards(),
        max_tokens=1024,
        unread=("prompt", "answer"),
    )


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The environment, in the worker; ValueError where there is none of this kind."""
    import gymnasium

    name, options = arguments["id"], dict(arguments["options"])
    module, colon, own = name.rpartition(":")
    if colon:
        importlib.import_module(module)
    renders = "ansi" in _modes(gymnasium.spec(own))
    if renders:
        options.setdefault("render_mode", "ansi")
    environment: Any = gymnasium.make(own, disable_env_checker=True, **options)
    space = environment.action_space
    plan = isinstance(space, gymnasium.spaces.Discrete)
    if not plan and not isinstance(space, gymnasium.spaces.Text):
        raise ValueError(f"its actions are {type(space).__name__}: expected text or whole numbers (Text, Discrete)")
    first, last = (int(space.start), int(space.start + space.n) - 1) if plan else (0, 0)
    about = _about(environment) if plan else ""
    asked = PLAN.format(first, last, arguments["actions"])

    def draw(_tier: str, seed: int) -> dict[str, Any]:
        observation, information = environment.reset(seed=seed)
        shown = _text(observation, environment.render() if renders else None)
        prompt = "\n\n".join(filter(None, [about, shown, asked])) if plan else shown
        found = {"prompt": prompt, "seed": seed, "digest": text_digest(prompt)}
        answer = information.get("answer")  # Not of the interface; exported tasks name it.
        return {**found, "answer": answer} if isinstance(answer, str) and answer else found

    def score(answer: str, row: Mapping[str, Any]) -> Any:
        actions: list[Any] = _plan(answer, first, last, arguments["actions"]) if plan else [answer]
        if not actions:
            return unreadable(f"The answer is no list of actions from {first} to {last}.")
        environment.reset(seed=row["seed"])
        total, ended = 0.0, False
        for action in actions:
            _, reward, terminated, truncated, _ = environment.step(action)
            total += float(number(reward))
            ended = bool(terminated or truncated)
            if ended:
                break
        if not ended and not plan:
            raise ValueError("the episode goes on after one action: several turns are not supported")
        return total if ended else arguments["low"]

    return {"describe": lambda: {"plan": plan}, "draw": draw, "score": score}


def _modes(spec: Any) -> list[str]:
    """Ways in which an environment can be shown."""
    import gymnasium.envs.registration as registration

    creator = registration.load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return list(getattr(creator, "metadata", {}).get("render_modes", []))


def _about(environment: Any) -> str:
    """What the environment's documentation says of observations and actions."""
    found = inspect.getdoc(type(environment.unwrapped)) or ""
    return "\n\n".join(f"{each[1]}s: {each[2].strip()}" for each in _SECTION.finditer(found))


def _text(observation: Any, rendered: Any) -> str:
    if isinstance(observation, str):
        return observation
    # What is coloured, as the place of a taxi, is put in brackets; escape codes say nothing to a model.
    shown = _COLOUR.sub(r"<\1>", rendered).strip("\n") if isinstance(rendered, str) else ""
    return f"{shown}\n\nObservation: {observation}".strip()


def _plan(answer: str, first: int, last: int, most: int) -> list[int]:
    """The actions of a plan; none where one of them is not an action, or where there are more than `most`."""
    words = answer.replace(",", " ").split()
    if len(words) > most or not all(re.fullmatch(r"-?[0-9]{1,9}", word) for word in words):
        return []
    found = [int(word) for word in words]
    return found if all(first <= each <= last for each in found) else []
