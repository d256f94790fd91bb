"""An evaluator whose answers an executor has judged, in other processes or on other machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.verdicts import Verdict
from gce.ports.evaluator import Evaluator
from gce.ports.executor import Executor

__all__ = ["Asked", "Found", "Spread"]

Asked = tuple[int, Problem, Completion]
"""An answer with its number."""
Found = tuple[int, tuple[Verdict, ...]]
"""Its number, and its verdicts."""


class Spread:
    """Judges as `inner` does, each answer where `executor` has `judge_one` called: a function of a module."""

    def __init__(self, inner: Evaluator, executor: Executor, judge_one: Callable[[Asked], Iterable[Found]]) -> None:
        self.deterministic = inner.deterministic
        self.tolerance = inner.tolerance
        self._executor = executor
        self._judge_one = judge_one

    def judge(
        self, answers: Iterable[tuple[Problem, Completion]]
    ) -> Iterator[tuple[Problem, Completion, tuple[Verdict, ...]]]:
        """Answers with their verdicts, in the order of the answers, in whatever order they are judged."""
        taken: dict[int, tuple[Problem, Completion]] = {}

        def asked() -> Iterator[Asked]:
            for number, answer in enumerate(answers):
                taken[number] = answer
                yield number, *answer

        found: dict[int, tuple[Verdict, ...]] = {}
        due = 0
        for number, verdicts in self._executor.map(self._judge_one, asked()):
            found[number] = verdicts
            while due in found:
                yield *taken.pop(due), found.pop(due)
                due += 1
