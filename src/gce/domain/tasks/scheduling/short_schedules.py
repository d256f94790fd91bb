"""Short schedules of large instances by priority rules and forward-backward improvement, in plain Python.

An upper bound on the least makespan that is the same on every machine: it reads no clock and draws nothing. Deadlines
and the horizon are ignored. Independent of prompts and answers.

The schedule that a priority rule gives is improved by double justification (Valls, Ballestin and Quintanilla, 2005):
jobs are scheduled backward from the end, the last first, then forward again, until the schedule gets no shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from gce.domain.tasks.scheduling.heuristics import latest_finish_order, latest_finish_times, serial_schedule
from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["short_schedule"]

ROUNDS = 10
"""Maximum number of improvements of a schedule."""


def short_schedule(instance: Instance) -> dict[str, int]:
    """Return the shortest of the schedules that start from the priority rules; ties go to the first rule.

    Raises:
        ValueError: a job releases some of its units before it ends, so that time cannot run backward.
    """
    for job in instance.jobs:
        if job.holds != ((job.duration, job.demands),):
            raise ValueError(f"job {job.label} releases units before it ends: expected all to be held until then")
    free = evolve(instance, horizon=None, jobs=[evolve(job, deadline=None) for job in instance.jobs])
    backward = evolve(free, precedence=[(after, before) for before, after in free.precedence])
    return min((_improved(free, backward, order) for order in _orders(free)), key=free.makespan)


def _orders(instance: Instance) -> list[list[str]]:
    """Return labels by latest finish time, latest start time, and number of all successors."""
    latest = latest_finish_times(instance)
    after: dict[str, set[str]] = {}
    for label in reversed(instance.topological_order):
        after[label] = set(instance.successors(label)).union(*(after[each] for each in instance.successors(label)))
    return [
        latest_finish_order(instance),
        sorted(instance.labels, key=lambda label: latest[label] - instance.job(label).duration),
        sorted(instance.labels, key=lambda label: -len(after[label])),
    ]


def _improved(forward: Instance, backward: Instance, order: Sequence[str]) -> dict[str, int]:
    """Return the schedule that taking the jobs in `order` gives, improved; `backward` has the precedence reversed."""
    best = serial_schedule(forward, order)
    for _ in range(ROUNDS):
        mirrored = serial_schedule(backward, _last_first(backward, best))
        found = serial_schedule(forward, _last_first(forward, mirrored))
        if forward.makespan(found) >= forward.makespan(best):
            break
        best = found
    return best


def _last_first(instance: Instance, starts: dict[str, int]) -> list[str]:
    """Return labels by their ends in this schedule, the latest first."""
    return sorted(instance.labels, key=lambda label: -(starts[label] + instance.job(label).duration))
