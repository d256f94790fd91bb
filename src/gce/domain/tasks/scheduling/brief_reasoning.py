"""Brief reasoning: one line per job, for models too weak to write out every look-up.

    reasoning = [due newline hours newline] { (waits | visit) newline }     ; without the two if there are no deadlines
    due       = "Due:" " " LABEL " " group { " " LABEL " " group }          ; examples: in the order of the prompt
    hours     = "Hours:" " " hour { " " hour }                              ; counted
    hour      = HOUR | group
    group     = HOUR ":" LABEL { "," LABEL }
    waits     = "Job " LABEL " after " LABEL open { ", " LABEL open }       ; one "?" at least; one a job
    open      = " " NUMBER | " ?"
    visit     = "Job " LABEL [ after ] ": " NUMBER "+" NUMBER "=" NUMBER
    after     = " after " LABEL " " NUMBER { ", " LABEL " " NUMBER }

HOUR and NUMBER are at most six ASCII digits; LABEL is at most 20 letters and digits.

- `due` lists each job with its deadline and, after that hour, all jobs listed so far with the same deadline. It is
  copied from the prompt, and finding an hour in it finds that hour's jobs.
- `hours` counts all hours from 1 to the horizon, or to the last deadline if there is no horizon, and so sorts the jobs
  by deadline. Hours at which nothing is due may be left out; demonstrations leave them out above 200.
- `waits` says that a job waits because a predecessor has no end yet, written "?".
- `visit` gives the ends of the predecessors, then start, duration and end.

Jobs are taken by deadline, or otherwise in the order of the prompt, but always after their predecessors: a job whose
turn comes too early waits for them and is taken next.

Without shared resources, jobs start as early as precedence allows. With shared resources they run one after another,
which needs no search and in `paper` often is good enough. Where it is not good enough (in `grounded`, with more than
one resource), this is no right answer and no demonstration: other starts require checks of free units, which these
lines cannot express. A verdict never depends on the reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import Factory, define

from gce.domain.tasks.scheduling.answer import render
from gce.domain.tasks.scheduling.dispatch import by_deadline, dispatch, one_at_a_time, predecessors_first, visits
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.reasoning import LONGEST_CHECKED
from gce.domain.tasks.scheduling.resource_profile import fits
from gce.domain.verdicts import Step

__all__ = ["brief_response", "check_brief_steps"]

_UNREADABLE = "no form of the brief step grammar"
_NUMBER = "[0-9]{1,6}"
_LABEL = "[A-Za-z0-9]{1,20}"
_COUNTED = 200
"""Up to this hour every hour is counted; beyond it, only the hours at which something is due."""
_JOBS = f":{_LABEL}(?:,{_LABEL})*"
_LISTS = {
    "Due:": re.compile(f"Due:(?: {_LABEL} {_NUMBER}{_JOBS})+"),
    "Hours:": re.compile(f"Hours:(?: {_NUMBER}(?:{_JOBS})?)+"),
}
_OPEN = rf"{_LABEL} (?:{_NUMBER}|\?)"
_WAITS = re.compile(f"Job ({_LABEL}) after ({_OPEN}(?:, {_OPEN})*)")
_VISIT = re.compile(
    f"Job ({_LABEL})(?: after ({_LABEL} {_NUMBER}(?:, {_LABEL} {_NUMBER})*))?"
    rf": ({_NUMBER})\+({_NUMBER})=({_NUMBER})"
)


def brief_response(instance: Instance, starts: Mapping[str, int] | None = None) -> str:
    """Return reasoning and answer in the order in which jobs are taken, or by start if `starts` is given."""
    if starts is None:
        turns = by_deadline(instance, instance.labels)
    else:
        turns = sorted(instance.labels, key=starts.__getitem__)
    order = predecessors_first(instance, turns)
    if starts is None:
        starts = (one_at_a_time if instance.resources else dispatch)(instance, order)
    lines = list(_lines(instance, turns, starts))
    if any(job.deadline is not None for job in instance.jobs):
        lines = [*_deadline_lines(instance), *lines]
    return "\n".join([*lines, render({label: starts[label] for label in order})])


def _deadline_lines(instance: Instance) -> tuple[str, str]:
    due: dict[int, list[str]] = {}
    listed = []
    for job in instance.jobs:
        if job.deadline is not None:
            due.setdefault(job.deadline, []).append(job.label)
            listed.append(f"{job.label} {job.deadline}:{','.join(due[job.deadline])}")
    last = max(due) if instance.horizon is None else instance.horizon
    hours = range(1, last + 1) if last <= _COUNTED else ()
    counted = (f"{hour}:{','.join(due[hour])}" if hour in due else f"{hour}" for hour in sorted({*hours, *due}))
    return f"Due: {' '.join(listed)}", f"Hours: {' '.join(counted)}"


def _lines(instance: Instance, turns: Sequence[str], starts: Mapping[str, int]) -> Iterator[str]:
    """Yield the jobs that wait, and each job once its predecessors are done."""
    ends: dict[str, int] = {}
    told: set[str] = set()
    for visit in visits(instance, turns):
        label = visit.label
        if visit.plans:
            start, duration = starts[label], instance.job(label).duration
            yield f"{_name(instance, label, ends)}: {start}+{duration}={start + duration}"
            ends[label] = start + duration
        elif visit.before is not None and label not in told:
            told.add(label)
            yield _name(instance, label, ends)


def _name(instance: Instance, label: str, ends: Mapping[str, int]) -> str:
    """Return the job with its predecessors and their known ends."""
    before = [f"{other} {ends.get(other, '?')}" for other in instance.predecessors(label)]
    return f"Job {label} after {', '.join(before)}" if before else f"Job {label}"


@define
class _Planned:
    """The schedule that the lines so far state."""

    starts: dict[str, int] = Factory(dict)
    ends: dict[str, int] = Factory(dict)
    waiting: set[str] = Factory(set)
    listed: set[str] = Factory(set)


def check_brief_steps(instance: Instance, text: str) -> tuple[Step, ...]:
    """Judge each line except the answer: true, false with a reason, or unreadable.

    A line is true if everything it states holds for the instance and the lines before it, and its job starts when its
    predecessors, all planned on earlier lines, have ended and its resources are free. Ends on earlier lines are taken
    as written, so one mistake counts once. Never raises; takes time linear in the text.
    """
    planned = _Planned()
    steps = []
    for line in text[:LONGEST_CHECKED].split("\n"):
        words = line.split()
        if not words or words[0] == "Answer:":
            continue
        judge = _deadlines if words[0] in ("Due:", "Hours:") else _waits if "?" in line else _visited
        reason = judge(instance, planned, line.strip())
        steps.append(Step(line, "true" if not reason else "unreadable" if reason == _UNREADABLE else "false", reason))
    if len(text) > LONGEST_CHECKED:
        steps.append(Step("", "unreadable", f"text after {LONGEST_CHECKED} characters is not checked"))
    return tuple(steps)


def _deadlines(instance: Instance, planned: _Planned, line: str) -> str:
    """Return the first error in a list of deadlines; empty if there is none."""
    kind, *said = line.split(" ")
    if kind not in _LISTS:  # Followed by another blank than a space.
        return _UNREADABLE
    again = kind in planned.listed
    planned.listed.add(kind)
    due = {job.label: job.deadline for job in instance.jobs if job.deadline is not None}
    if not _LISTS[kind].fullmatch(line):
        return _UNREADABLE
    items = (item.partition(":") for item in (said[1::2] if kind == "Due:" else said))
    read = [(int(hour), jobs.split(",") if jobs else []) for hour, _, jobs in items]
    if not due:
        return "no job has a deadline"
    for hour, labels in read:
        for label in labels:
            if hour != due.get(label):
                return f"{hour} is not the deadline of {label}"
    hours = [hour for hour, _ in read]
    if kind == "Due:":
        wrong = _wrong_groups(due, said[::2], [labels for _, labels in read])
    elif sorted(label for _, labels in read for label in labels) != sorted(due):
        wrong = "not each job that has a deadline is listed once"
    else:
        wrong = "the hours are not in order" if any(later <= hour for hour, later in pairwise(hours)) else ""
    if wrong:
        return wrong
    if hours[-1] > max(instance.horizon or 0, *due.values()):
        return f"{hours[-1]} is behind the horizon and all deadlines"
    return "the deadlines are listed already" if again else ""


def _wrong_groups(due: Mapping[str, int], owners: Sequence[str], groups: Sequence[Sequence[str]]) -> str:
    """Return the first error in the `due` list, in which each job stands with the jobs so far that are due with it."""
    if sorted(owners) != sorted(due):
        return "not each job that has a deadline is listed once"
    for place, (owner, group) in enumerate(zip(owners, groups, strict=True)):
        if list(group) != [other for other in owners[: place + 1] if due[other] == due[owner]]:
            return f"the jobs behind {owner} are not those so far that are due with it"
    return ""


def _waits(instance: Instance, planned: _Planned, line: str) -> str:
    """Return the first error in a `waits` line; empty if there is none."""
    said = _WAITS.fullmatch(line)
    if said is None:
        return _UNREADABLE
    label = said[1]
    if label not in instance.labels:
        return f"there is no job {label!r}"
    if label in planned.ends:
        return f"job {label} was planned before"
    if label in planned.waiting:
        return f"job {label} waits already"
    wrong = _wrong_after(instance, planned, label, said[2])
    if not wrong:
        planned.waiting.add(label)
    return wrong


def _wrong_after(instance: Instance, planned: _Planned, label: str, after: str) -> str:
    """Return the first error in the stated predecessors and their ends; empty if there is none."""
    before = [item.split(" ") for item in after.split(", ")]
    if len({other for other, _ in before}) < len(before):
        return "a job is named twice"
    for other, end in before:
        if other not in instance.predecessors(label):
            return f"job {label} does not come after {other!r}"
        if end == "?" and other in planned.ends:
            return f"job {label} need not wait for {other}"
        if end != "?" and planned.ends.get(other) != int(end):
            return f"no line says that {other} ends at {end}"
    return ""


def _visited(instance: Instance, planned: _Planned, line: str) -> str:
    """Return the first error in a `visit` line; later lines rely on a job's first visit."""
    said = _VISIT.fullmatch(line)
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
    """Return the first error in a job's first visit, given the jobs planned before it; empty if there is none."""
    job, ends = instance.job(label), planned.ends
    if duration != job.duration:
        return f"job {label} does not take {duration}"
    if start + duration != end:
        return f"{start} and {duration} do not make {end}"
    if after and (wrong := _wrong_after(instance, planned, label, after)):
        return wrong
    for other in instance.predecessors(label):
        if ends.get(other, start + 1) > start:
            return f"job {label} starts before {other} has ended"
    return "" if fits(instance, job, start, planned.starts) else f"what {label} needs is not free at {start}"
