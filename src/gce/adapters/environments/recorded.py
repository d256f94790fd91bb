"""`workflow:FILE` or `workflow:FOLDER`: recorded workflows, as `gce workflow` writes them, to be repeated turn by turn.

The return is the share of steps repeated in order; all of them are right. Nothing of a file is run, so it needs no
worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from gce.adapters.environments.episodes import actions_of, as_answer, episodes_task, observed
from gce.adapters.environments.foreign import REWARDS, Given, Open, text_digest, unreadable
from gce.adapters.environments.scorers import Call
from gce.adapters.system.input_files import parse_json, read_input
from gce.domain.serialization import from_plain
from gce.domain.tasks.extraction import extraction_of
from gce.domain.tasks.task import Task
from gce.domain.workflow.replay import asked, illegal, most_actions, replayed, screen
from gce.domain.workflow.steps import Workflow
from gce.errors import BadInput, one_line

__all__ = ["open_task", "read_workflow"]

MOST_BYTES = 16 * 2**20
MOST_FILES = 1000


def open_task(given: Given, _open: Open) -> Task:
    """The task of one file, or of a folder's.

    Raises:
        BadInput: there is none, or it has no steps.
    """
    given.held_to(REWARDS)
    place = Path(given.name)
    paths = sorted(place.rglob("*.json"))[:MOST_FILES] if place.is_dir() else [place]
    if not paths:
        raise BadInput(f"{given.text}: expected a file of `gce workflow`, or a folder with some, found none")
    found = [read_workflow(path) for path in paths]
    return episodes_task(
        given,
        _Replays(tuple(found)),
        "workflow",
        read=extraction_of(("tag", "action")).answer,
        write=as_answer,
        seconds=30.0,
        extract="text",
        **given.rewards(),
    )


def read_workflow(path: Path) -> Workflow:
    """A workflow from its file; BadInput where it is none, or one without steps."""
    plain = parse_json(read_input(path, MOST_BYTES), str(path))
    try:
        found = from_plain(Workflow, plain)
    except ValueError as error:
        raise BadInput(f"{path} is no file of `gce workflow`: {one_line(error)}") from error
    if not asked(found):
        raise BadInput(f"{path}: expected a workflow with steps, found none")
    return found


@frozen
class _Replays:
    """What plays and scores, as `Scorers` does."""

    workflows: tuple[Workflow, ...]

    def call(self, *call: Any) -> Any:
        """See `gce.adapters.environments.episodes`."""
        name, *arguments = call
        return {"draw": self._draw, "play": self._play, "score": self._score}[name](*arguments)

    def each(self, calls: Iterable[Call]) -> Iterator[Any]:
        """Each call's result."""
        return (self.call(*call) for call in calls)

    def _of(self, row: Mapping[str, Any]) -> Workflow:
        return self.workflows[row["seed"] % len(self.workflows)]

    def _draw(self, _tier: str, seed: int) -> dict[str, Any]:
        workflow = self._of({"seed": seed})
        prompt = screen(workflow, replayed(workflow, ()))
        return {"prompt": prompt, "seed": seed % len(self.workflows), "digest": text_digest(prompt)}

    def _play(self, row: Mapping[str, Any], actions: Sequence[str]) -> dict[str, Any]:
        workflow = self._of(row)
        if actions and (wrong := illegal(actions[-1])):
            return {"illegal": wrong}
        found = replayed(workflow, actions)
        reward = found.right / len(asked(workflow)) if actions else None
        return {"text": observed(screen(workflow, found), reward), "reward": reward, "done": found.over}

    def _score(self, answer: str, row: Mapping[str, Any]) -> Any:
        actions = actions_of(answer)
        workflow = self._of(row)
        if not actions or len(actions) > most_actions(workflow):
            return unreadable(f"The answer is no list of 1 to {most_actions(workflow)} actions.")
        return replayed(workflow, actions).done / len(asked(workflow))
