"""List scheduling in plan order: each job starts at the first hour, not before the last start, at which it may.

This is what a person does with a list and a wall calendar, and what the written reasoning spells out. It keeps
precedence and resources; whether deadlines hold depends on the order. Starts never decrease along the order where
there are resources; without resources each job starts as soon as its predecessors have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add, gt, sub

from attrs import frozen

from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["Line", "dispatch", "dispatch_lines", "due_hours", "predecessors_first"]


@frozen
class Line:
    """How one job found its start: what `reasoning` writes as one line."""

    label: str
    duration: int
    demands: tuple[int, ...] | None
    """None where resources play no part or were overlooked."""
    after: tuple[tuple[str, int], ...]
    """Predecessors with the hours at which they end."""
    outs: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Jobs waited for, with their ends and the units free once they are out."""
    start: int
    end: int
    free: tuple[int, ...] | None
    """Units free while this job runs beside those before it."""


def due_hours(instance: Instance) -> dict[str, int | None]:
    """Each job's own deadline or the earliest one among the jobs that come after it, directly or not."""
    due: dict[str, int | None] = {}
    for label in reversed(instance.topological_order):
        hours = [due[after] for after in instance.successors(label)] + [instance.job(label).deadline]
        due[label] = min((hour for hour in hours if hour is not None), default=None)
    return due


def predecessors_first(instance: Instance, order: Sequence[str]) -> list[str]:
    """`order` with every job moved behind its predecessors, which are pulled forward when needed."""
    listed: dict[str, None] = {}
    for label in order:
        wanted = [label]
        while wanted:
            for before in instance.predecessors(wanted[-1]):
                if before not in listed:
                    wanted.append(before)
                    break
            else:
                listed[wanted.pop()] = None
    return list(listed)


def dispatch_lines(
    instance: Instance,
    order: Sequence[str],
    *,
    minds_sequence: Callable[[str], bool] = lambda _: True,
    minds_resources: Callable[[str], bool] = lambda _: True,
) -> list[Line]:
    """One line for each job, taken in `order`; a predecessor that stands later in the order is ignored.

    A careless scheduler overlooks constraints: where `minds_sequence(label)` is false the job ignores its
    predecessors, where `minds_resources(label)` is false it neither waits for resources nor holds any.
    """
    lines: list[Line] = []
    ends: dict[str, int] = {}
    running: list[str] = []
    free = tuple(resource.capacity for resource in instance.resources)
    now = 0
    for label in order:
        job = instance.job(label)
        before = instance.predecessors(label) if minds_sequence(label) else ()
        after = tuple((other, ends[other]) for other in before if other in ends)
        ready = max((end for _, end in after), default=0)
        if not instance.resources or not minds_resources(label):
            ends[label] = ready + job.duration
            lines.append(Line(label, job.duration, None, after, (), ready, ends[label], None))
            continue
        outs: list[tuple[str, int, tuple[int, ...]]] = []
        while running:
            fits = not any(map(gt, job.demands, free))
            if fits and now >= ready:
                break
            first = min(running, key=ends.__getitem__)
            if fits and ends[first] > ready:
                break
            running.remove(first)
            now = ends[first]
            free = tuple(map(add, free, instance.job(first).demands))
            outs.append((first, ends[first], free))
        now = max(now, ready)
        running.append(label)
        free = tuple(map(sub, free, job.demands))
        ends[label] = now + job.duration
        lines.append(Line(label, job.duration, job.demands, after, tuple(outs), now, ends[label], free))
    return lines


def dispatch(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Start of every job, taken with care in `order`: keeps precedence where `order` does, and resources always."""
    return {line.label: line.start for line in dispatch_lines(instance, order)}
