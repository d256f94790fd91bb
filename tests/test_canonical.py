"""The canonical name: blind to names and orders, and to nothing else."""

from __future__ import annotations

import random

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from processor_time import within

from gce.domain.tasks.scheduling.canonical import MOST_PERMUTED, canonical_digest
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.testing.scheduling.generators import instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 0), 5)),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)


def renamed(instance: Instance, rng: random.Random) -> Instance:
    """The same problem: other labels, jobs, edges and resources in another order, resources under other names."""
    labels = rng.sample([f"J{index}" for index in range(50)], len(instance.jobs))
    name = dict(zip(instance.labels, labels, strict=True))
    order = rng.sample(range(len(instance.resources)), len(instance.resources))
    jobs = [evolve(job, label=name[job.label], demands=[job.demands[r] for r in order]) for job in instance.jobs]
    edges = [(name[before], name[after]) for before, after in instance.precedence]
    resources = [evolve(instance.resources[r], name=f"kind {place}") for place, r in enumerate(order)]
    rng.shuffle(jobs)
    rng.shuffle(edges)
    return Instance(jobs, edges, resources, instance.horizon)


def changed(instance: Instance) -> list[Instance]:
    """All instances that have one number one higher, one deadline or horizon more or less, or one edge less."""
    found = []

    def with_job(index: int, job: Job) -> None:
        found.append(evolve(instance, jobs=(*instance.jobs[:index], job, *instance.jobs[index + 1 :])))

    for index, job in enumerate(instance.jobs):
        with_job(index, evolve(job, duration=job.duration + 1))
        with_job(index, evolve(job, deadline=0 if job.deadline is None else job.deadline + 1))
        if job.deadline is not None:
            with_job(index, evolve(job, deadline=None))
        for r, resource in enumerate(instance.resources):
            if job.demands[r] < resource.capacity:
                with_job(index, evolve(job, demands=[*job.demands[:r], job.demands[r] + 1, *job.demands[r + 1 :]]))
    for r, resource in enumerate(instance.resources):
        more = evolve(resource, capacity=resource.capacity + 1)
        found.append(evolve(instance, resources=(*instance.resources[:r], more, *instance.resources[r + 1 :])))
    for index in range(len(instance.precedence)):
        found.append(evolve(instance, precedence=instance.precedence[:index] + instance.precedence[index + 1 :]))
    found.append(evolve(instance, horizon=0 if instance.horizon is None else instance.horizon + 1))
    return found


@pytest.mark.slow
@given(instance=instances(max_jobs=8), rng=st.randoms(use_true_random=False))
def test_names_and_orders_do_not_change_it(instance: Instance, rng: random.Random) -> None:
    assert canonical_digest(renamed(instance, rng)) == canonical_digest(instance)


@pytest.mark.slow
@given(instance=instances(max_jobs=5))
def test_any_other_number_changes_it(instance: Instance) -> None:
    """Every duration, demand, capacity, deadline, edge and the horizon count."""
    digest = canonical_digest(instance)
    assert all(canonical_digest(other) != digest for other in changed(instance))


def test_every_change_of_the_house_gives_a_name_of_its_own() -> None:
    """No two of them are the same problem, so all names differ."""
    others = [HOUSE, *changed(HOUSE)]
    assert len({canonical_digest(other) for other in others}) == len(others) == 24


def test_it_is_32_hexadecimal_digits_and_never_moves() -> None:
    """Splits of existing runs are drawn by it: another value here would move problems between them."""
    digest = canonical_digest(HOUSE)
    assert digest == "2446e49c9f06ad790cc89776cdbea954"
    assert len(digest) == 32 and int(digest, 16) >= 0


def test_who_waits_for_whom_counts() -> None:
    """A (1) before B (2) is not B before A; and of two short and two long jobs it matters which are linked."""
    jobs = [Job("A", 1), Job("B", 2)]
    assert canonical_digest(Instance(jobs, [("A", "B")])) != canonical_digest(Instance(jobs, [("B", "A")]))
    jobs = [Job("A", 1), Job("B", 1), Job("C", 2), Job("D", 2)]
    like, cross = [("A", "B"), ("C", "D")], [("A", "C"), ("B", "D")]
    assert canonical_digest(Instance(jobs, like)) != canonical_digest(Instance(jobs, cross))


def test_what_lies_far_along_a_chain_counts() -> None:
    """Two chains of four and a long job at the start of one or at its end."""
    edges = [("A", "B"), ("B", "C"), ("C", "D")]
    start = Instance([Job(label, 9 if label == "A" else 1) for label in "ABCD"], edges)
    end = Instance([Job(label, 9 if label == "D" else 1) for label in "ABCD"], edges)
    assert canonical_digest(start) != canonical_digest(end)


def test_which_resource_a_job_uses_counts_together_with_the_others() -> None:
    """A and B on the same machine, or on two machines of equal capacity; which machine has which name does not."""
    pair = [Resource("saw", 1), Resource("drill", 1)]
    same = Instance([Job("A", 1, [1, 0]), Job("B", 1, [1, 0])], [], pair)
    apart = Instance([Job("A", 1, [1, 0]), Job("B", 1, [0, 1])], [], pair)
    swapped = Instance([Job("A", 1, [0, 1]), Job("B", 1, [0, 1])], [], pair)
    assert canonical_digest(same) == canonical_digest(swapped) != canonical_digest(apart)


@pytest.mark.parametrize("kinds", [MOST_PERMUTED, MOST_PERMUTED + 1, 12])
def test_many_resources_do_not_take_for_ever(kinds: int) -> None:
    """Up to four resources every order is tried; beyond, the one given, so that twelve take no 479 million tries."""
    jobs = [Job(f"J{index}", 1 + index % 3, [(index + r) % 3 for r in range(kinds)]) for index in range(10)]
    instance = Instance(jobs, [], [Resource(f"kind {r}", 3 + r % 2) for r in range(kinds)])
    with within(1.0):
        digest = canonical_digest(instance)
    shuffled = evolve(instance, jobs=instance.jobs[::-1])
    assert canonical_digest(shuffled) == digest
    if kinds <= MOST_PERMUTED:
        assert canonical_digest(renamed(instance, random.Random(0))) == digest
