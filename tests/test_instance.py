"""A scheduling instance: what it refuses and what it knows of its own order."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError
from hypothesis import given

from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.testing.scheduling.generators import instances

CREW = Resource("crew", 2)


def house() -> Instance:
    """D first in the prompt, yet it comes last: B and A lead to C, and C to D."""
    jobs = [Job("D", 1, [2], 9), Job("B", 3, [1]), Job("A", 2, [1]), Job("C", 4, [0])]
    return Instance(jobs, [("A", "C"), ("B", "C"), ("C", "D")], [CREW], 12)


# What is refused, and with which words


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Instance([]), "an instance needs at least one job, got none"),
        (lambda: Instance([Job("A", 1), Job("A", 2)]), "duplicate job 'A'"),
        (lambda: Instance([Job("A", 1, [0, 0])], [], [CREW, CREW]), "duplicate resource 'crew'"),
        (lambda: Instance([Job("A", 1)], [("A", "Z")]), "precedence A before Z: no job 'Z'"),
        (lambda: Instance([Job("A", 1)], [("Z", "A")]), "precedence Z before A: no job 'Z'"),
        (
            lambda: Instance([Job("A", 1), Job("B", 1)], [("A", "B"), ("A", "B")]),
            "duplicate precedence edge 'A before B'",
        ),
        (
            lambda: Instance([Job(label, 1) for label in "XCBA"], [("A", "B"), ("B", "C"), ("C", "A"), ("X", "A")]),
            "the precedence has a cycle among A, B, C",
        ),
        (lambda: Instance([Job("A", 1)], [("A", "A")]), "the precedence has a cycle among A"),
        (
            lambda: Instance([Job("A", 1)], [("A", "A", "A")]),
            r"a precedence edge is \(before, after\), got \('A', 'A', 'A'\)",
        ),
        (
            lambda: Instance([Job("A", 1, [1, 2])], [], [CREW]),
            "job A: expected 1 demands, one for each resource, got 2",
        ),
        (lambda: Instance([Job("A", 1)], [], [CREW]), "job A: expected 1 demands, one for each resource, got 0"),
        (lambda: Instance([Job("A", 1, [3])], [], [CREW]), "job A: demands 3 of crew, more than its capacity of 2"),
        (lambda: Instance([Job("A", 1)], horizon=-1), "instance: horizon must not be negative, got -1"),
        (lambda: Instance([Job("A", 1)], horizon=2.0), "instance: horizon must be a whole number, got 2.0"),  # type: ignore[arg-type]  # refused
        (lambda: Job("A", -1), "job A: duration must not be negative, got -1"),
        (lambda: Job("A", 1.5), "job A: duration must be a whole number, got 1.5"),  # type: ignore[arg-type]  # refused
        (lambda: Job("A", True), "job A: duration must be a whole number, got True"),
        (lambda: Job("A", "1"), "job A: duration must be a whole number, got '1'"),  # type: ignore[arg-type]  # refused
        (lambda: Job("A", 1, [-2]), "job A: demand must not be negative, got -2"),
        (lambda: Job("A", 1, [False]), "job A: demand must be a whole number, got False"),
        (lambda: Job("A", 1, [], -3), "job A: deadline must not be negative, got -3"),
        (lambda: Job("", 1), "a job's label must be ASCII letters and digits, got ''"),
        (lambda: Job("A B", 1), "a job's label must be ASCII letters and digits, got 'A B'"),
        (lambda: Job("Ä", 1), "a job's label must be ASCII letters and digits, got 'Ä'"),
        (lambda: Resource("", 1), "a resource needs a name, got ''"),
        (lambda: Resource("crew", -1), "resource crew: capacity must not be negative, got -1"),
    ],
)
def test_each_refusal_names_the_offender(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()


def test_zero_is_a_number_like_any_other() -> None:
    """A job of no time, no demand and a deadline at 0, a resource without units and a horizon of 0."""
    instance = Instance([Job("A", 0, [0], 0)], [], [Resource("crew", 0)], 0)
    assert instance.job("A").deadline == instance.horizon == 0


# What it knows


def test_labels_keep_the_order_of_the_prompt() -> None:
    assert house().labels == ("D", "B", "A", "C")


def test_the_topological_order_breaks_ties_as_the_prompt_does() -> None:
    """B and A are both free to start; B stands first. D, first in the prompt, has to wait."""
    assert house().topological_order == ("B", "A", "C", "D")


def test_a_job_that_becomes_free_goes_before_those_after_it_in_the_prompt() -> None:
    """X stands first and is free after A, so it comes before B, which was free all along."""
    instance = Instance([Job(label, 1) for label in "XABC"], [("A", "X")])
    assert instance.topological_order == ("A", "X", "B", "C")


def test_neighbours_come_in_the_order_of_the_edges() -> None:
    assert house().predecessors("C") == ("A", "B")
    assert house().successors("C") == ("D",)
    assert house().predecessors("B") == house().successors("D") == ()
    with pytest.raises(KeyError):
        house().job("Z")


def test_the_makespan_is_the_end_of_the_last_job() -> None:
    """A ends at 2, B at 3, C at 7; D, which starts last, ends at 8."""
    assert house().makespan({"A": 0, "B": 0, "C": 3, "D": 7}) == 8
    assert house().makespan({"A": 0, "B": 9, "C": 3, "D": 7}) == 12


def test_dropping_a_family_leaves_the_others() -> None:
    instance = house()
    assert instance.without("sequencing") == evolve(instance, precedence=())
    loose = instance.without("resources")
    assert (loose.resources, {job.demands for job in loose.jobs}) == ((), {()})
    assert (loose.precedence, loose.job("D").deadline, loose.horizon) == (instance.precedence, 9, 12)
    late = instance.without("deadlines")
    assert {job.deadline for job in late.jobs} == {None}
    assert (late.precedence, late.resources, late.horizon) == (instance.precedence, instance.resources, 12)


def test_there_are_three_families() -> None:
    with pytest.raises(ValueError, match="expected sequencing, resources or deadlines, got 'horizon'"):
        house().without("horizon")


# How it behaves as a value


def test_any_iterable_will_do_and_tuples_are_kept() -> None:
    """Lists, generators and lists of lists make the same instance as tuples."""
    jobs = (Job("A", 1, (1,)), Job("B", 2, (2,)))
    plain = Instance(jobs, (("A", "B"),), (CREW,))
    other = Instance(iter([Job("A", 1, [1]), Job("B", 2, iter([2]))]), [["A", "B"]], [CREW])
    assert other == plain
    assert isinstance(other.jobs, tuple) and other.precedence == (("A", "B"),)


def test_instances_are_values() -> None:
    """Equal instances are equal in sets and after pickling, and none can be changed."""
    assert {house(), house()} == {house()}
    assert pickle.loads(pickle.dumps(house())).topological_order == house().topological_order
    assert house() != evolve(house(), horizon=None)
    with pytest.raises(FrozenInstanceError):
        house().horizon = 3  # type: ignore[misc]  # frozen
    assert "_by_label" not in repr(house())


@pytest.mark.slow
@given(instance=instances(max_jobs=8))
def test_every_job_follows_its_predecessors_in_topological_order(instance: Instance) -> None:
    place = {label: index for index, label in enumerate(instance.topological_order)}
    assert sorted(place) == sorted(instance.labels)
    assert all(place[before] < place[after] for before, after in instance.precedence)


@given(instance=instances(max_jobs=8))
def test_neighbours_are_the_edges(instance: Instance) -> None:
    edges = set(instance.precedence)
    assert {(before, after) for after in instance.labels for before in instance.predecessors(after)} == edges
    assert {(before, after) for before in instance.labels for after in instance.successors(before)} == edges


def test_a_long_chain_is_no_trouble() -> None:
    """Twenty thousand jobs in a row, listed from last to first."""
    labels = [f"J{index}" for index in range(20_000)]
    instance = Instance([Job(label, 1) for label in reversed(labels)], list(itertools.pairwise(labels)))
    assert list(instance.topological_order) == labels
