"""What scheduling declares to hold between verdicts: it holds, by the verifier and by the walk over time steps."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present

from gce.domain.problems import Message, Problem, ProblemId
from gce.domain.serialization import from_plain, to_plain
from gce.domain.tasks import TASKS
from gce.domain.tasks.scheduling.answer import Answer, parse
from gce.domain.tasks.scheduling.canonical import canonical_digest
from gce.domain.tasks.scheduling.instance import Instance, Job, Resource
from gce.domain.tasks.scheduling.metamorphic_relations import RELATIONS
from gce.domain.tasks.scheduling.verify import verify
from gce.testing.scheduling.checkers import faults, read
from gce.testing.scheduling.generators import (
    flawed_schedules,
    hostile_responses,
    random_schedules,
    renderings,
    scheduled_instances,
)

# A and C together hold the crew of 2, B needs all of it and follows A; every bound is tight for A 0, C 0, B 2.
HOUSE = Instance(
    (Job("A", 2, (1,)), Job("B", 3, (2,), 5), Job("C", 1, (1,))), (("A", "B"),), (Resource("crew", 2),), horizon=6
)
CHAIN = Instance((Job("A", 1), Job("B", 1), Job("C", 1)), (("A", "B"), ("B", "C")))
LINE = "Answer: A 0, B 2, C 0"


def problem(instance: Instance) -> Problem:
    return Problem(
        ProblemId("scheduling", "by hand", "test", "T5", 0, 0),
        instance,
        (Message("user", ""),),
        canonical_digest(instance),
    )


def changed(name: str, instance: Instance, text: str, seed: int = 0) -> tuple[Instance, str] | None:
    found = RELATIONS[name].change(problem(instance), text, random.Random(seed))
    return None if found is None else (found[0].instance, found[1])


def every_change(name: str, instance: Instance, text: str) -> set[tuple[Instance, str] | None]:
    return {changed(name, instance, text, seed) for seed in range(60)}


def made_by(name: str, instance: Instance, text: str) -> set[tuple[Instance, str]]:
    """Every change, where each seed makes one."""
    return {present(found) for found in every_change(name, instance, text)}


def starts_in(text: str) -> list[int]:
    found = parse(text)
    assert isinstance(found, Answer)
    return [start for _, start in found.entries]


def walked(instance: Instance, text: str) -> bool:
    """Read by hand and walked step by step."""
    entries = read(text)
    if entries is None or sorted(label for label, _ in entries) != sorted(instance.labels):
        return False
    return not faults(instance, dict(entries))


@st.composite
def cases(draw: Any) -> tuple[Any, Any]:
    """An instance with a response: right, one violation away, random, or hostile."""
    case = draw(scheduled_instances() | flawed_schedules())
    starts = draw(st.just(case.starts) | st.just(case.starts) | random_schedules(case.instance))
    return case.instance, draw(renderings(starts) | renderings(starts) | hostile_responses(case.instance.labels))


@pytest.mark.slow
@given(cases(), st.integers(0, 2**32))
def test_every_relation_holds_whatever_the_response(case: Any, seed: int) -> None:
    """By the verifier, and by a reader and a checker that share no code with it."""
    instance, text = case
    for name, relation in RELATIONS.items():
        if (found := changed(name, instance, text, seed)) is None:
            continue
        other, response = found
        assert from_plain(Instance, json.loads(json.dumps(to_plain(other)))) == other
        for right in (lambda instance, text: verify(instance, text).right, walked):
            before, after = right(instance, text), right(other, response)
            match relation.holds:
                case "the verdict stays":
                    assert after == before, name
                case "wrong stays wrong":
                    assert before or not after, name
                case "right becomes wrong":
                    assert not (before and after), name


@settings(max_examples=12)
@given(scheduled_instances(), st.data(), st.integers(0, 2**32))
def test_names_and_orders_change_the_instance_and_not_its_digest(case: Any, data: st.DataObject, seed: int) -> None:
    text = data.draw(renderings(case.starts))
    for name in ("relabel the jobs", "permute everything"):
        other, _ = present(changed(name, case.instance, text, seed))
        assert canonical_digest(other) == canonical_digest(case.instance)
    other, response = present(changed("relabel the jobs", case.instance, text, seed))
    assert not set(other.labels) & set(case.instance.labels)
    assert starts_in(response) == starts_in(text)


def test_scaling_multiplies_every_time() -> None:
    found = {
        (other.job("B").duration, other.job("B").deadline, other.horizon, text)
        for other, text in made_by("scale time", HOUSE, LINE)
    }
    assert found == {(3 * by, 5 * by, 6 * by, f"Answer: A 0, B {2 * by}, C 0") for by in (2, 3, 4, 5)}
    assert changed("scale time", HOUSE, "Answer: A 999999, B 0, C 0") is None


def test_an_edge_that_follows_from_two_is_added_where_there_is_one() -> None:
    text = "Answer: A 0, B 1, C 2"
    assert every_change("add a redundant edge", CHAIN, text) == {
        (evolve(CHAIN, precedence=(("A", "B"), ("B", "C"), ("A", "C"))), text)
    }
    assert changed("add a redundant edge", HOUSE, LINE) is None


def test_one_unit_less_where_every_job_still_fits() -> None:
    """B needs all of the crew; without it there is one to spare."""
    assert changed("shrink a capacity", HOUSE, LINE) is None
    without = Instance((HOUSE.job("A"), HOUSE.job("C")), (), HOUSE.resources)
    assert changed("shrink a capacity", without, LINE) == (evolve(without, resources=(Resource("crew", 1),)), LINE)


def test_one_hour_less_for_a_job_or_for_all() -> None:
    hours = {(other.job("B").deadline, other.horizon) for other, _ in made_by("shrink a deadline", HOUSE, LINE)}
    assert hours == {(4, 6), (5, 5)}
    assert changed("shrink a deadline", CHAIN, LINE) is None


def test_each_tight_bound_is_crossed() -> None:
    """A later or B earlier: precedence, and the crew. B later: its deadline. C, with an hour of slack, is let alone."""
    assert {text for _, text in made_by("cross a tight bound", HOUSE, LINE)} == {
        "Answer: A 1, B 2, C 0",
        "Answer: A 0, B 1, C 0",
        "Answer: A 0, B 3, C 0",
    }
    late = "Answer: A 0, B 2, C 1"
    assert "Answer: A 0, B 2, C 2" in {text for _, text in made_by("cross a tight bound", HOUSE, late)}
    later = {text for _, text in made_by("cross a tight bound", CHAIN, "Answer: A 1, B 2, C 3")}
    assert later == {
        f"Answer: {entries}" for entries in ("A 2, B 2, C 3", "A 1, B 1, C 3", "A 1, B 3, C 3", "A 1, B 2, C 2")
    }
    crew = Instance((Job("A", 2, (1,)), Job("B", 2, (1,))), (), (Resource("crew", 1),))
    shared = {text for _, text in made_by("cross a tight bound", crew, "Answer: A 1, B 3")}
    assert shared == {"Answer: A 2, B 3", "Answer: A 1, B 2"}
    alone = Instance((Job("A", 2),), horizon=3)
    assert changed("cross a tight bound", alone, "Answer: A 0") is None
    assert changed("cross a tight bound", alone, "Answer: A 1") == (alone, "Answer: A 2")


@pytest.mark.parametrize("name", ["relabel the jobs", "permute everything", "scale time", "cross a tight bound"])
def test_what_the_grammar_refuses_is_not_changed(name: str) -> None:
    assert changed(name, HOUSE, "A 0, B 2, C 0") is None


def test_reasoning_stays_as_it_is() -> None:
    other, text = present(changed("scale time", HOUSE, "So A 9.\nThen:\n" + LINE + "\n "))
    assert text.startswith("So A 9.\nThen:\nAnswer: A 0, B ") and verify(other, text).right


def test_every_scheduling_task_declares_them() -> None:
    tasks = [task for task in TASKS.values() if task.instance_type is Instance]
    assert len(tasks) == 6
    assert all(task.audit.relations == RELATIONS for task in tasks)
