"""Brief reasoning: one line a job with one sum, for models that are too weak to write out every look-up.

    reasoning = [order newline] { visit newline }
    order     = "Order: " DEADLINE " " LABEL { ", " DEADLINE " " LABEL }        ; by deadline, where there are any
    visit     = "Job " LABEL [ after ] ": " NUMBER "+" NUMBER "=" NUMBER
    after     = " after " LABEL " " NUMBER { ", " LABEL " " NUMBER }

NUMBER and DEADLINE are ASCII digits, six at most, and LABEL has at most 20 letters and digits. A visit gives the hours
at which jobs that LABEL comes after have ended; start, duration and end. Jobs are taken by deadline, or else in the
order of the prompt, but behind those they come after. Where nothing is shared they start as early as they may. Where
they share resources they come one after another, which often is good enough and hardly needs thought; if it is not,
list scheduling says when they start. A verdict never depends on any of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import accumulate

from attrs import Factory, define

from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.dispatch import by_deadline, dispatch, predecessors_first
from gce.domain.tasks.scheduling.heuristics import fits
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED, order_text
from gce.domain.tasks.scheduling.verify import verify
from gce.domain.types import Step

__all__ = ["brief_response", "check_brief_steps", "one_after_another"]

_UNREADABLE = "no form of the brief step grammar"
_NUMBER = "[0-9]{1,6}"
_LABEL = "[A-Za-z0-9]{1,20}"
_ORDER = re.compile(f"Order: ({_NUMBER} {_LABEL}(?:, {_NUMBER} {_LABEL})*)")
_VISIT = re.compile(
    f"Job ({_LABEL})(?: after ({_LABEL} {_NUMBER}(?:, {_LABEL} {_NUMBER})*))?"
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
        behind = predecessors_first(instance, sorted(instance.labels, key=starts.__getitem__))
        starts = {label: starts[label] for label in behind}
    else:
        starts = one_after_another(instance)
        if not instance.resources or not verify(instance, render(starts)).right:
            starts = dispatch(instance, list(starts))
    lines = [_visit(instance, label, starts) for label in starts]
    if any(job.deadline is not None for job in instance.jobs):
        lines.insert(0, order_text(instance, by_deadline(instance, instance.labels), deadlines=True))
    return "\n".join([*lines, render(starts)])


def _visit(instance: Instance, label: str, starts: Mapping[str, int]) -> str:
    start, duration = starts[label], instance.job(label).duration
    ends = [f"{other} {starts[other] + instance.job(other).duration}" for other in instance.predecessors(label)]
    after = f" after {', '.join(ends)}" if ends else ""
    return f"Job {label}{after}: {start}+{duration}={start + duration}"


@define
class _Planned:
    """What the lines so far say."""

    starts: dict[str, int] = Factory(dict)
    ends: dict[str, int] = Factory(dict)
    ordered: bool = False


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
        reason = _order(instance, planned, line) if line.startswith("Order: ") else _visited(instance, planned, line)
        steps.append(Step(line, "true" if not reason else "unreadable" if reason == _UNREADABLE else "false", reason))
    if len(text) > LONGEST_CHECKED:
        steps.append(Step("", "unreadable", f"text after {LONGEST_CHECKED} characters is not checked"))
    return tuple(steps)


def _order(instance: Instance, planned: _Planned, line: str) -> str:
    """The first thing wrong with the list of deadlines, or nothing."""
    again, planned.ordered = planned.ordered, True
    due = [job.label for job in instance.jobs if job.deadline is not None]
    said = _ORDER.fullmatch(line.strip())
    if said is None:
        return _UNREADABLE
    listed = [item.split(" ") for item in said[1].split(", ")]
    hours = [int(hour) for hour, _ in listed]
    for hour, label in listed:
        if label not in due or int(hour) != instance.job(label).deadline:
            return f"{hour} is not the deadline of {label}"
    if sorted(label for _, label in listed) != sorted(due):
        return "not each job that has a deadline is listed once"
    if hours != sorted(hours):
        return "the list is not by deadline"
    return "the order is written already" if again else ""


def _visited(instance: Instance, planned: _Planned, line: str) -> str:
    """The first thing wrong with a visit, or nothing; the first one of a job is what counts for later ones."""
    said = _VISIT.fullmatch(line.strip())
    if said is None:
        return _UNREADABLE
    label, after = said[1], said[2]
    start, duration, end = (int(hour) for hour in said.groups()[2:])
    if label not in instance.labels:
        return f"there is no job {label!r}"
    if label in planned.ends:
        return f"job {label} was planned before"
    wrong = _wrong_visit(instance, planned, label, after or "", start, duration, end)
    planned.starts[label], planned.ends[label] = start, end
    return wrong


def _wrong_visit(
    instance: Instance, planned: _Planned, label: str, after: str, start: int, duration: int, end: int
) -> str:
    """The first thing wrong with the first visit of a job, beside those planned before it, or nothing."""
    job, ends = instance.job(label), planned.ends
    if duration != job.duration:
        return f"job {label} does not take {duration}"
    if start + duration != end:
        return f"{start} and {duration} do not make {end}"
    for item in after.split(", ") if after else ():
        other, hour = item.split(" ")
        if other not in instance.predecessors(label):
            return f"job {label} does not come after {other!r}"
        if ends.get(other) != int(hour):
            return f"no line says that {other} ends at {hour}"
    for other in instance.predecessors(label):
        if ends.get(other, start + 1) > start:
            return f"job {label} starts before {other} has ended"
    return "" if fits(instance, job, start, planned.starts) else f"what {label} needs is not free at {start}"
