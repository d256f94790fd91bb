"""Messages to a model beyond the prompt: the retry after feedback, and the three calls of the simulate strategy.

The simulate strategy lists the constraints, drafts a schedule and checks it, and answers. Only the last reply is
judged.
"""

from __future__ import annotations

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.wording import needs

__all__ = ["ANSWER_CALL", "DRAFT_CALL", "LIST_CALL", "constraint_list", "try_again"]

LIST_CALL = "Do not plan yet. List the constraints, one a line."
DRAFT_CALL = "Now draft a schedule and check each job against the list."
ANSWER_CALL = "Now give the answer line only."


def try_again(feedback: str) -> str:
    """Return the user's turn after a wrong answer."""
    return f"{feedback}\nTry again."


def constraint_list(instance: Instance) -> str:
    """Restate the constraints of `instance`, one job per line."""
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
