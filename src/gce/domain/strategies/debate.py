"""The self-debate strategy: the model argues for a claim and for its opposite in turn, and then judges.

All speeches and the verdict are trained on; the belief before the debate is not.
"""

from __future__ import annotations

from gce.domain.problems import Problem
from gce.domain.strategies.reasoning import before_reasoning
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Settings,
    Strategy,
    beliefs_of,
    continued,
    instructed,
    whole_number,
)
from gce.domain.tasks.task import Task

__all__ = ["SELF_DEBATE"]

FIRST = (
    "Do not answer yet. Hold a debate with yourself. First argue that {}, from what is known and in a few sentences."
)
NEXT = "Now argue against that: {}. Reply to what was said, in a few sentences."
VERDICT = "The debate is over. Weigh both sides, and give the answer in the form that is asked for."
MOST = 5
"""Speeches of a side."""


def _with_speeches(written: str) -> Strategy:
    each = whole_number(written, 1, MOST)

    def converse(task: Task, problem: Problem, settings: Settings) -> Exchange:
        sides = beliefs_of(task).sides(problem)
        turns = instructed(problem.prompt, FIRST.format(sides[0]))
        *before, speech = yield (*before_reasoning(task, problem, settings), Ask(turns, draft=True))
        for place in range(1, 2 * each):
            turns = continued(turns, speech, NEXT.format(sides[place % 2]))
            speech = yield Ask(turns, draft=True)
        return (*before, (yield Ask(continued(turns, speech, VERDICT))))

    return Strategy(
        "self-debate",
        converse,
        "arguments for the claim and for its opposite, then a verdict; @N: N speeches a side",
        needs=frozenset({"sample", "beliefs"}),
        options=_with_speeches,
    )


SELF_DEBATE = _with_speeches("1")
