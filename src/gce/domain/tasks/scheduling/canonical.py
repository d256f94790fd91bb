"""A canonical digest of an instance, independent of labels, job order, resource names and resource order."""

from __future__ import annotations

import itertools
from hashlib import blake2b

from gce.domain.tasks.scheduling.instance import Instance

__all__ = ["canonical_digest"]

MOST_PERMUTED = 4
"""Above this number, resources keep their order: 4 have 24 permutations, 10 would have millions."""
LARGE = 26
"""Above this number of jobs, refinement stops after `ROUNDS`, and resources are ordered by their own numbers."""
ROUNDS = 8
"""Rounds for a large instance: in 8 rounds 120 jobs with random durations and demands are told apart."""


def _name(*parts: object) -> str:
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def canonical_digest(instance: Instance) -> str:
    """Return 32 hexadecimal digits, equal for instances that differ only in names and orders.

    Colour refinement (Weisfeiler and Leman, 1968): each job is coloured by its numbers, then repeatedly by its colour
    and those of its neighbours, once per job. In theory different problems may share a digest; the only harm is that a
    split leaves one of them out.
    """
    resources = range(len(instance.resources))
    if len(instance.jobs) > LARGE:
        orders = [tuple(sorted(resources, key=lambda index: _numbers_of_resource(instance, index)))]
    elif len(resources) <= MOST_PERMUTED:
        orders = list(itertools.permutations(resources))
    else:
        orders = [tuple(resources)]
    return min(_digest(instance, order) for order in orders)


def _numbers_of_resource(instance: Instance, index: int) -> tuple[int, list[tuple[int, int]]]:
    """Return what a resource is, whatever its name and place: equal only for two that jobs demand alike."""
    return instance.resources[index].capacity, sorted((job.demands[index], job.duration) for job in instance.jobs)


def _digest(instance: Instance, order: tuple[int, ...]) -> str:
    names = {job.label: _name(*job.numbers(order)) for job in instance.jobs}
    around = [(label, instance.predecessors(label), instance.successors(label)) for label in instance.labels]
    rounds = len(instance.jobs) if len(instance.jobs) <= LARGE else ROUNDS
    for _ in range(rounds if instance.precedence else 0):
        names = {
            label: _name(
                names[label], sorted([names[other] for other in before]), sorted([names[other] for other in after])
            )
            for label, before, after in around
        }
    capacities = [instance.resources[index].capacity for index in order]
    return _name(sorted(names.values()), capacities, instance.horizon)
