"""The judge strategy: a judge grades the model's reasoning after its own answer, a criticism and a defence of it.

The judge is the model itself, or another one. It sees the problem; its grade is noted beside the answer, which counts
and is trained on. A judge is only as valid as its agreement with exact scores: see the metrics of the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.strategies.predictions import needed, quoted, who
from gce.domain.strategies.reasoning import STEP_BY_STEP, at_once
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Failed,
    Settings,
    Strategy,
    Turns,
    continued,
    instructed,
)
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["JUDGE", "asked_for_grade", "grade_in"]

ANSWER = "Somebody else answered the same problem:\n{}\n"
RED = "Write the strongest criticism of that answer, in a few sentences."
BLUE = "Now defend that answer against the criticism, in a few sentences."
RESOLUTION = "Now say which of both is right, and on what points, in a few sentences."
GRADE = 'Grade that answer from 0, worthless, to 10, perfect. Reply with JSON alone, in this form: {"grade": X}'
DEBATES: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "red": (RED,),
    "red_blue": (RED, BLUE),
    "red_blue_resolution": (RED, BLUE, RESOLUTION),
}
_OBJECT = re.compile(r"\{[^{}]{0,500}\}")


def _with_debate(written: str) -> Strategy:
    debate, plus, named = written.partition("+")
    if debate not in DEBATES:
        raise ValueError(f"expected {', '.join(DEBATES)}, got {debate!r:.40}")
    judge = who(named if plus else "evaluated")

    def converse(_task: Task, problem: Problem, settings: Settings) -> Exchange:
        own = at_once(problem.prompt, settings, to=judge, draft=True)
        last, reply = yield Ask(instructed(problem.prompt, STEP_BY_STEP)), own
        turns, words = own.turns, ANSWER.format(quoted(last.completion.text))
        for each in (*DEBATES[debate], GRADE):
            if isinstance(reply, Failed):
                return reply
            turns = continued(turns, reply, words + each)
            reply, words = (yield Ask(turns, to=judge, draft=True)), ""
        if isinstance(reply, Failed):
            return reply
        grade = grade_in(reply.completion.text)
        return (last if grade is None else evolve(last, notes={"grade": grade}),)

    return Strategy(
        "judge",
        converse,
        f"a grade by a judge after its own answer and a debate; @{', @'.join(DEBATES)}, then +another",
        needs=frozenset({"sample", "beliefs", needed(judge, "sample")}),
        options=_with_debate,
    )


def asked_for_grade(turns: Turns, answer: str) -> Turns:
    """Return a problem's prompt with the request to grade somebody's answer to it, which is quoted."""
    return instructed(turns, ANSWER.format(quoted(answer)) + GRADE)


def grade_in(reply: str) -> float | None:
    """Return the grade in [0, 1] of the last JSON object with a valid one in a judge's reply; None if there is none."""
    for found in reversed(_OBJECT.findall(without_thinking(reply))):
        try:
            grade = json.loads(found)["grade"]
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
        if isinstance(grade, int | float) and not isinstance(grade, bool) and 0 <= grade <= 10:
            return float(grade) / 10
    return None


JUDGE = _with_debate("red_blue_resolution")
