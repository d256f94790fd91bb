"""The coherence strategy: beliefs in a claim, in its opposite, and in the related claims of the same world.

Each is asked in a conversation of its own, so that agreement between them is not arithmetic within one answer. The
answer to the problem itself counts, and is trained on.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.answers import Reading
from gce.domain.problems import Problem
from gce.domain.strategies.reasoning import at_once
from gce.domain.strategies.requests import Exchange, Settings, Strategy, beliefs_of
from gce.domain.tasks.task import Task

__all__ = ["COHERENCE"]


def _coherence(task: Task, problem: Problem, settings: Settings) -> Exchange:
    known = beliefs_of(task)
    readings: list[tuple[Reading, Problem]] = [("complement", known.opposite(problem))]
    readings += [(kind, each) for kind, claims in known.related(problem).items() for each in claims]
    replies = yield (
        *(evolve(at_once(each.prompt, settings), problem=each, reading=reading) for reading, each in readings),
        at_once(problem.prompt, settings),
    )
    return tuple(replies)


COHERENCE = Strategy(
    "coherence",
    _coherence,
    "the claim, its opposite and related claims, each in a conversation of its own and without reasoning",
    needs=frozenset({"sample", "beliefs"}),
)
