"""The optional parts of a task: what teaches a model, what its results are compared with, what audits the verifier."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from gce.domain.problems import Problem
from gce.domain.timelines import Chart
from gce.domain.verdicts import Step, Verdict

__all__ = ["Audit", "Policy", "References", "Relation", "Teaching"]

Policy = Callable[[Problem, random.Random], str | None]
"""A way to answer without a model: the response's text, or None where it does not apply to the problem."""


def _no_steps(_problem: Problem, _text: str) -> tuple[Step, ...]:
    return ()


def _no_policies(_training: Sequence[Problem]) -> Mapping[str, Policy]:
    return {}


def _try_again(verdict: Verdict) -> str:
    return "\n".join([*(violation.message for violation in verdict.violations), "Try again."])


@frozen(kw_only=True)
class Teaching:
    """How a model is helped, before an answer and after a wrong one."""

    demonstration: Callable[[Problem, Any], str | None] = field(default=lambda _problem, _solve: None)
    """(problem, solve) -> a response with its reasoning written out, as a few-shot example; by a plain rule, or by
    `solve` where one is given; None where there is none. Whether it is right is for `verify` to say."""
    check_steps: Callable[[Problem, str], tuple[Step, ...]] = _no_steps
    """Judges written reasoning step by step; nothing where the task has no step grammar."""
    feedback: Callable[[Verdict], str] = _try_again
    """The user's turn after a wrong answer: what is wrong, never what is right."""
    calls: tuple[str, ...] = (
        "Do not answer yet. List what the answer has to satisfy.",
        "Now draft an answer and check it against the list.",
        "Now give the answer alone.",
    )
    """What a model is told, call by call, when it simulates: the first behind the prompt. Only the last is judged."""
    chart: Callable[[Problem, str], Chart | None] = field(default=lambda _problem, _text: None)
    """An answer as a picture, with its violations; None where it has none. Total, as `verify` is."""

    @property
    def has_steps(self) -> bool:
        """Whether written reasoning can be checked step by step."""
        return self.check_steps is not _no_steps


@frozen(kw_only=True)
class References:
    """What a model's results are compared with, on the same problems."""

    prompt_blind: Callable[[Sequence[Problem]], Mapping[str, Policy]] = _no_policies
    """Baselines that ignore the problem, or part of it; fitted ones may read the training problems given."""
    heuristics: Callable[[Sequence[Problem]], Mapping[str, Policy]] = _no_policies
    """Plain rules that read the problem, as reference rows."""
    limits: Mapping[str, float] = field(factory=dict)
    """By tier: the solve rate that no prompt-blind baseline may exceed; `*` for all others."""


@frozen
class Relation:
    """What must hold between the verdict on a response and that on a changed one, whatever is right (metamorphic)."""

    change: Callable[[Problem, str, random.Random], tuple[Problem, str] | None]
    """Another problem, another response, or both; None where it does not apply. Only the instance has to be changed:
    prompt and digest are made anew."""
    holds: Literal["the verdict stays", "wrong stays wrong", "right becomes wrong"]


@frozen(kw_only=True)
class Audit:
    """What is known of the verifier's blind spots, and which problems show what a model learned."""

    hidden: frozenset[str] = frozenset()
    """Fields of an instance that the prompt does not state though the verdict follows from them, as hidden tests."""
    shifts: Mapping[str, tuple[str, str]] = field(factory=dict)
    """Problems unlike those trained on, by what differs: the name of a task, or module:ATTR, and its
    preset, or "" for the run's own."""
    relations: Mapping[str, Relation] = field(factory=dict)
    """Metamorphic relations, by what is changed: `gce check` holds the verifier to them."""
    group: Callable[[Any], str] = field(default=lambda _instance: "")
    """Which subtype of its tier an instance is; empty where tiers have none."""
