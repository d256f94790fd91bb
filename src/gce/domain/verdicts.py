"""What an evaluator found in an answer, with the violations that prove it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from attrs import field, frozen, validators

__all__ = ["Status", "Step", "Verdict", "Violation"]


Status = Literal["right", "wrong", "unreadable", "failed"]


_in_unit_interval = validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0)))


@frozen
class Violation:
    """One reason why an answer is wrong, with the numbers that prove it."""

    kind: str
    """precedence, capacity, deadline, horizon, missing, unknown, duplicate, grammar, ... (the task lists its own)."""
    message: str
    """One sentence in plain English that says what is wrong, never what would be right."""
    about: tuple[str, ...] = ()
    """What it concerns, by label: of scheduling, jobs."""
    found: float | None = None
    bound: float | None = None


@frozen
class Verdict:
    """One evaluator's judgement of one completion."""

    status: Status = field(validator=validators.in_(get_args(Status)))
    """right or wrong. unreadable: there is no one answer to be judged, which is the model's fault. failed: the
    evaluator, or what it needs, could not judge; see `gce.domain.outcomes`."""
    score: float | None = field(validator=_in_unit_interval)
    """In [0, 1]; None where judging failed."""
    evaluator: str
    version: str
    measures: Mapping[str, float] = field(factory=dict)
    violations: tuple[Violation, ...] = ()

    @property
    def right(self) -> bool:
        """Whether the answer was judged right."""
        return self.status == "right"


@frozen
class Step:
    """One step of written reasoning and what checking it found."""

    text: str
    status: Literal["true", "false", "unreadable"]
    reason: str = ""
