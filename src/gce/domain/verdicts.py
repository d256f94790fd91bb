"""An evaluator's verdict on an answer, with the violations that prove it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from attrs import field, frozen, validators

from gce.domain.serialization import OMIT_DEFAULT

__all__ = ["Status", "Step", "Verdict", "Violation", "deciding"]


Status = Literal["right", "wrong", "unreadable", "failed"]


_in_unit_interval = validators.optional(validators.and_(validators.ge(0.0), validators.le(1.0)))


@frozen
class Violation:
    """One reason why an answer is wrong, with the numbers that prove it."""

    kind: str
    """precedence, capacity, deadline, horizon, missing, unknown, duplicate, grammar, ...; each task defines its own."""
    message: str
    """One sentence that says what is wrong, and never what would be right."""
    about: tuple[str, ...] = ()
    """Labels of what it concerns; in scheduling, of jobs."""
    found: float | None = None
    bound: float | None = None


@frozen
class Verdict:
    """One evaluator's verdict on one completion."""

    status: Status = field(validator=validators.in_(get_args(Status)))
    """right or wrong. unreadable: the text does not hold exactly one answer, which is the model's fault. failed: the
    evaluator, or something that it needs, could not judge; see `gce.domain.outcomes`."""
    score: float | None = field(validator=_in_unit_interval)
    """In [0, 1]; None if judging failed."""
    evaluator: str
    version: str
    measures: Mapping[str, float] = field(factory=dict)
    violations: tuple[Violation, ...] = ()
    beside: bool = field(default=False, metadata=OMIT_DEFAULT)
    """Whether it is a further evaluator's score beside the task's own verdicts: it never decides whether an answer is
    right, unreadable or failed."""

    @property
    def right(self) -> bool:
        """True if the answer was judged right."""
        return self.status == "right"


def deciding(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Return the verdicts that decide about the answer: the task's own."""
    return tuple(verdict for verdict in verdicts if not verdict.beside)


@frozen
class Step:
    """One step of written reasoning, with the result of checking it."""

    text: str
    status: Literal["true", "false", "unreadable"]
    reason: str = ""
