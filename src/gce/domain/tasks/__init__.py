"""The shipped tasks: one package for each kind of problem, and one line each in `TASKS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gce.domain.completions import Completion
from gce.domain.problems import Problem, ProblemId
from gce.domain.tasks.beliefs.task import BELIEFS, BELIEFS_BY_OUTCOME
from gce.domain.tasks.consultation.task import CONSULTATION
from gce.domain.tasks.drawing import NoProblem
from gce.domain.tasks.faster.task import FASTER
from gce.domain.tasks.parts import Audit, Policy, References, Relation, Teaching
from gce.domain.tasks.programs.task import PROGRAMS
from gce.domain.tasks.questions import Question, question_of, tier_of
from gce.domain.tasks.reward import Scored
from gce.domain.tasks.scheduling.task import ANSWER_ONLY, BRIEF, CODE_WORDED, RELABELLED, REWORDED, SCHEDULING
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
    task.name: task
    for task in (
        SCHEDULING,
        ANSWER_ONLY,
        BRIEF,
        REWORDED,
        RELABELLED,
        CODE_WORDED,
        PROGRAMS,
        BELIEFS,
        BELIEFS_BY_OUTCOME,
        FASTER,
        CONSULTATION,
    )
}


def judge(problem: Problem | Mapping[str, Any], text: str, task: Task | None = None) -> Verdict:
    """Return the verdict of a task's first evaluator on an answer given as text.

    `task` is the one that the problem was drawn from; a shipped task is found by its name. For a task of `gce.task`,
    the problem may be a row of its questions.

    Raises:
        ValueError: the problem is of no shipped task, and no task is given; or a row is none of `gce.task`.
    """
    if isinstance(problem, Mapping):
        if task is None or task.instance_type is not Question:
            raise ValueError("a row is judged by its task, made with gce.task: judge(row, text, task)")
        question = question_of(problem, "the row")
        name = ProblemId(task.name, "", "test", tier_of(question), 0, 0)
        problem = Problem(name, question, question.prompt, question.digest)
    found = task or TASKS.get(problem.task)
    if found is None or (task is None and not isinstance(problem.instance, found.instance_type)):
        raise ValueError(f"{problem.task!r} is no shipped task: give the problem's task, judge(problem, text, task)")
    return found.judge(problem, Completion("answer", text, "stop", policy=""))[0]
