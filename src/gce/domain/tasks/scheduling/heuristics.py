"""Priority-rule schedules: what a dispatcher achieves without search.

All schedules except `earliest_starts` respect precedence and resources. Deadlines and the horizon affect only the order
in which jobs are taken. Schedule-generation schemes as in Kolisch and Hartmann (1999).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import Profile, fits

__all__ = [
    "HEURISTICS",
    "critical_path_length",
    "earliest_deadline_order",
    "earliest_starts",
    "latest_finish_order",
    "latest_finish_times",
    "parallel_schedule",
    "random_order",
    "serial_schedule",
]


def earliest_starts(instance: Instance) -> dict[str, int]:
    """Return the earliest start of each job under precedence alone."""
    starts: dict[str, int] = {}
    for label in instance.topological_order:
        starts[label] = _earliest_start(instance, label, starts)
    return {label: starts[label] for label in instance.labels}


def critical_path_length(instance: Instance) -> int:
    """Return the minimum makespan under precedence alone."""
    return instance.makespan(earliest_starts(instance))


def latest_finish_times(instance: Instance) -> dict[str, int]:
    """Return the latest end of each job that leaves time for its successors, deadlines and horizon, ignoring resources.

    Without a horizon, the length of the critical path is used. With deadlines that are too tight, the result may be
    negative or earlier than the job can end.
    """
    last = critical_path_length(instance) if instance.horizon is None else instance.horizon
    latest: dict[str, int] = {}
    for label in reversed(instance.topological_order):
        deadline = instance.job(label).deadline
        bounds = [latest[after] - instance.job(after).duration for after in instance.successors(label)]
        latest[label] = min([last, *bounds] if deadline is None else [last, deadline, *bounds])
    return {label: latest[label] for label in instance.labels}


def serial_schedule(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Serial schedule-generation scheme: repeatedly place the first eligible job of `order` as early as it fits.

    `order` may be any permutation of the labels.
    """
    _check_order(instance, order)
    starts: dict[str, int] = {}
    profile = Profile(instance)
    waiting = list(order)
    while waiting:
        label = next(label for label in waiting if all(before in starts for before in instance.predecessors(label)))
        waiting.remove(label)
        starts[label] = profile.first_fit(instance.job(label), _earliest_start(instance, label, starts))
        profile.place(instance.job(label), starts[label])
    return {label: starts[label] for label in instance.labels}


def parallel_schedule(instance: Instance, order: Sequence[str]) -> dict[str, int]:
    """Parallel schedule-generation scheme: at each job's end, start all jobs that can start, in the order of `order`.

    `order` may be any permutation of the labels.
    """
    _check_order(instance, order)
    starts: dict[str, int] = {}
    ends: dict[str, int] = {}
    waiting = list(order)
    now = 0
    while waiting:
        label = next((label for label in waiting if _can_start(instance, label, now, starts, ends)), None)
        if label is None:
            now = min(end for end in ends.values() if end > now)
            continue
        waiting.remove(label)
        starts[label] = now
        ends[label] = now + instance.job(label).duration
    return {label: starts[label] for label in instance.labels}


def earliest_deadline_order(instance: Instance) -> list[str]:
    """Return labels by deadline, those without one last; ties go to the longest path that starts with the job."""
    rest: dict[str, int] = {}
    for label in reversed(instance.topological_order):
        after = max((rest[after] for after in instance.successors(label)), default=0)
        rest[label] = instance.job(label).duration + after

    def urgency(label: str) -> tuple[bool, int, int]:
        deadline = instance.job(label).deadline
        return deadline is None, deadline or 0, -rest[label]

    return sorted(instance.labels, key=urgency)


def latest_finish_order(instance: Instance) -> list[str]:
    """Return labels by latest finish time; ties keep the prompt order."""
    return sorted(instance.labels, key=latest_finish_times(instance).__getitem__)


def random_order(instance: Instance, rng: random.Random) -> list[str]:
    """Return labels in a uniformly random order."""
    return rng.sample(instance.labels, len(instance.labels))


HEURISTICS: dict[str, Callable[[Instance, random.Random], dict[str, int]]] = {
    "earliest-start": lambda instance, rng: earliest_starts(instance),
    "earliest-deadline": lambda instance, rng: serial_schedule(instance, earliest_deadline_order(instance)),
    "latest-finish-time": lambda instance, rng: serial_schedule(instance, latest_finish_order(instance)),
    "random-priority": lambda instance, rng: serial_schedule(instance, random_order(instance, rng)),
}
"""Priority rules by name; each returns starts. `earliest-start` ignores resources; the others build serial schedules.
"""


def _check_order(instance: Instance, order: Sequence[str]) -> None:
    if sorted(order) != sorted(instance.labels):
        raise ValueError(f"expected an order of all labels {', '.join(instance.labels)}, got {', '.join(order)}")


def _earliest_start(instance: Instance, label: str, starts: dict[str, int]) -> int:
    return max((starts[before] + instance.job(before).duration for before in instance.predecessors(label)), default=0)


def _can_start(instance: Instance, label: str, now: int, starts: dict[str, int], ends: dict[str, int]) -> bool:
    if any(ends.get(before, now + 1) > now for before in instance.predecessors(label)):
        return False
    return fits(instance, instance.job(label), now, starts)
