"""The kinds of problems: a package each, and one line in `TASKS`."""

from __future__ import annotations

from collections.abc import Mapping

from gce.domain.tasks.programs.task import PROGRAMS
from gce.domain.tasks.scheduling.task import ANSWER_ONLY, BRIEF, RELABELLED, REWORDED, SCHEDULING
from gce.domain.tasks.task import (
    NoProblem,
    Policy,
    Relation,
    Task,
    TaskTier,
    draw_problem,
    draw_problems,
    problem_of_key,
)
from gce.domain.types import Completion, Problem, Verdict

__all__ = [
    "TASKS",
    "NoProblem",
    "Policy",
    "Relation",
    "Task",
    "TaskTier",
    "draw_problem",
    "draw_problems",
    "judge",
    "problem_of_key",
]

TASKS: Mapping[str, Task] = {
    task.name: task for task in (SCHEDULING, ANSWER_ONLY, BRIEF, REWORDED, RELABELLED, PROGRAMS)
}


def judge(problem: Problem, text: str) -> Verdict:
    """The verdict of a shipped task's first evaluator on an answer given as text.

    Raises:
        KeyError: the problem belongs to no task in `TASKS`; call that task's own `judge`.
    """
    return TASKS[problem.task].judge(problem, Completion("answer", text, "stop", policy=""))[0]
