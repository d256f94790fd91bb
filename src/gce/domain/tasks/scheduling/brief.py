"""Brief reasoning: one line a job with one sum, for models that are too weak to write out every look-up.

    reasoning = { line newline }
    line      = "Job " LABEL [ " due " NUMBER ] [ after ] ": " NUMBER "+" NUMBER "=" NUMBER
    after     = " after " LABEL " " NUMBER { ", " LABEL " " NUMBER }

NUMBER is ASCII digits, six at most, and LABEL has at most 20 letters and digits: the deadline; the hours at which jobs
that LABEL comes after have ended; start, duration and end. Where nothing is shared, jobs come in the order of the
prompt, but behind those they come after, and start as early as they may. Where they share resources, they come by
deadline, one after another, which often is good enough and hardly needs thought; if it is not, list scheduling says
when they start. A verdict never depends on any of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate

from attrs import Factory, define

from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.dispatch import by_deadline, dispatch, predecessors_first
from gce.domain.tasks.scheduling.heuristics import fits
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED
from gce.domain.tasks.scheduling.verify import verify
from gce.domain.types import Step

__all__ = ["brief_response", "check_brief_steps", "one_after_another"]

_NUMBER = "[0-9]{1,6}"
_LABEL = "[A-Za-z0-9]{1,20}"
_LINE = re.compile(
    f"Job ({_LABEL})(?: due ({_NUMBER}))?(?: after ({_LABEL} {_NUMBER}(?:, {_LABEL} {_NUMBER})*))?"
    rf": ({_NUMBER})\+({_NUMBER})=({_NUMBER})"
)


def one_after_another(instance: Instance) -> dict[str, int]:
    """Starts of the jobs by deadline, predecessors pulled forward, where no two run at a time."""
    order = predecessors_first(instance, by_deadline(instance, instance.labels))
    ends = accumulate(instance.job(label).duration for label in order)
    return dict(zip(order, (0, *ends), strict=False))


def brief_response(instance: Instance, starts: Mapping[str, int] | None = None) -> str:
    """Reasoning and answer, both in the order in which the jobs are taken; of `starts` where they are given."""
    if starts is not None:
        order = sorted(instance.labels, key=starts.__getitem__)
        starts = {label: starts[label] for label in predecessors_first(instance, order)}
    elif instance.resources:
        starts = one_after_another(instance)
        if not verify(instance, render(starts)).right:
            starts = dispatch(instance, list(starts))
    else:
        starts = dispatch(instance, predecessors_first(instance, instance.labels))
    return "\n".join([*(_line(instance, label, starts) for label in starts), render(starts)])


def _line(instance: Instance, label: str, starts: Mapping[str, int]) -> str:
    job, start = instance.job(label), starts[label]
    due = f" due {job.deadline}" if instance.resources and job.deadline is not None else ""
    ends = [f"{other} {starts[other] + instance.job(other).duration}" for other in instance.predecessors(label)]
    after = f" after {', '.join(ends)}" if ends and not instance.resources else ""
    return f"Job {label}{due}{after}: {start}+{job.duration}={start + job.duration}"


@define
class _Planned:
    """What the lines so far say."""

    starts: dict[str, int] = Factory(dict)
    ends: dict[str, int] = Factory(dict)


def check_brief_steps(instance: Instance, text: str) -> tuple[Step, ...]:
    """Judge each line but the answer's: true, false with a reason, or unreadable.

    A line is true if all that it says holds of the instance and of the lines before it, and its job starts when the
    jobs it comes after, all on lines before, have ended and what it needs is free. The hours that earlier lines wrote
    are taken as written, so that one slip counts once. Never raises; linear in the text.
    """
    planned = _Planned()
    steps = []
    for line in text[:LONGEST_CHECKED].split("\n"):
        if not line.strip() or line.split()[0] == "Answer:":
            continue
        said = _LINE.fullmatch(line.strip())
        if said is None:
            steps.append(Step(line, "unreadable", "no form of the brief step grammar"))
        else:
            reason = _wrong(instance, planned, said.groups())
            steps.append(Step(line, "false" if reason else "true", reason))
    if len(text) > LONGEST_CHECKED:
        steps.append(Step("", "unreadable", f"text after {LONGEST_CHECKED} characters is not checked"))
    return tuple(steps)


def _wrong(instance: Instance, planned: _Planned, said: Sequence[str | None]) -> str:
    """The first thing wrong with a line, or nothing; the first line of a job is what counts for later ones."""
    label, due, after, *hours = said
    start, duration, end = (int(hour or 0) for hour in hours)
    if label is None or label not in instance.labels:
        return f"there is no job {label!r}"
    if label in planned.ends:
        return f"job {label} was planned before"
    job, starts, ends = instance.job(label), dict(planned.starts), dict(planned.ends)
    planned.starts[label], planned.ends[label] = start, end
    if duration != job.duration:
        return f"job {label} does not take {duration}"
    if start + duration != end:
        return f"{start} and {duration} do not make {end}"
    if due is not None and int(due) != job.deadline:
        return f"{due} is not the deadline of {label}"
    for item in after.split(", ") if after is not None else ():
        other, hour = item.split(" ")
        if other not in instance.predecessors(label):
            return f"job {label} does not come after {other!r}"
        if ends.get(other) != int(hour):
            return f"no line says that {other} ends at {hour}"
    for other in instance.predecessors(label):
        if ends.get(other, start + 1) > start:
            return f"job {label} starts before {other} has ended"
    return "" if fits(instance, job, start, starts) else f"what {label} needs is not free at {start}"
