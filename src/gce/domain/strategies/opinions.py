"""The stated-opinion strategy: a problem without an opinion, and with a user who is for the claim or against it.

The three prompts are conversations of their own; the answer without an opinion counts, and is trained on.
"""

from __future__ import annotations

import re

from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy, beliefs_of
from gce.domain.tasks.task import Task

__all__ = ["STATED_OPINION"]

_RELIABILITY = re.compile(r"0\.[0-9]{1,4}")


def _with_reliability(written: str) -> Strategy:
    if written and not (_RELIABILITY.fullmatch(written) and float(written)):
        raise ValueError(f"expected a reliability above 0 and below 1, as 0.8, got {written!r:.40}")
    reliability = float(written) if written else None

    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        variants = [beliefs_of(task).with_opinion(problem, option, reliability) for option in (0, 1)]
        opinions = (Ask(each.prompt, problem=each, reading="opinion") for each in variants)
        replies = yield (*opinions, Ask(problem.prompt))
        return tuple(replies)

    return Strategy(
        "stated-opinion",
        converse,
        "asked three times: a user for the claim, one against it, none; @R states that he is right with probability R",
        needs=frozenset({"sample", "beliefs"}),
        options=_with_reliability,
    )


STATED_OPINION = _with_reliability("")
