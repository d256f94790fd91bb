"""The consultation strategy: the model may ask a simulated user before it answers.

The task's scripted user answers; a message that does not end in a question is the attempt, and ends the conversation.
All replies are trained on.
"""

from __future__ import annotations

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.strategies.requests import (
    Ask,
    Exchange,
    Settings,
    Strategy,
    consultation_of,
    continued,
    whole_number,
)
from gce.domain.tasks.task import Task, without_thinking

__all__ = ["CONSULTATION"]

TURNS, MOST = 12, 200


def _with_turns(written: str) -> Strategy:
    most = whole_number(written, 1, MOST)

    def converse(task: Task, problem: Problem, _settings: Settings) -> Exchange:
        user = consultation_of(task)
        turns, questions = problem.prompt, list[str]()
        while True:
            message = yield Ask(turns, draft=True)
            text = without_thinking(message.completion.text)
            question = user.question(text)
            if question is None or len(questions) + 1 == most or message.completion.finish_reason == "context":
                return (evolve(message, notes=user.counts(problem, questions, text)),)
            questions.append(question)
            turns = continued(turns, message, user.reply(problem, questions))

    return Strategy(
        "consultation",
        converse,
        f"questions to the simulated user of a task that has one, then the answer; at most {TURNS} turns; @N: N",
        needs=frozenset({"sample", "consultation"}),
        options=_with_turns,
    )


CONSULTATION = _with_turns(str(TURNS))
