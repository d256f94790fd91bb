"""List scheduling in plan order: each job starts at the first feasible hour that is not before the last start.

The written reasoning spells out this method, which a person could follow with a list and a wall calendar. It satisfies
precedence and resources; whether it meets deadlines depends on the order. With resources, starts never decrease along
the order; without resources, each job starts as soon as its predecessors have ended. `one_at_a_time` does not track
free units.
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
    """How the start of one job was found: one line of `reasoning`."""

    label: str
    duration: int
    demands: tuple[int, ...] | None
    """None if there are no resources or they were ignored."""
    after: tuple[tuple[str, int], ...]
    """Predecessors with their ends."""
    earliest: int
    """First hour considered: the predecessors have ended, and the last job that respects resources has started."""
    outs: tuple[Release, ...]
    """Jobs that end by `earliest`, with their ends and the units free afterwards."""
    waits: tuple[Release, ...]
    """Jobs that end later and that this one waits for, likewise."""
    start: int
    end: int
    free: tuple[int, ...] | None
    """Units free while this job runs beside the jobs before it."""
    running: tuple[tuple[str, int], ...]
    """Jobs that hold units then, this one too, with the hours at which they release them, the earliest first."""


@frozen
class Visit:
    """One visit of a job while going through an order: the job is planned, or a predecessor must be planned first."""

    label: str
    asked_by: str | None = None
    """The job for which this one is visited out of turn."""
    before: str | None = None
    """The first unplanned predecessor; it is visited next."""
    again: bool = False
    """True if an earlier visit planned the job."""
    later: bool = False
    """True if the job is postponed until the order has been gone through."""

    @property
    def plans(self) -> bool:
        """True if this visit plans the job: it is not planned yet, not postponed, and waits for no predecessor."""
        return self.before is None and not self.again and not self.later


def visits(
    instance: Instance,
    order: Sequence[str],
    *,
    planned: Collection[str] = (),
    minds_sequence: Callable[[str], bool] = lambda _: True,
    later: Callable[[str], bool] = lambda _: False,
) -> list[Visit]:
    """Return the visits that plan the jobs of `order`, pulling predecessors forward.

    A job whose predecessor is pulled forward is visited again right after it. One visit of each job plans it. Jobs in
    `planned` are not planned again, and `later` jobs are planned only if they are pulled forward.
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
    """Return jobs with a deadline first, the earliest first; ties and jobs without a deadline keep their order."""

    def urgency(label: str) -> tuple[bool, int]:
        deadline = instance.job(label).deadline
        return deadline is None, deadline or 0

    return sorted(order, key=urgency)


def predecessors_first(instance: Instance, order: Sequence[str]) -> list[str]:
    """Return `order` with every job moved after its predecessors: what `visits` plans, computed faster."""
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
    """Return one line for each job, taken in `order`; a predecessor that comes later in the order is ignored.

    To simulate a careless scheduler, a job ignores its predecessors if `minds_sequence(label)` is false. If
    `minds_resources(label)` is false, it neither waits for resources nor holds any.
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
            lines.append(Line(label, job.duration, None, after, ready, (), (), ready, ends[label], None, ()))
            continue
        earliest = max(frontier.now, ready)
        releases = frontier.start(job, ready)
        outs = tuple(release for release in releases if release[1] <= earliest)
        waits = tuple(release for release in releases if release[1] > earliest)
        start, ends[label] = frontier.now, frontier.now + job.duration
        found = (after, earliest, outs, waits, start, ends[label], frontier.free, frontier.running)
        lines.append(Line(label, job.duration, job.demands, *found))
    return lines


def dispatch(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Return the start of every job, with all constraints respected: precedence if `order` does, and resources always.

    The same starts as `dispatch_lines`, several times faster: drawing problems spends most of its time here.
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
    """Return the start of every job if each starts when the previous one ends; keeps precedence if `order` does."""
    ends = accumulate(instance.job(label).duration for label in order)
    return dict(zip(order, (0, *ends), strict=False))
