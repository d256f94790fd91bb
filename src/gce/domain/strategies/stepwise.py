"""The stepwise-evidence strategy: a belief before any evidence, and again after each piece of it.

One conversation, in which evidence arrives message by message. The belief after the last piece counts; all are trained
on.
"""

from __future__ import annotations

from gce.domain.answers import Answer
from gce.domain.problems import Problem
from gce.domain.strategies.requests import Ask, Exchange, Settings, Strategy, beliefs_of, continued
from gce.domain.tasks.task import Task

__all__ = ["STEPWISE_EVIDENCE"]

ARRIVES = "New evidence: {}\n{}\nAnswer in the same form as before."


def _stepwise(task: Task, problem: Problem, _settings: Settings) -> Exchange:
    known = beliefs_of(task)
    question, beliefs = known.question(problem), list[Answer]()
    variant = known.after(problem, 0)
    turns = variant.prompt
    for seen, piece in enumerate(known.evidence(problem)):
        belief = yield Ask(turns, problem=variant, reading="along" if seen else "before")
        beliefs.append(belief)
        turns = continued(turns, belief, ARRIVES.format(piece, question))
        variant = known.after(problem, seen + 1)
    return (*beliefs, (yield Ask(turns)))


STEPWISE_EVIDENCE = Strategy(
    "stepwise-evidence",
    _stepwise,
    "a belief before any evidence, and after each piece of it, in one conversation",
    needs=frozenset({"sample", "beliefs"}),
)
