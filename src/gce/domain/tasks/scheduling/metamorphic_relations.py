"""Metamorphic relations of schedules: how verdicts must change with an instance or answer, whatever is right.

Source: Chen et al. (1998). Each change reads the answer by the grammar and leaves unreadable answers alone. Independent
of solver and verifier: tight constraints of a right schedule are found here.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterable, Iterator, Mapping
from operator import add, gt

from attrs import evolve

from gce.domain.problems import Problem
from gce.domain.tasks.parts import Relation
from gce.domain.tasks.scheduling.answer import MAX_START, Answer, parse
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.resource_profile import usage

__all__ = ["RELATIONS"]

Entries = list[tuple[str, int]]
Changed = tuple[Problem, str] | None

_ALPHABET = string.ascii_letters + string.digits


def _entries(text: str) -> Entries:
    """Return the entries of the answer line; empty if the grammar rejects it."""
    answer = parse(text)
    return list(answer.entries) if isinstance(answer, Answer) else []


def _rewritten(text: str, entries: Iterable[tuple[str, int]]) -> str:
    """Return the response with another answer line and unchanged reasoning."""
    before, newline, _ = text.rstrip(" \t\r\n").rpartition("\n")
    return before + newline + "Answer: " + ", ".join(f"{label} {start}" for label, start in entries)


def _relabel(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Rename every job."""
    entries, instance = _entries(text), problem.instance
    free = sorted(set(_ALPHABET) - set(instance.labels) - {label for label, _ in entries})
    if not entries or len(free) < len(instance.jobs):
        return None
    names = dict(zip(instance.labels, rng.sample(free, len(instance.jobs)), strict=True))
    jobs = [evolve(job, label=names[job.label]) for job in instance.jobs]
    edges = [(names[before], names[after]) for before, after in instance.precedence]
    changed = Instance(jobs, edges, instance.resources, instance.horizon)
    return evolve(problem, instance=changed), _rewritten(text, [(names.get(at, at), start) for at, start in entries])


def _permute(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Permute the jobs, the edges, the resources and the entries of the answer."""
    entries, instance = _entries(text), problem.instance
    if not entries:
        return None
    order = rng.sample(range(len(instance.resources)), len(instance.resources))
    jobs = [job.rearranged(order) for job in instance.jobs]
    changed = Instance(
        rng.sample(jobs, len(jobs)),
        rng.sample(instance.precedence, len(instance.precedence)),
        [instance.resources[index] for index in order],
        instance.horizon,
    )
    return evolve(problem, instance=changed), _rewritten(text, rng.sample(entries, len(entries)))


def _scale(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Multiply every time by the same number."""
    entries, instance = _entries(text), problem.instance
    by = rng.randint(2, 5)
    if not entries or any(start * by > MAX_START for _, start in entries):
        return None
    horizon = None if instance.horizon is None else instance.horizon * by
    changed = evolve(instance, jobs=[job.scaled(by) for job in instance.jobs], horizon=horizon)
    return evolve(problem, instance=changed), _rewritten(text, [(label, start * by) for label, start in entries])


def _add_redundant_edge(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Add an edge that follows from two others."""
    instance = problem.instance
    implied = [
        (before, last)
        for before, middle in instance.precedence
        for last in instance.successors(middle)
        if last not in instance.successors(before)
    ]
    if not implied:
        return None
    return evolve(problem, instance=evolve(instance, precedence=(*instance.precedence, rng.choice(implied)))), text


def _shrink_capacity(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Reduce the capacity of a resource by one unit, if every single job still fits."""
    instance = problem.instance
    shrinkable = [
        index
        for index, resource in enumerate(instance.resources)
        if resource.capacity > max(job.demands[index] for job in instance.jobs)
    ]
    if not shrinkable:
        return None
    chosen = rng.choice(shrinkable)
    resources = [
        evolve(resource, capacity=resource.capacity - (index == chosen))
        for index, resource in enumerate(instance.resources)
    ]
    return evolve(problem, instance=evolve(instance, resources=resources)), text


def _shrink_deadline(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Reduce the deadline of a job, or of the project, by one hour."""
    instance = problem.instance
    choices: list[Instance] = []
    if instance.horizon:
        choices.append(evolve(instance, horizon=instance.horizon - 1))
    for index, job in enumerate(instance.jobs):
        if job.deadline:
            sooner = evolve(job, deadline=job.deadline - 1)
            choices.append(evolve(instance, jobs=(*instance.jobs[:index], sooner, *instance.jobs[index + 1 :])))
    return (evolve(problem, instance=rng.choice(choices)), text) if choices else None


def _cross_a_bound(problem: Problem, text: str, rng: random.Random) -> Changed:
    """Move one start by one hour across a constraint that holds without slack."""
    entries, instance = _entries(text), problem.instance
    starts = dict(entries)
    if len(starts) < len(entries) or sorted(starts) != sorted(instance.labels):
        return None
    moves = [move for move in _tight_moves(instance, starts) if 0 <= starts[move[0]] + move[1] <= MAX_START]
    if not moves:
        return None
    moved, by = rng.choice(moves)
    return problem, _rewritten(text, [(label, start + by * (label == moved)) for label, start in entries])


def _tight_moves(instance: Instance, starts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield (label, hours) of moves that break a schedule which satisfies every constraint."""
    ends = {job.label: starts[job.label] + job.duration for job in instance.jobs}
    for before, after in instance.precedence:
        if starts[after] == ends[before]:
            yield before, 1
            yield after, -1
    for job in instance.jobs:
        if ends[job.label] in (job.deadline, instance.horizon):
            yield job.label, 1
    capacities = [resource.capacity for resource in instance.resources]
    for job in instance.jobs:
        for length, units in job.holds:
            # Moved by one hour, every job of positive duration holds its units in one hour in which it did not.
            start = starts[job.label]
            for hour, by in ((start - 1, -1), (start + length, 1)) if length else ():
                if any(map(gt, map(add, usage(instance, starts, hour), units), capacities)):
                    yield job.label, by


RELATIONS: Mapping[str, Relation] = {
    "relabel the jobs": Relation(_relabel, "the verdict stays"),
    "permute everything": Relation(_permute, "the verdict stays"),
    "scale time": Relation(_scale, "the verdict stays"),
    "add a redundant edge": Relation(_add_redundant_edge, "the verdict stays"),
    "shrink a capacity": Relation(_shrink_capacity, "wrong stays wrong"),
    "shrink a deadline": Relation(_shrink_deadline, "wrong stays wrong"),
    "cross a tight bound": Relation(_cross_a_bound, "right becomes wrong"),
}
"""The relations that the verifier must satisfy, named by what they change."""
