"""A task's own verifier as an evaluator, with a runner for programs that answers need run."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Execution
from gce.domain.problems import Problem
from gce.domain.tasks.task import Batched, Task, answer_of
from gce.domain.verdicts import Verdict
from gce.ports.runner import Runner

__all__ = ["TaskVerifier"]

TOGETHER = 64
"""Answers that are judged together, where the task does so."""
Judged = tuple[Problem, Completion, tuple[Verdict, ...]]


class TaskVerifier:
    """Calls `Task.verify`, with the evidence that `Task.request` asks for if a runner is given, otherwise without."""

    def __init__(self, task: Task, runner: Runner | None = None) -> None:
        self.deterministic = not task.audit.varies
        self.tolerance = 1.0 if task.audit.varies else 0.0
        self._task = task
        self._runner = runner

    def judge(self, answers: Iterable[tuple[Problem, Completion]]) -> Iterator[Judged]:
        """Yield answers with their verdicts, in order; an exception in the verifier gives `failed`.

        Raises:
            ValueError: the runner returned less evidence than requested.
        """
        if self._runner is None:
            size = TOGETHER if isinstance(self._task.verify, Batched) else 1
            coming = iter(answers)
            while some := list(islice(coming, size)):
                for (problem, completion), verdicts in zip(some, self._task.judge_all(some), strict=True):
                    yield problem, completion, verdicts
        else:
            yield from self._judged(self._runner, answers)

    def _judged(self, runner: Runner, answers: Iterable[tuple[Problem, Completion]]) -> Iterator[Judged]:
        waiting: deque[tuple[Problem, Completion, bool]] = deque()

        def wanted() -> Iterator[Execution]:
            for problem, completion in answers:
                try:
                    execution = self._task.request(problem, answer_of(completion))
                except Exception:  # `verify` will fail in the same way for lack of evidence.
                    execution = None
                waiting.append((problem, completion, execution is not None))
                if execution is not None:
                    yield execution

        def judged(evidence: Evidence | None) -> Judged:
            problem, completion, _ = waiting.popleft()
            return problem, completion, self._task.judge(problem, completion, evidence)

        for evidence in runner.run(wanted()):
            while not waiting[0][2]:
                yield judged(None)
            yield judged(evidence)
        while waiting:
            if waiting[0][2]:
                raise ValueError(f"task {self._task.name}: the runner ended before it had run {waiting[0][1].key}")
            yield judged(None)
