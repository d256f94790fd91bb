"""The shipped tasks: one package for each kind of problem, and one line each in `TASKS`."""

from __future__ import annotations

from collections.abc import Mapping

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.tasks.drawing import NoProblem
from gce.domain.tasks.parts import Audit, Policy, References, Relation, Teaching
from gce.domain.tasks.programs.task import PROGRAMS
from gce.domain.tasks.reward import Scored
from gce.domain.tasks.scheduling.task import ANSWER_ONLY, BRIEF, RELABELLED, REWORDED, SCHEDULING
from gce.domain.tasks.source import ProblemSource, draw_problem, draw_problems
from gce.domain.tasks.task import Drawn, Listed, Task, TaskTier
from gce.domain.verdicts import Verdict

__all__ = [
    "TASKS",
    "Audit",
    "Drawn",
    "Listed",
    "NoProblem",
    "Policy",
    "ProblemSource",
    "References",
    "Relation",
    "Scored",
    "Task",
    "TaskTier",
    "Teaching",
    "draw_problem",
    "draw_problems",
    "judge",
]

TASKS: Mapping[str, Task] = {
    task.name: task for task in (SCHEDULING, ANSWER_ONLY, BRIEF, REWORDED, RELABELLED, PROGRAMS)
}


def judge(problem: Problem, text: str) -> Verdict:
    """Return the verdict of a shipped task's first evaluator on an answer given as text.

    Raises:
        KeyError: the problem belongs to no task in `TASKS`; call that task's own `judge`.
    """
    return TASKS[problem.task].judge(problem, Completion("answer", text, "stop", policy=""))[0]
