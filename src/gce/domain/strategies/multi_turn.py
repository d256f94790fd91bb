"""The multi-turn strategy: up to three attempts with feedback."""

from __future__ import annotations

from gce.domain.answers import Answer
from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy, continued
from gce.domain.tasks.task import Task

__all__ = ["ATTEMPTS", "MULTI_TURN"]

ATTEMPTS = 3


def _multi_turn(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    turns, attempts = problem.prompt, list[Answer]()
    while True:
        attempt = yield Ask(turns)
        attempts.append(attempt)
        if attempt.right or attempt.completion.finish_reason == "context" or len(attempts) == ATTEMPTS:
            return tuple(attempts)
        wrong = [verdict for verdict in attempt.verdicts if not verdict.right]
        told = "\n".join(map(task.teaching.feedback, wrong)) or "Try again."
        turns = continued(turns, attempt, told)


MULTI_TURN = Strategy(
    "multi-turn",
    _multi_turn,
    "up to three attempts; feedback says what is wrong, never the right answer",
    attempts=ATTEMPTS,
)
