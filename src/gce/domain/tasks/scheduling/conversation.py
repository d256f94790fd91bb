"""What is said to a model beyond the problem itself: a second try after feedback, and the three calls of simulation.

Simulation (three calls, only the last is judged) lists the constraints, drafts a schedule against them, and answers.
"""

from __future__ import annotations

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.wording import needs

__all__ = ["ANSWER_CALL", "DRAFT_CALL", "LIST_CALL", "constraint_list", "try_again"]

LIST_CALL = "Do not plan yet. List the constraints, one a line."
DRAFT_CALL = "Now draft a schedule and check each job against the list."
ANSWER_CALL = "Now give the answer line only."


def try_again(feedback: str) -> str:
    """The user's turn after a wrong answer."""
    return f"{feedback}\nTry again."


def constraint_list(instance: Instance) -> str:
    """The constraints of `instance` restated, one job a line."""
    lines = []
    for job in instance.jobs:
        parts = [f"Job {job.label} takes {job.duration}"]
        if instance.resources:
            parts.append(f"needs {needs(job)}")
        if before := instance.predecessors(job.label):
            parts.append("after " + " ".join(before))
        if job.deadline is not None:
            parts.append(f"by {job.deadline}")
        lines.append(" ".join(parts))
    if instance.resources:
        lines.append("Free " + " ".join(str(resource.capacity) for resource in instance.resources))
    if instance.horizon is not None:
        lines.append(f"All by {instance.horizon}")
    return "\n".join(lines)
