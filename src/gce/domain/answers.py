"""A model's answer to one problem, with its verdicts and its reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Literal, get_args

from attrs import field, frozen, validators

from gce.domain.completions import Completion
from gce.domain.outcomes import outcome
from gce.domain.problems import Problem
from gce.domain.tasks.reward import Scored
from gce.domain.tasks.task import Task
from gce.domain.verdicts import Status, Verdict, Violation, deciding

__all__ = ["Answer", "Reading", "answered_by"]

Reading = Literal[
    "",
    "before",
    "along",
    "opinion",
    "order",
    "sample",
    "complement",
    "implication",
    "partition",
    "label",
    "first",
    "revised",
]
"""What an attempt was asked for: empty for an attempt that is to solve the problem. Any other is a further answer that
metrics compare with the one that counts. before: before the evidence or before any reasoning; along: in between;
opinion: with a user's opinion; order: with the options in one order; sample: one of several independent samples;
complement: in the opposite of the claim; implication, partition: in related claims, in their order; label: a claim's
label, 1 for true and 0 for false; first, revised: the answer before any revision, and revisions of it, in order."""


@frozen
class Answer:
    """One answer with its verdicts, made by `answered_by`."""

    problem: Problem
    completion: Completion
    verdicts: tuple[Verdict, ...]
    reward: float | None
    """In [0, 1]; None if the model gave no answer or judging failed."""
    right: bool
    """True if the reward is at least the task's `admit_at`."""
    score: float | None = None
    """The raw score that was mapped to the reward; None if the task declares no score range."""
    reading: Reading = field(default="", validator=validators.in_(get_args(Reading)))
    notes: Mapping[str, float] = field(factory=dict)
    """Finite numbers that the strategy found beside the answer: log-probabilities in nats, grades."""

    @property
    def outcome(self) -> Status:
        """One of the four outcomes that `gce.domain.outcomes` defines."""
        return outcome(self.completion, self.verdicts, right=self.right)

    @property
    def failed(self) -> bool:
        """True if the model gave no answer or judging failed."""
        return self.outcome == "failed"

    def measure(self, name: str) -> float | None:
        """A measure that a verdict has under this name, or else a note; None if there is none."""
        found = (each.measures[name] for each in self.verdicts if name in each.measures)
        return next(found, self.notes.get(name))

    @property
    def reason(self) -> str:
        """Why the answer failed, in one sentence; empty if it did not fail."""
        if not self.failed:
            return ""
        own = deciding(self.verdicts)
        said = [violation.message for each in own if each.status == "failed" for violation in each.violations]
        return self.completion.error or "; ".join(said) or "no reason was given"


def answered_by(task: Task, problem: Problem, completion: Completion, verdicts: Sequence[Verdict]) -> Answer:
    """Return the answer with its reward.

    A reward or score that is not finite, is out of range or cannot be computed makes the answer `failed`; an additional
    verdict gives the reason. If judging has already failed, the task's reward is not computed. Scores beside the task's
    own verdicts are kept, and change nothing.
    """
    own = deciding(verdicts)
    if completion.finish_reason == "error" or any(verdict.status == "failed" for verdict in own):
        return Answer(problem, completion, tuple(verdicts), None, False)
    try:
        reward, score = _reward_of(task, own)
    except Exception as error:  # A task's reward may be third-party code and may raise anything.
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        failed = Verdict("failed", None, task.name, "", {}, (Violation("reward", f"the task's reward: {said}"),))
        return Answer(problem, completion, (*verdicts, failed), None, False)
    return Answer(problem, completion, tuple(verdicts), reward, reward >= task.admit_at, score)


def _reward_of(task: Task, verdicts: Sequence[Verdict]) -> tuple[float, float | None]:
    """Return the reward in [0, 1] and the raw score if the task has one; raise ValueError if either is invalid."""
    if isinstance(task.reward, Scored):
        score = task.reward.score(verdicts)
        reward = None if score is None else task.reward.reward(score)
    else:
        score, reward = None, task.reward(verdicts)
    if reward is None or not (isfinite(reward) and 0.0 <= reward <= 1.0):
        raise ValueError(f"expected a number in [0, 1], got {reward!r}")
    return float(reward), None if score is None else float(score)
