"""A problem as a model sees it, with an answer to it and what the verifier says of that answer."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import judge
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.tasks import Task
from gce.ports.evaluator import Evaluator

__all__ = ["Shown", "plain_problem", "shown"]


@frozen
class Shown:
    """One problem and an answer."""

    problem: Problem
    max_tokens: int
    """Maximum tokens of a response to it by default."""
    answer: Answer
    demonstrated: bool
    """Whether the answer is the task's own demonstration; else it is empty."""


def shown(task: Task, evaluator: Evaluator, problem: Problem) -> Shown:
    """The problem with the task's demonstration, or with an empty answer where the task has none for it."""
    text = task.teaching.demonstration(problem, None)
    completion = Completion("answer", text or "", "stop", policy="demonstration")
    return Shown(problem, task.token_budget(problem), judge(task, evaluator, problem, completion), text is not None)


def plain_problem(problem: Problem) -> dict[str, Any]:
    """The problem as JSON takes it, its identity as text."""
    identity = {"key": problem.key, "task": problem.task, "tier": problem.tier, "split": problem.split}
    return identity | {name: value for name, value in to_plain(problem).items() if name != "id"}
