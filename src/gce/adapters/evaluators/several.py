"""Several evaluators: those of a task, and further ones whose scores stand beside the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from gce.adapters.evaluators.judge_model import JudgeModel
from gce.adapters.evaluators.verifier import TOGETHER
from gce.domain.completions import Completion
from gce.domain.evaluators.scores import scored
from gce.domain.problems import Problem
from gce.domain.tasks.parts import Score
from gce.domain.verdicts import Verdict
from gce.ports.evaluator import Evaluator

__all__ = ["Several"]


class Several:
    """Judges as another evaluator does, and adds a verdict of each further one."""

    def __init__(self, own: Evaluator, scores: Mapping[str, Score], judges: Sequence[JudgeModel] = ()) -> None:
        self.deterministic = own.deterministic
        self.tolerance = own.tolerance
        self._own = own
        self._scores = scores
        self._judges = judges

    def judge(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Yield answers with their verdicts, in order: the evaluator's own first. Judge models are asked in batches."""
        coming = self._own.judge(answers)
        while some := list(islice(coming, TOGETHER if self._judges else 1)):
            grades = [judge.judge([(problem, completion) for problem, completion, _ in some]) for judge in self._judges]
            for place, (problem, completion, own) in enumerate(some):
                further = [scored(name, score, problem, completion, own) for name, score in self._scores.items()]
                yield problem, completion, (*own, *further, *(each[place] for each in grades))
