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

__all__ = ["Line", "Visit", "by_deadline", "dispatch", "dispatch_lines", "predecessors_first", "visits"]


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


@frozen
class Visit:
    """A look at one job on the way through an order: its turn has come, or another must be planned before."""

    label: str
    before: str | None = None
    """The first predecessor not planned yet; it is visited next."""
    again: bool = False
    """Was planned on an earlier job's behalf."""

    @property
    def plans(self) -> bool:
        """Whether the job is planned now: it was not before, and waits for no other."""
        return self.before is None and not self.again


def visits(
    instance: Instance, order: Sequence[str], *, minds_sequence: Callable[[str], bool] = lambda _: True
) -> list[Visit]:
    """How someone goes through `order` who plans every job behind its predecessors, pulling those forward.

    A job whose predecessor is pulled forward is visited again right after it. One visit of each job plans it.
    """
    planned: set[str] = set()
    found = []
    for label in order:
        if label in planned:
            found.append(Visit(label, again=True))
            continue
        wanted = [label]
        while wanted:
            now = wanted[-1]
            predecessors = instance.predecessors(now) if minds_sequence(now) else ()
            before = next((other for other in predecessors if other not in planned), None)
            found.append(Visit(now, before))
            if before is None:
                planned.add(wanted.pop())
            else:
                wanted.append(before)
    return found


def by_deadline(instance: Instance, order: Sequence[str]) -> list[str]:
    """The jobs to visit so that all are planned: earliest deadline first, then others in their place in `order`.

    Left out are jobs without a deadline that must end before one that has one: `visits` pulls them forward.
    """
    due = [label for label in order if instance.job(label).deadline is not None]
    pulled: set[str] = set()
    wanted = list(due)
    while wanted:
        before = [other for other in instance.predecessors(wanted.pop()) if other not in pulled]
        pulled.update(before)
        wanted += before
    rest = [label for label in order if instance.job(label).deadline is None and label not in pulled]
    return sorted(due, key=lambda label: instance.job(label).deadline or 0) + rest


def predecessors_first(instance: Instance, order: Sequence[str]) -> list[str]:
    """`order` with every job moved behind its predecessors, which are pulled forward when needed."""
    return [visit.label for visit in visits(instance, order) if visit.plans]


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
