"""The episode strategy: the model acts turn by turn in the environment of the problem.

All its replies are shown again and trained on. The attempt lists the actions that the environment accepted; the task's
verifier plays them again from the start, so that its verdict depends on nothing but problem and attempt.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Message, Problem
from gce.domain.strategies.requests import (
    RESET,
    STEP,
    Act,
    Ask,
    Exchange,
    Failed,
    Settings,
    Strategy,
    continued,
    draft_of,
    episodes_of,
    instructed,
    whole_number,
)
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["EPISODE"]

TURNS, MOST = 20, 1000
RULES = "There are at most {} turns. An action that is unreadable or illegal changes nothing and costs a turn."
NOTHING_DONE = "{} Nothing has changed, and the turn is over."


def _with_turns(written: str) -> Strategy:
    most = whole_number(written, 1, MOST)

    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        episodes = episodes_of(task)
        seen = yield Act(RESET, seconds=episodes.seconds)
        if isinstance(seen, Failed):
            return seen
        turns = instructed((Message("user", seen.text),), RULES.format(most))
        actions, taken, refused = list[str](), 0, 0
        while not seen.done and taken < most and len(actions) < episodes.most:
            reply = yield Ask(turns, draft=True)
            if reply.completion.finish_reason == "context":
                break
            taken += 1
            try:
                action = episodes.read(without_thinking(reply.completion.text))
            except ValueError as error:
                refused, told = refused + 1, NOTHING_DONE.format(error)
            else:
                seen = yield Act(STEP, {"action": action}, episodes.seconds)
                if isinstance(seen, Failed):
                    return seen
                if seen.illegal:
                    refused, told = refused + 1, NOTHING_DONE.format(seen.text)
                else:
                    actions, told = [*actions, action], seen.text
            turns = continued(turns, reply, told)
        notes = {"turns": float(taken), "illegal actions": float(refused)}
        return (evolve(draft_of(problem, episodes.write(actions)), notes=notes),)

    return Strategy(
        "episode",
        converse,
        f"turn by turn in the environment of a task that has one, at most {TURNS} turns; @N: at most N",
        needs=frozenset({"sample", "episodes"}),
        options=_with_turns,
    )


EPISODE = _with_turns(str(TURNS))
