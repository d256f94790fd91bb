"""List scheduling in plan order: each job starts at the first hour, not before the last start, at which it may.

This is what a person does with a list and a wall calendar, and what the written reasoning spells out. It keeps
precedence and resources; whether deadlines hold depends on the order. Starts never decrease along the order where
there are resources; without resources each job starts as soon as its predecessors have ended.

`one_at_a_time` needs no account of what is free.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate

from attrs import frozen

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import Frontier, Release

__all__ = [
    "Line",
    "Visit",
    "by_deadline",
    "dispatch",
    "dispatch_lines",
    "one_at_a_time",
    "predecessors_first",
    "visits",
]


@frozen
class Line:
    """How one job found its start: what `reasoning` writes as one line."""

    label: str
    duration: int
    demands: tuple[int, ...] | None
    """None where resources play no part or were overlooked."""
    after: tuple[tuple[str, int], ...]
    """Predecessors with the hours at which they end."""
    earliest: int
    """The first hour looked at: predecessors have ended, and the last job before that minds resources has started."""
    outs: tuple[Release, ...]
    """Jobs that end before this one starts, with their ends and the units free once they are out."""
    start: int
    end: int
    free: tuple[int, ...] | None
    """Units free while this job runs beside those before it."""


@frozen
class Visit:
    """A look at one job on the way through an order: its turn has come, or another must be planned before."""

    label: str
    asked_by: str | None = None
    """The job on whose behalf this one is visited out of turn."""
    before: str | None = None
    """The first predecessor not planned yet; it is visited next."""
    again: bool = False
    """Was planned by an earlier visit."""
    later: bool = False
    """Is put off until the order has been gone through."""

    @property
    def plans(self) -> bool:
        """Whether the job is planned now: it was not before, is not put off, and waits for no other."""
        return self.before is None and not self.again and not self.later


def visits(
    instance: Instance,
    order: Sequence[str],
    *,
    planned: Collection[str] = (),
    minds_sequence: Callable[[str], bool] = lambda _: True,
    later: Callable[[str], bool] = lambda _: False,
) -> list[Visit]:
    """How someone goes through `order` who plans every job behind its predecessors, pulling those forward.

    A job whose predecessor is pulled forward is visited again right after it. One visit of each job plans it, but jobs
    in `planned` are not planned again, and `later` ones only where they are pulled forward.
    """
    done = set(planned)
    found = []
    for label in order:
        if label in done or later(label):
            found.append(Visit(label, again=label in done, later=label not in done))
            continue
        wanted = [label]
        while wanted:
            now = wanted[-1]
            predecessors = instance.predecessors(now) if minds_sequence(now) else ()
            before = next((other for other in predecessors if other not in done), None)
            found.append(Visit(now, wanted[-2] if len(wanted) > 1 else None, before))
            if before is None:
                done.add(wanted.pop())
            else:
                wanted.append(before)
    return found


def by_deadline(instance: Instance, order: Sequence[str]) -> list[str]:
    """Jobs with a deadline, earliest first, then the others; ties, and jobs without a deadline, keep their order."""

    def urgency(label: str) -> tuple[bool, int]:
        deadline = instance.job(label).deadline
        return deadline is None, deadline or 0

    return sorted(order, key=urgency)


def predecessors_first(instance: Instance, order: Sequence[str]) -> list[str]:
    """`order` with every job moved behind its predecessors: what `visits` plans, found faster."""
    found: dict[str, None] = {}
    for label in order:
        wanted = [label]
        while wanted:
            now = wanted[-1]
            before = next((other for other in instance.predecessors(now) if other not in found), None)
            if before is not None:
                wanted.append(before)
            else:
                found[wanted.pop()] = None
    return list(found)


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
    frontier = Frontier(instance)
    for label in order:
        job = instance.job(label)
        before = instance.predecessors(label) if minds_sequence(label) else ()
        after = tuple((other, ends[other]) for other in before if other in ends)
        ready = max((end for _, end in after), default=0)
        if not instance.resources or not minds_resources(label):
            ends[label] = ready + job.duration
            lines.append(Line(label, job.duration, None, after, ready, (), ready, ends[label], None))
            continue
        earliest = max(frontier.now, ready)
        outs = tuple(frontier.start(job, ready))
        ends[label] = frontier.now + job.duration
        line = Line(label, job.duration, job.demands, after, earliest, outs, frontier.now, ends[label], frontier.free)
        lines.append(line)
    return lines


def dispatch(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Start of every job, taken with care in `order`: keeps precedence where `order` does, and resources always.

    The starts of `dispatch_lines`, several times faster: drawing problems spends most of its time here.
    """
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    frontier = Frontier(instance)
    for label in order:
        job = instance.job(label)
        start = 0
        for before in instance.predecessors(label):
            if ends.get(before, 0) > start:
                start = ends[before]
        if job.demands:
            frontier.start(job, start)
            start = frontier.now
        starts[label] = start
        ends[label] = start + job.duration
    return starts


def one_at_a_time(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Start of every job where each starts when the one before it in `order` has ended; keeps all that `order` does."""
    ends = accumulate(instance.job(label).duration for label in order)
    return dict(zip(order, (0, *ends), strict=False))
