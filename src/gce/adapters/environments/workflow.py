"""`workflow:STEPS.json`: replay the steps that `gce workflow --steps` found, one action a turn.

The model sees in words which places were used, which texts were typed, and what was done last, and says what comes
next: `click X,Y`, `type TEXT` or `scroll N`. An action is right if it is of the recorded kind and hits the box, is the
text (but for spaces around it), or scrolls the same way. Right or wrong, the recording goes on with its own step, and
each right action earns its share of 1. Pages that appear are told, and are no actions.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from gce.adapters.environments.episodes import actions_of, as_answer, episodes_task, observed
from gce.adapters.environments.foreign import REWARDS, Given, Open, text_digest, unreadable
from gce.adapters.environments.scorers import Call
from gce.adapters.system.input_files import parse_json, read_input
from gce.domain.problems import Problem
from gce.domain.serialization import from_plain
from gce.domain.tasks.extraction import extraction_of
from gce.domain.tasks.task import Task
from gce.domain.workflow.steps import Step
from gce.errors import BadInput, one_line

__all__ = ["Replay", "action_for", "is_right", "open_task"]

MOST_BYTES = 4_000_000
MOST_STEPS = 500
TURN = (
    "Say the next action, between <action> and </action>: click X,Y (pixels from the left and the top), type TEXT, or "
    "scroll N (pixels, negative for up)."
)
ILLEGAL = "Expected click X,Y or type TEXT or scroll N."
_CLICK = re.compile(r"click\s+(\d{1,5})(?:\.\d+)?\s*,\s*(\d{1,5})(?:\.\d+)?")
_SCROLL = re.compile(r"scroll\s+([+-]?\d{1,6})")
_TYPE = re.compile(r"(?s)type (.*)")


def open_task(given: Given, _open: Open) -> Task:
    """The task of one recording.

    Raises:
        BadInput: the file has no steps of `gce workflow`.
    """
    options = given.held_to(REWARDS)
    replay = Replay(_steps(Path(given.name), given.text))
    reward = {"reward_range": (0.0, 1.0), "admit_at": options.get("admit_at", 1.0), "deterministic": True}
    task = episodes_task(
        given,
        replay,
        "workflow",
        read=extraction_of(("tag", "action")).answer,
        write=as_answer,
        seconds=30.0,
        most=len(replay.actions),
        extract="text",
        **reward,
    )
    known = {"random clicks": replay.random_answer, "scripted player": replay.right_answer}
    players = {name: partial(_answer, answer) for name, answer in known.items()}
    blind = task.references.prompt_blind
    references = evolve(
        task.references,
        prompt_blind=lambda problems: {**blind(problems), "random clicks": players["random clicks"]},
        heuristics=lambda _problems: {"scripted player": players["scripted player"]},
    )
    return evolve(task, references=references)


def _answer(answer: Any, _problem: Problem, rng: random.Random) -> str:
    return str(answer(rng))


def _steps(path: Path, text: str) -> tuple[tuple[int, int], tuple[Step, ...]]:
    data = parse_json(read_input(path, MOST_BYTES), str(path))
    try:
        width, height = (int(each) for each in data["size"])
        steps = tuple(from_plain(Step, each) for each in data["steps"])
    except Exception as error:  # Any part of the file may be of any type.
        raise BadInput(f"{text}: {path} has no steps of gce workflow: {one_line(error)}") from error
    count = sum(step.kind != "page" for step in steps)
    if not 1 <= count <= MOST_STEPS:
        raise BadInput(f"{text}: expected 1 to {MOST_STEPS} actions in {path}, got {count}")
    return (width, height), steps


def is_right(action: str, step: Step) -> bool:
    """Whether an action is what a step did."""
    if found := _CLICK.fullmatch(action):
        left, top, right, bottom = step.box or (0, 0, 0, 0)
        return step.kind == "click" and left <= int(found[1]) < right and top <= int(found[2]) < bottom
    if found := _SCROLL.fullmatch(action):
        return step.kind == "scroll" and int(found[1]) * step.distance > 0
    if found := _TYPE.fullmatch(action):
        return step.kind == "type" and found[1].strip() == step.text.strip()
    return False


def action_for(step: Step) -> str:
    """The action that a step was, by its middle."""
    if step.kind == "type":
        return f"type {step.text}"
    if step.kind == "scroll":
        return f"scroll {round(step.distance) or 1}"
    left, top, right, bottom = step.box or (0, 0, 1, 1)
    return f"click {(left + right) // 2},{(top + bottom) // 2}"


class Replay:
    """Plays and scores actions in this process: there is no code of others in it. As `Scoring` says."""

    def __init__(self, recorded: tuple[tuple[int, int], tuple[Step, ...]]) -> None:
        self.size, self.steps = recorded
        self.actions = tuple(step for step in self.steps if step.kind != "page")

    def call(self, name: str, *arguments: Any) -> Any:
        """`draw`, `play` or `score`."""
        functions: dict[str, Callable[..., Any]] = {"draw": self._draw, "play": self._play, "score": self._score}
        return functions[name](*arguments)

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """What each call returns."""
        return (self.call(*each) for each in calls)

    def right_answer(self, _rng: random.Random) -> str:
        """All actions of the recording."""
        return as_answer([action_for(step) for step in self.actions])

    def random_answer(self, rng: random.Random) -> str:
        """As many clicks anywhere."""
        width, height = self.size
        return as_answer([f"click {rng.randrange(width)},{rng.randrange(height)}" for _ in self.actions])

    def _draw(self, _tier: str, seed: int) -> Mapping[str, Any]:
        prompt = f"{self._seen([])}\n\n{TURN}"
        return {"prompt": prompt, "seed": seed, "digest": text_digest(prompt)}

    def _play(self, _row: Mapping[str, Any], actions: Sequence[str]) -> Mapping[str, Any]:
        if not actions:
            return {"text": f"{self._seen([])}\n\n{TURN}", "reward": None, "done": False}
        action = actions[-1].strip()
        if not any(form.fullmatch(action) for form in (_CLICK, _SCROLL, _TYPE)):
            return {"illegal": ILLEGAL}
        reward = self._right(actions[-1:], len(actions) - 1) / len(self.actions)
        return {
            "text": observed(self._seen(actions), reward),
            "reward": reward,
            "done": len(actions) == len(self.actions),
        }

    def _score(self, answer: str, _row: Mapping[str, Any]) -> Any:
        actions = actions_of(answer)
        if actions is None or len(actions) > len(self.actions):
            return unreadable(f"The answer is no list of at most {len(self.actions)} actions.")
        return self._right(actions, 0) / len(self.actions)

    def _right(self, actions: Sequence[str], first: int) -> int:
        return sum(is_right(each.strip(), step) for each, step in zip(actions, self.actions[first:], strict=False))

    def _seen(self, actions: Sequence[str]) -> str:
        """The state in words."""
        done = len(actions)
        width, height = self.size
        places = sorted(
            {step.box for step in self.actions if step.kind == "click" and step.box}, key=lambda box: box[1::-1]
        )
        texts = sorted({step.text for step in self.actions if step.kind == "type"})
        lines = [f"A screen of {width} x {height} pixels. {done} of {len(self.actions)} actions are done."]
        lines += ["Places that are clicked, from the top (left, top, right, bottom):"] * bool(places)
        lines += [f"- {' '.join(map(str, box))}" for box in places]
        lines += ["Texts that are typed, by alphabet:"] * bool(texts)
        lines += [f"- {text!r}" for text in texts]
        if done:
            last = self.actions[done - 1]
            right = "That was right." if is_right(actions[-1].strip(), last) else f"Recorded was: {action_for(last)}."
            after = self.steps[self.steps.index(last) + 1 :]
            lines.append(right + (" Then another page appeared." if after and after[0].kind == "page" else ""))
        return "\n".join(lines)
