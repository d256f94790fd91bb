"""Who judges answers: a task's verifier, a clock, another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.verdicts import Verdict

__all__ = ["Evaluator"]


@runtime_checkable
class Evaluator(Protocol):
    """Judges answers to the problems of one task."""

    @property
    def deterministic(self) -> bool:
        """Whether the same answer always gets the same verdicts.

        The verdicts of an evaluator that is not deterministic are evidence: a run stores them when they are measured
        and reads them back on resume, and never has them measured again.
        """
        ...

    @property
    def tolerance(self) -> float:
        """How far two scores of the same answer may lie apart, in [0, 1]; 0 where it is deterministic.

        `gce rescore` takes a verdict for changed only where its score moved further than that.
        """
        ...

    def judge(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Answers with their verdicts, in order; several may be taken ahead and judged side by side.

        Nothing that an answer holds raises: what cannot be judged gets a verdict with the status `failed`, whose
        violations say why. Every answer gets at least one verdict.
        """
        ...
