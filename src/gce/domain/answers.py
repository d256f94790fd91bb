"""What a model answered to one problem, what the evaluators found in it, and what that is worth."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from attrs import frozen

from gce.domain.completions import Completion
from gce.domain.outcomes import outcome
from gce.domain.problems import Problem
from gce.domain.tasks.reward import Scored
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Status, Verdict, Violation

__all__ = ["Answer", "answered_by"]


@frozen
class Answer:
    """One answer with its verdicts; `answered_by` makes it."""

    problem: Problem
    completion: Completion
    verdicts: tuple[Verdict, ...]
    reward: float | None
    """In [0, 1]; None where the answer could not be had or judged."""
    right: bool
    """Whether the reward is at least the task's `admit_at`."""
    score: float | None = None
    """The raw score that the reward was mapped from; None where the task declares no range."""

    @property
    def outcome(self) -> Status:
        """See `gce.domain.outcomes`."""
        return outcome(self.completion, self.verdicts, right=self.right)

    @property
    def failed(self) -> bool:
        """Whether it could not be had or judged."""
        return self.outcome == "failed"

    @property
    def reason(self) -> str:
        """Why it failed, in one sentence; empty where it did not."""
        if not self.failed:
            return ""
        said = [violation.message for each in self.verdicts if each.status == "failed" for violation in each.violations]
        return self.completion.error or "; ".join(said) or "no reason was given"


def answered_by(task: Task, problem: Problem, completion: Completion, verdicts: Sequence[Verdict]) -> Answer:
    """The answer with its reward.

    A reward or score that is no number in its range, or cannot be computed, fails the answer: a further verdict says
    so. The task is not asked for a reward where judging failed already.
    """
    if completion.finish_reason == "error" or any(verdict.status == "failed" for verdict in verdicts):
        return Answer(problem, completion, tuple(verdicts), None, False)
    try:
        reward, score = _reward_of(task, verdicts)
    except Exception as error:  # The function may be anybody's.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        failed = Verdict("failed", None, task.name, "", {}, (Violation("reward", f"the task's reward: {said}"),))
        return Answer(problem, completion, (*verdicts, failed), None, False)
    return Answer(problem, completion, tuple(verdicts), reward, reward >= task.admit_at, score)


def _reward_of(task: Task, verdicts: Sequence[Verdict]) -> tuple[float, float | None]:
    """The reward, and the raw score where there is one; ValueError where they are not what they have to be."""
    if isinstance(task.reward, Scored):
        score = task.reward.score(verdicts)
        reward = None if score is None else task.reward.reward(score)
    else:
        score, reward = None, task.reward(verdicts)
    if reward is None or not (isfinite(reward) and 0.0 <= reward <= 1.0):
        raise ValueError(f"expected a number in [0, 1], got {reward!r}")
    return float(reward), None if score is None else float(score)
