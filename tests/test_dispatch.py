"""List scheduling in plan order: worked by hand, judged by the verifier, and compared with an hour-by-hour search."""

from __future__ import annotations

import itertools
import random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.domain.tasks.scheduling.dispatch import (
    Line,
    Visit,
    by_deadline,
    dispatch,
    dispatch_lines,
    one_at_a_time,
    predecessors_first,
    visits,
)
from gce.domain.tasks.scheduling.heuristics import earliest_starts
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.verify import judge
from gce.testing.scheduling.generators import instances

HOUSE = Instance(
    jobs=(Job("K", 3, (2, 1), 9), Job("B", 2, (1, 1)), Job("T", 4, (2, 2), 12), Job("M", 1, (1, 1), 5)),
    precedence=(("B", "T"), ("K", "T")),
    resources=(Resource("workers", 3), Resource("machines", 2)),
    horizon=14,
)
"""T waits for K and B, and needs both machines."""


def orders(instance: Instance) -> st.SearchStrategy[list[str]]:
    """Any order with predecessors first."""
    return st.permutations(instance.labels).map(lambda order: predecessors_first(instance, order))


# Predecessors first


def test_predecessors_are_pulled_forward_just_before_they_are_needed() -> None:
    """T asks for B, then K, in the order of the edges; M keeps its place."""
    assert predecessors_first(HOUSE, "TMKB") == ["B", "K", "T", "M"]
    assert predecessors_first(HOUSE, "MKBT") == ["M", "K", "B", "T"]


def test_by_deadline_puts_jobs_without_one_last() -> None:
    """D is due at 4, C at 7; the others stay as they were."""
    jobs = [Job("E", 1), Job("A", 1), Job("C", 1, (), 7), Job("D", 1, (), 4), Job("F", 1, (), 7)]
    assert by_deadline(Instance(jobs), "EFCDA") == ["D", "F", "C", "E", "A"]


def test_who_asks_for_another_is_visited_again_right_after_it() -> None:
    """T asks for B and then for K; both come up again in the order."""
    assert visits(HOUSE, "TMKB") == [
        Visit("T", before="B"),
        Visit("B", asked_by="T"),
        Visit("T", before="K"),
        Visit("K", asked_by="T"),
        Visit("T"),
        Visit("M"),
        Visit("K", again=True),
        Visit("B", again=True),
    ]


def test_who_is_put_off_is_visited_out_of_turn_only() -> None:
    """K and M are put off, K only until T asks for it; B is planned already."""
    assert visits(HOUSE, "KTM", planned="B", later=lambda label: label in "KM") == [
        Visit("K", later=True),
        Visit("T", before="K"),
        Visit("K", asked_by="T"),
        Visit("T"),
        Visit("M", later=True),
    ]


def test_who_does_not_mind_the_sequence_asks_for_nobody() -> None:
    assert visits(HOUSE, "TMKB", minds_sequence=lambda label: label != "T") == [Visit(label) for label in "TMKB"]


@pytest.mark.slow
@given(instance=instances(max_jobs=8), rng=st.randoms(use_true_random=False))
def test_no_more_is_moved_than_must_be(instance: Instance, rng: random.Random) -> None:
    """A permutation with predecessors first comes back as it was; any other becomes one."""
    order = predecessors_first(instance, rng.sample(instance.labels, len(instance.labels)))
    assert sorted(order) == sorted(instance.labels)
    place = {label: index for index, label in enumerate(order)}
    assert all(place[before] < place[after] for before, after in instance.precedence)
    assert predecessors_first(instance, order) == order


def test_a_chain_longer_than_the_call_stack() -> None:
    """Five thousand jobs, listed from last to first."""
    labels = [f"J{index}" for index in range(5_000)]
    instance = Instance([Job(label, 1) for label in labels], list(itertools.pairwise(labels)))
    assert predecessors_first(instance, labels[::-1]) == labels


# The schedule


def test_a_plan_worked_by_hand() -> None:
    """M and K hold all three workers; B waits for M at 1; T waits for K and B at 3, and needs both out."""
    assert dispatch_lines(HOUSE, "MKBT") == [
        Line("M", 1, (1, 1), (), 0, (), (), 0, 1, (2, 1), (("M", 1),)),
        Line("K", 3, (2, 1), (), 0, (), (), 0, 3, (0, 0), (("M", 1), ("K", 3))),
        Line("B", 2, (1, 1), (), 0, (), (("M", 1, (1, 1)),), 1, 3, (0, 0), (("K", 3), ("B", 3))),
        Line(
            "T", 4, (2, 2), (("B", 3), ("K", 3)), 3, (("K", 3, (2, 1)), ("B", 3, (3, 2))), (), 3, 7, (1, 0), (("T", 7),)
        ),
    ]
    assert dispatch(HOUSE, "MKBT") == {"M": 0, "K": 0, "B": 1, "T": 3}


def test_no_job_starts_before_one_that_is_planned_earlier() -> None:
    """B, two machines, waits until A ends at 3. C would fit beside A at 0, but is planned after B: 5."""
    jobs = [Job("A", 3, (1,)), Job("B", 2, (2,)), Job("C", 1, (1,))]
    assert dispatch(Instance(jobs, (), [Resource("machines", 2)]), "ABC") == {"A": 0, "B": 3, "C": 5}


def test_jobs_that_have_ended_leave_when_their_successor_is_ready() -> None:
    """X waits for A until 4; R, which ended at 2, is out before it although there is room for X anyway."""
    jobs = [Job("A", 4, (1,)), Job("R", 2, (1,)), Job("X", 1, (1,))]
    (*_, line) = dispatch_lines(Instance(jobs, [("A", "X")], [Resource("crew", 3)]), "ARX")
    assert line == Line("X", 1, (1,), (("A", 4),), 4, (("R", 2, (2,)), ("A", 4, (3,))), (), 4, 5, (2,), (("X", 5),))


def test_without_resources_each_job_starts_when_its_predecessors_have_ended() -> None:
    """K and B and M at 0; T at 3. Nothing is said of units."""
    lines = dispatch_lines(HOUSE.without("resources"), "KBTM")
    assert lines[2] == Line("T", 4, None, (("B", 2), ("K", 3)), 3, (), (), 3, 7, None, ())
    assert [line.start for line in lines] == [0, 0, 3, 0]


def test_a_predecessor_that_stands_later_in_the_order_is_overlooked() -> None:
    """T before K and B: it starts at 0, and K waits for T's machines."""
    assert dispatch(HOUSE, "TKBM") == {"T": 0, "K": 4, "B": 4, "M": 6}


def test_who_does_not_mind_the_sequence_names_no_predecessor() -> None:
    """T overlooks K and B, and still needs the machines: it waits for them to be out."""
    line = dispatch_lines(HOUSE, "KBTM", minds_sequence=lambda label: label != "T")[2]
    assert (line.after, line.start, line.demands) == ((), 3, (2, 2))


def test_who_does_not_mind_resources_neither_waits_nor_holds() -> None:
    """K holds nothing, so M and B start beside it at 0, and T, which counts, waits for what counts."""
    lines = dispatch_lines(HOUSE, "KMBT", minds_resources=lambda label: label != "K")
    assert lines[0] == Line("K", 3, None, (), 0, (), (), 0, 3, None, ())
    assert [line.start for line in lines] == [0, 0, 0, 3]
    assert lines[1].free == (2, 1)


@given(instance=instances(max_jobs=8), data=st.data())
def test_the_fast_way_finds_the_starts_of_the_written_one(instance: Instance, data: st.DataObject) -> None:
    """In any order, predecessors first or not; and `predecessors_first` is what `visits` plans."""
    order = data.draw(st.permutations(instance.labels))
    assert dispatch(instance, order) == {line.label: line.start for line in dispatch_lines(instance, order)}
    assert predecessors_first(instance, order) == [visit.label for visit in visits(instance, order) if visit.plans]


@given(instance=instances(max_jobs=8), data=st.data())
def test_any_order_keeps_precedence_and_resources(instance: Instance, data: st.DataObject) -> None:
    """Only a deadline or the horizon can be missed, whatever the order."""
    starts = dispatch(instance, data.draw(orders(instance)))
    assert {violation.kind for violation in judge(instance, starts)} <= {"deadline", "horizon"}


@given(instance=instances(max_jobs=8), data=st.data())
def test_each_job_starts_at_the_first_hour_at_which_it_may(instance: Instance, data: st.DataObject) -> None:
    """Hour by hour from the last start on: the first at which predecessors have ended and all units are there."""
    order = data.draw(orders(instance))
    starts = dispatch(instance, order)
    if not instance.resources:
        assert starts == earliest_starts(instance)
        return
    last = 0
    ends: dict[str, int] = {}
    for label in order:
        job = instance.job(label)
        ready = max([last, *(ends[before] for before in instance.predecessors(label))])
        for hour in itertools.count(ready):
            held = [
                sum(instance.job(other).demands[index] for other in ends if starts[other] <= hour < ends[other])
                for index in range(len(instance.resources))
            ]
            if all(
                units + need <= resource.capacity
                for units, need, resource in zip(held, job.demands, instance.resources, strict=True)
            ):
                break
        assert starts[label] == hour
        last, ends[label] = hour, hour + job.duration


@pytest.mark.parametrize("careless", ["minds_sequence", "minds_resources"])
@settings(max_examples=30)
@given(instance=instances(max_jobs=6), data=st.data())
def test_overlooking_a_family_everywhere_is_not_having_it(
    careless: str, instance: Instance, data: st.DataObject
) -> None:
    """Starts are those of the instance without the family."""
    order = data.draw(orders(instance))
    family = {"minds_sequence": "sequencing", "minds_resources": "resources"}[careless]
    lines = dispatch_lines(instance, order, **{careless: lambda _: False})
    assert {line.label: line.start for line in lines} == dispatch(instance.without(family), order)


@settings(max_examples=50)
@given(instance=instances(max_jobs=6), data=st.data())
def test_names_do_not_matter(instance: Instance, data: st.DataObject) -> None:
    """Jobs renamed and listed in another order in the prompt: the same plan order gives the same starts."""
    order = data.draw(orders(instance))
    jobs = data.draw(st.permutations(instance.jobs))
    name = {label: f"x{index}" for index, label in enumerate(instance.labels)}
    renamed = Instance(
        [evolve(job, label=name[job.label]) for job in jobs],
        [(name[before], name[after]) for before, after in instance.precedence],
        instance.resources,
    )
    starts = dispatch(renamed, [name[label] for label in order])
    assert {label: starts[name[label]] for label in instance.labels} == dispatch(instance, order)


@given(instance=instances(), data=st.data())
def test_one_at_a_time_each_starts_when_the_one_before_it_has_ended(instance: Instance, data: st.DataObject) -> None:
    assert one_at_a_time(HOUSE, ["M", "K", "B", "T"]) == {"M": 0, "K": 1, "B": 4, "T": 6}
    order = data.draw(orders(instance))
    starts = one_at_a_time(instance, order)
    assert all(starts[b] == starts[a] + instance.job(a).duration for a, b in itertools.pairwise(order))
    assert {violation.kind for violation in judge(instance, starts)} <= {"deadline", "horizon"}
