"""The port for evaluators, which judge answers: a task's verifier, a timing measurement, a judge model."""

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
        """True if the same answer always gets the same verdicts.

        If false, verdicts are evidence: a run stores them once, reads them back on resume, and never repeats the
        evaluation.
        """
        ...

    @property
    def tolerance(self) -> float:
        """Largest difference between two scores of the same answer, in [0, 1]; 0 if deterministic.

        `gce rescore` reports a verdict as changed only if its score differs by more than this.
        """
        ...

    def judge(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Yield answers with their verdicts, in order; several answers may be prefetched and judged in parallel.

        Never raises because of an answer's contents: an answer that cannot be judged gets a verdict of status `failed`,
        whose violations give the reason. Every answer gets at least one verdict.
        """
        ...
