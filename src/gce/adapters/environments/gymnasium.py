"""`gymnasium:ID`: an environment of Gymnasium, played turn by turn with the strategy `episode`, or by one response.

Where the action space is text, a response is one action, which has to end the episode unless it is played turn by turn.
Where it is a range of whole numbers, one response is a plan: all actions, in order, between <answer> and </answer>; in
a turn, the one action stands between <action> and </action>. An episode is judged by playing it again from its seed.
The reward is the return, or `low` where the actions end before the episode does: to stop early would spare the cost of
each step. What is no plan is unreadable. ID may be MODULE:ID, as for `gymnasium.make`.

A problem is the first observation of a seed: text, what the environment renders as `ansi`, or the observation as Python
writes it; splits follow from its digest.

Options: `low`, `high` and `admit_at` of the return as for `trl:`; `varies=true` where a seed does not decide the
episode; `actions`, the maximum length of a plan; `observations=sentences` where `players` knows how; `problems=seeds`
where episodes with the same first observation differ; others are given to `gymnasium.make`.

Format: https://gymnasium.farama.org/api/env, 1.4.
"""

from __future__ import annotations

import importlib
import inspect
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from attrs import evolve

from gce.adapters.environments.episodes import (
    ONE_ACTION,
    actions_of,
    as_answer,
    episodes_task,
    most_actions,
    observed,
)
from gce.adapters.environments.foreign import (
    LIMITS,
    REWARDS,
    Given,
    Open,
    described,
    limits_of,
    number,
    text_digest,
    unreadable,
)
from gce.adapters.environments.places import place_of
from gce.adapters.environments.players import SENTENCES, scripted_player
from gce.adapters.environments.reproductions import Script, scripts_worker
from gce.adapters.environments.scorers import ScorerFailed, Scorers
from gce.domain.problems import Problem
from gce.domain.tasks.extraction import extraction_of
from gce.domain.tasks.task import Task
from gce.errors import BadInput, MissingExtra

__all__ = ["audited", "load", "names", "open_task", "reproductions"]

OWN = (*LIMITS, *REWARDS, "actions", "observations", "problems")
RANDOM, SCRIPTED = "random actions", "scripted player"
PLAN = (
    "Actions are whole numbers from {} to {}. Give all actions of the episode, at most {}, in order and with spaces "
    "between them, between <answer> and </answer>. The episode has to end with them."
)
TURN = "Actions are whole numbers from {} to {}. Give one action in each turn, between <action> and </action>."
CHOICES: Mapping[str, tuple[str, str]] = {
    "observations": ("values", "sentences"),
    "problems": ("observations", "seeds"),
}
"""Options with few values, the default first."""
RETURNS: Mapping[str, tuple[float, float, int]] = {
    "Acrobot": (-500.0, 0.0, 500),
    "Blackjack": (-1.0, 1.0, 21),
    "CartPole": (0.0, 500.0, 500),
    "CliffWalking": (-2e4, 0.0, 200),
    "CliffWalkingSlippery": (-2e4, 0.0, 200),
    "MountainCar": (-200.0, 0.0, 200),
    "Taxi": (-2e3, 20.0, 200),
}
"""Least and highest return, and actions of an episode, of environments of Gymnasium by their names without version:
https://gymnasium.farama.org/environments. Of the others, 0 to 1."""
_COLOUR = re.compile(r"\x1b\[[0-9;]+m(.*?)\x1b\[0m")
_SECTION = re.compile(r"## (Action|Observation) Space\n(.*?)(?=\n\s*## |\Z)", re.DOTALL)


def open_task(given: Given, open_scorers: Open) -> Task:
    """The task of one environment.

    Raises:
        MissingExtra: gymnasium is not installed.
        BadInput: there is no such environment, or its actions are neither text nor whole numbers.
    """
    if find_spec("gymnasium") is None:
        raise MissingExtra("gymnasium", "gymnasium")
    options = given.options
    for name, values in CHOICES.items():
        if options.get(name, values[0]) not in values:
            raise BadInput(f"{given.text}: expected {name} to be {' or '.join(values)}, got {options[name]!r:.40}")
    module, colon, _ = given.name.rpartition(":")
    files, path = place_of(module, given.text) if colon else ([], [])
    arguments = {
        "id": given.name,
        "actions": most_actions(given),
        "low": options.get("low", 0.0),
        **{name: options.get(name, values[0]) for name, values in CHOICES.items()},
        "options": {name: value for name, value in options.items() if name not in OWN},
    }
    scorers = open_scorers(__name__, arguments, files=files, path=path, limits=limits_of(given))
    found = described(given, scorers)
    plan = found["plan"]
    task = episodes_task(
        given,
        scorers,
        "gymnasium",
        read=extraction_of(("tag", "action") if plan else "text").answer,
        write=(lambda actions: f"<answer>{' '.join(actions)}</answer>") if plan else as_answer,
        seconds=scorers.limits.wait,
        most=most_actions(given),
        extract=("tag", "answer") if plan else "text",
        **given.rewards(),
        max_tokens=1024,
        unread=("prompt", "answer"),
    )
    return with_players(task, scorers, found["players"])


def audited(name: str) -> str:
    """The task of an environment with the range of its returns, where that is known."""
    low, high, actions = RETURNS.get(name.partition("-")[0], (0.0, 1.0, 200))
    return f"gymnasium:{name}?low={low}&high={high}&actions={actions}"


def names(open_scorers: Open) -> list[str]:
    """The newest version of each environment that can be played here, by name."""
    bare = Given("gymnasium", "", {}, "gymnasium")
    return [*described(bare, open_scorers(__name__, {"id": ""}))["names"]]


def reproductions(name: str, open_scorers: Open) -> tuple[Script, Scorers]:
    """What writes a row and an answer as a script that plays the plan and prints the return; a worker that runs it."""
    low, *_ = RETURNS.get(name.partition("-")[0], (0.0,))

    def script(row: Mapping[str, Any], answer: str) -> str:
        return "\n".join(
            [
                f"import gymnasium; env = gymnasium.make({name!a}); total, over = 0.0, False",
                f"entry = {{'question': str(env.reset(seed={int(row['seed'])})[0]), 'answer': ''}}",
                f"for action in map(int, {answer!a}.replace(',', ' ').split()):",
                "    _, reward, done, cut, _ = env.step(action); total += float(reward); over = done or cut",
                "    if over: break",
                f"print(total if over else {low})",
            ]
        )

    return script, scripts_worker(open_scorers, "gymnasium")


def load(arguments: Mapping[str, Any]) -> Mapping[str, Callable[..., Any]]:
    """The environment, in the worker; ValueError where there is none of this kind."""
    import gymnasium

    if not arguments["id"]:
        return {"describe": lambda: {"names": _playable()}}
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
    bare = own.partition("-v")[0]
    sentence = SENTENCES.get(bare) if arguments.get("observations") == "sentences" else None
    if arguments.get("observations") == "sentences" and sentence is None:
        raise ValueError(f"no sentences for {bare}: expected one of {', '.join(SENTENCES)}")
    about = _about(environment, actions_only=sentence is not None) if plan else ""
    scripted = scripted_player(bare, environment) if plan else None
    by_seed = arguments.get("problems") == "seeds"
    asked = PLAN.format(first, last, arguments["actions"])

    def shown(observation: Any, reward: float | None = None) -> str:
        if sentence is not None:
            return observed(sentence(observation, environment), reward)
        return observed(_text(observation, environment.render() if renders else None), reward)

    def draw(_tier: str, seed: int) -> dict[str, Any]:
        observation, information = environment.reset(seed=seed)
        prompt = "\n\n".join(filter(None, [about, shown(observation), asked if plan else ""]))
        digest, first = text_digest(f"{seed}\0{prompt}" if by_seed else prompt), text_digest(f"{observation}\0")
        found = {"prompt": prompt, "seed": seed, "digest": digest, "first": first}
        answer = information.get("answer")  # Not of the interface; exported tasks name it.
        return {**found, "answer": answer} if isinstance(answer, str) and answer else found

    def played(seed: int, actions: list[Any]) -> tuple[Any, list[float], bool]:
        """The last observation, all rewards, and whether the episode has ended, after which nothing is played."""
        observation, _ = environment.reset(seed=seed)
        rewards: list[float] = []
        for action in actions:
            observation, reward, terminated, truncated, _ = environment.step(action)
            rewards.append(float(number(reward)))
            if terminated or truncated:
                return observation, rewards, True
        return observation, rewards, False

    def play(row: Mapping[str, Any], texts: list[str]) -> dict[str, Any]:
        actions: list[Any] = texts
        if plan:
            actions = [action for each in texts for action in _plan(each, first, last, 1)]
            if len(actions) < len(texts):
                return {"illegal": f"Expected one whole number from {first} to {last} as the action."}
        observation, rewards, ended = played(row["seed"], actions)
        if not actions:
            text = "\n\n".join(filter(None, [about, shown(observation), TURN.format(first, last) if plan else ""]))
            return {"text": text, "reward": None, "done": ended}
        return {"text": shown(observation, rewards[-1]), "reward": rewards[-1], "done": ended}

    def score(answer: str, row: Mapping[str, Any]) -> Any:
        listed = None if plan else actions_of(answer)
        actions: list[Any] = [answer] if listed is None else listed
        if plan:
            actions = _plan(answer, first, last, arguments["actions"])
        if not 1 <= len(actions) <= arguments["actions"]:
            kind = f"actions from {first} to {last}" if plan else "actions"
            return unreadable(f"The answer is no list of 1 to {arguments['actions']} {kind}.")
        _, rewards, ended = played(row["seed"], actions)
        if not ended and not plan and listed is None:
            return unreadable(ONE_ACTION)
        return math.fsum(rewards) if ended else arguments["low"]

    def actions_by(player: str, row: Mapping[str, Any]) -> list[str]:
        """The actions of a player in the episode of a row."""
        drawn = random.Random(row["seed"])
        choose = scripted if scripted and player == SCRIPTED else lambda _: drawn.randint(first, last)
        observation, over, found = environment.reset(seed=row["seed"])[0], False, list[str]()
        while not over and len(found) < arguments["actions"]:
            action = int(choose(observation))
            observation, _, terminated, truncated, _ = environment.step(action)
            over = terminated or truncated
            found.append(str(action))
        return found

    players = [RANDOM, *([SCRIPTED] if scripted else [])] if plan else []
    functions: dict[str, Callable[..., Any]] = {"draw": draw, "play": play, "score": score, "actions_by": actions_by}
    return {"describe": lambda: {"plan": plan, "players": players}, **functions}


def with_players(task: Task, scorers: Any, players: Sequence[str]) -> Task:
    """The task with plans of players that ask no model: random actions are prompt-blind, scripted ones a heuristic."""

    def plan(player: str, problem: Problem, _rng: random.Random) -> str | None:
        try:
            return f"<answer>{' '.join(scorers.call('actions_by', player, problem.instance.row))}</answer>"
        except ScorerFailed:
            return None

    blind, known = task.references.prompt_blind, {each: partial(plan, each) for each in players}
    rule = {name: policy for name, policy in known.items() if name == SCRIPTED}
    more = {name: policy for name, policy in known.items() if name == RANDOM}
    references = evolve(
        task.references, prompt_blind=lambda problems: {**blind(problems), **more}, heuristics=lambda _problems: rule
    )
    return evolve(task, references=references)


def _playable() -> list[str]:
    """Environments whose actions are text or whole numbers, the newest version of each; what cannot be made is none."""
    import gymnasium

    newest: dict[tuple[str | None, str], Any] = {}
    for spec in gymnasium.registry.values():
        kind = spec.namespace, spec.name
        if spec.version is not None and spec.version >= getattr(newest.get(kind), "version", 0):
            newest[kind] = spec
    found = []
    for spec in newest.values():
        with suppress(Exception):  # It may need what is not installed.
            space = gymnasium.make(spec.id, disable_env_checker=True).action_space
            if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.Text):
                found.append(spec.id)
    return sorted(found)


def _modes(spec: Any) -> list[str]:
    """Ways in which an environment can be shown."""
    import gymnasium.envs.registration as registration

    creator = registration.load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return list(getattr(creator, "metadata", {}).get("render_modes", []))


def _about(environment: Any, *, actions_only: bool = False) -> str:
    """What the environment's documentation says of observations and actions."""
    found = inspect.getdoc(type(environment.unwrapped)) or ""
    kinds = ("Action",) if actions_only else ("Action", "Observation")
    return "\n\n".join(
        f"{each[1]}s: {inspect.cleandoc(each[2])}" for each in _SECTION.finditer(found) if each[1] in kinds
    )


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
