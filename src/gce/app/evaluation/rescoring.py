"""Judge a run's stored answers again with the current verifier. Does not change the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from gce.app.evaluation.scoring import judge_each
from gce.app.evaluation.stored_runs import stored_settings
from gce.app.wiring.evaluators import find_evaluator
from gce.app.wiring.names import is_given, plain_name
from gce.app.wiring.tasks import find_task, same_problems, stored_problem
from gce.domain.answers import Answer
from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.serialization import RENAMED
from gce.domain.tasks import ProblemSource
from gce.errors import BadInput
from gce.ports.runs import RunReader

__all__ = ["Change", "Rescored", "rescore"]

STORED = ("test-before", "test-after")


@frozen
class Change:
    """An answer whose verdict has changed."""

    where: str
    key: str
    was: str
    """Statuses of the stored verdicts."""
    now: str
    reasons: tuple[str, ...]
    """Violations that the current verifier finds."""


@frozen
class Rescored:
    """The result of rescoring a run."""

    answers: tuple[Answer, ...]
    """All stored answers, with their new verdicts."""
    changes: tuple[Change, ...]
    tolerance: float
    """Largest score difference that does not count as a change; above 0 if the evaluator is not deterministic."""

    @property
    def judged(self) -> int:
        """Number of answers that could be judged."""
        return sum(not answer.failed for answer in self.answers)


def rescore(run: RunReader) -> Rescored:
    """Judge every stored rollout and test answer of a run again.

    Raises:
        BadInput: the task differs from the one that the run was made with.
    """
    settings = stored_settings(run)
    if is_given(settings.task):
        own = plain_name(settings.task)
        raise BadInput(
            f"judging again needs the task {own!r}, which was given from Python: train with a task named module:ATTR"
        )
    task = find_task(settings.task)
    evaluator = find_evaluator(task, settings.executor.runner, settings.evaluator)
    source = ProblemSource(task)
    same_problems(task.name, task, run.config.get("problems", ""))
    found = [(where, stored, *_answer(source, stored)) for where, stored in _stored(run)]
    answers = tuple(judge_each(task, evaluator, ((problem, completion) for _, _, problem, completion in found)))
    changes = (
        _change(where, stored, answer, evaluator.tolerance)
        for (where, stored, *_), answer in zip(found, answers, strict=True)
        if not answer.failed
    )
    return Rescored(answers, tuple(change for change in changes if change is not None), evaluator.tolerance)


def _stored(run: RunReader) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield all stored answers; a failure of the backend is not an answer."""
    for record in run.read("rollouts"):
        if record["finish_reason"] != "error":
            yield "rollout", record
    for name in STORED:
        for record in run.answers(name):
            if record["finish_reason"] != "error":
                yield name, record


def _answer(source: ProblemSource, stored: Mapping[str, Any]) -> tuple[Problem, Completion]:
    key = stored.get("key", stored["problem"])
    problem = stored_problem(source, stored)
    return problem, Completion(key, stored["text"], stored["finish_reason"], stored["policy"])


def _change(where: str, stored: Mapping[str, Any], answer: Answer, tolerance: float) -> Change | None:
    """Return how the verdict changed; None if it did not, or if its scores differ by no more than the tolerance."""
    statuses = [verdict["status"] for verdict in stored["verdicts"]]
    was = _status(stored["right"], [RENAMED.get(status, status) for status in statuses])
    now = _status(answer.right, [verdict.status for verdict in answer.verdicts])
    if was == now or (tolerance and _moved(stored, answer) <= tolerance):
        return None
    reasons = tuple(violation.message for verdict in answer.verdicts for violation in verdict.violations)
    return Change(where, answer.completion.key, was, now, reasons)


def _moved(stored: Mapping[str, Any], answer: Answer) -> float:
    """Return the largest difference between scores; 1 if the evaluators differ or a score is missing."""
    before = [verdict["score"] for verdict in stored["verdicts"]]
    now = [verdict.score for verdict in answer.verdicts]
    if len(before) != len(now) or None in before or None in now:
        return 1.0
    return max((abs(one - other) for one, other in zip(before, now, strict=True)), default=0.0)


def _status(admitted: bool, statuses: Sequence[str]) -> str:
    """Return "right", or, for several evaluators, for example "wrong, right: not admitted"."""
    words = ", ".join(statuses)
    return (
        words
        if len(statuses) == 1 and admitted == (words == "right")
        else f"{words}: {'' if admitted else 'not '}admitted"
    )
