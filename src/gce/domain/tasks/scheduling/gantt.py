"""A Gantt chart of a model's schedule, with its violations."""

from __future__ import annotations

from gce.domain.tasks.scheduling.answer import Answer, diagnose, parse
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.verify import verify
from gce.domain.timelines import Bar, Chart

__all__ = ["schedule_chart"]


def schedule_chart(instance: Instance, text: str) -> Chart | None:
    """Chart the jobs to which the answer gives a start, in order of start; None if no job can be identified.

    If the strict grammar rejects the answer, the chart shows its likely meaning and the grammar violation.
    """
    answer = parse(text)
    written = dict(answer.entries) if isinstance(answer, Answer) else diagnose(text, instance.labels)
    starts = {label: start for label, start in (written or {}).items() if label in instance.labels}
    if not starts:
        return None
    violations = verify(instance, text).violations
    named = {label for violation in violations for label in violation.about}
    bars = (
        Bar(job.label, starts[job.label], starts[job.label] + job.duration, job.deadline, job.label in named)
        for job in instance.jobs
        if job.label in starts
    )
    faults = tuple(violation.message for violation in violations)
    return Chart(tuple(sorted(bars, key=lambda bar: bar.start)), instance.horizon, faults)
