"""Several evaluators: those of a task, and further ones whose scores stand beside the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gce.domain.completions import Completion
from gce.domain.evaluators.scores import scored
from gce.domain.problems import Problem
from gce.domain.tasks.parts import Score
from gce.domain.verdicts import Verdict
from gce.ports.evaluator import Evaluator

__all__ = ["Several"]


class Several:
    """Judges as another evaluator does, and adds a verdict of each further one."""

    def __init__(self, own: Evaluator, scores: Mapping[str, Score]) -> None:
        self.deterministic = own.deterministic
        self.tolerance = own.tolerance
        self._own = own
        self._scores = scores

    def judge(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Yield answers with their verdicts, in order: the evaluator's own first."""
        for problem, completion, own in self._own.judge(answers):
            further = (scored(name, score, problem, completion, own) for name, score in self._scores.items())
            yield problem, completion, (*own, *further)
