"""The tiers of both presets: their tables, their numbers as drawn, and that labels say nothing."""

from __future__ import annotations

import itertools
import string
from collections import Counter
from functools import cache
from typing import Any

import pytest
from attrs import evolve
from present import present

from gce.domain.randomness import python_generator
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.generate import CREW, RESOURCE_NAMES, draw_instance
from gce.domain.tasks.scheduling.instance import Instance
from gce.domain.tasks.scheduling.presets import GROUNDED, PAPER, PRESETS, Tier
from gce.domain.tasks.scheduling.solution import Solution

DRAWN = 40
"""Instances looked at for each tier."""

# Name: jobs, edges, resource types, demands, capacities, durations, slack, deadlines.
PAPER_TABLE = {
    "T0": (4, 2, 0, None, None, (1, 2), 3.0, False),
    "T1": (5, 2, 0, None, None, (1, 3), 3.0, True),
    "T2": (6, 0, 2, (1, 2), (2, 3), (1, 4), 2.0, True),
    "T3": (6, 0, 0, None, None, (2, 5), 1.15, True),
    "T4 sequencing+resources": (8, 4, 2, (1, 2), (2, 4), (1, 4), 1.5, False),
    "T4 resources+deadlines": (8, 0, 2, (1, 2), (2, 4), (1, 4), 1.5, True),
    "T4 sequencing+deadlines": (8, 4, 0, None, None, (1, 4), 1.5, True),
    "T5": (10, 6, 2, (1, 2), (2, 4), (1, 5), 1.3, True),
    "L2 sequencing": (2, 1, 0, None, None, (1, 2), 3.0, False),
    "L2 resources+deadlines": (2, 0, 2, (1, 2), (2, 3), (1, 4), 2.0, True),
    "L2 deadlines": (2, 0, 0, None, None, (2, 5), 1.15, True),
    "L3 sequencing": (3, 2, 0, None, None, (1, 2), 3.0, False),
    "L3 resources+deadlines": (3, 0, 2, (1, 2), (2, 3), (1, 4), 2.0, True),
    "L3 deadlines": (3, 0, 0, None, None, (2, 5), 1.15, True),
}
"""ISOPro 0.3; its T4 has two of the three families, each as in the row."""

# The same columns, then the hours between the plan's end and a deadline.
GROUNDED_TABLE = {
    "T0": (4, 2, 0, None, None, (1, 4), 0.0, False, None),
    "T1": (5, 4, 0, None, None, (1, 4), 0.0, False, None),
    "T2": (6, 0, 2, (1, 2), (2, 4), (1, 6), 0.2, False, None),
    "T3": (6, 0, 1, (1, 1), (1, 1), (1, 4), 0.0, True, (0, 2)),
    "T4 sequencing+resources": (8, 5, 2, (1, 2), (2, 4), (1, 5), 0.25, False, None),
    "T4 resources+deadlines": (8, 0, 2, (1, 2), (2, 4), (1, 5), 0.3, True, (0, 2)),
    "T4 sequencing+deadlines": (8, 4, 1, (1, 1), (1, 1), (1, 4), 0.0, True, (0, 2)),
    "T5": (10, 6, 2, (1, 2), (2, 4), (1, 5), 0.3, True, (0, 1)),
    "L2 sequencing": (2, 1, 0, None, None, (1, 4), 0.0, False, None),
    "L2 resources": (2, 0, 2, (1, 2), (2, 4), (1, 4), 0.2, False, None),
    "L2 deadlines": (2, 0, 1, (1, 1), (1, 1), (1, 4), 0.0, True, (0, 2)),
    "L3 sequencing": (3, 2, 0, None, None, (1, 4), 0.0, False, None),
    "L3 resources": (3, 0, 2, (1, 2), (2, 4), (1, 4), 0.2, False, None),
    "L3 deadlines": (3, 0, 1, (1, 1), (1, 1), (1, 4), 0.0, True, (0, 2)),
}

LARGER_TABLE = {
    name: (11, edges, *GROUNDED_TABLE[name][2:])
    for name, edges in zip(list(GROUNDED_TABLE)[:8], (5, 9, 0, 0, 6, 0, 5, 7), strict=True)
}
"""As `grounded`, with eleven jobs in every tier."""
PAPER_LARGER_TABLE = {
    name: (11, edges, *PAPER_TABLE[name][2:])
    for name, edges in zip(list(PAPER_TABLE)[:8], (5, 4, 0, 0, 5, 0, 5, 7), strict=True)
}
SIXTEEN_TABLE = {
    name: (16, edges, *GROUNDED_TABLE[name][2:])
    for name, edges in zip(list(GROUNDED_TABLE)[:8], (8, 13, 0, 0, 10, 0, 8, 10), strict=True)
}
"""As `grounded`, with sixteen jobs in every tier."""
TABLES: dict[str, dict[str, Any]] = {
    "grounded": GROUNDED_TABLE,
    "paper": PAPER_TABLE,
    "larger": LARGER_TABLE,
    "paper-larger": PAPER_LARGER_TABLE,
    "sixteen": SIXTEEN_TABLE,
}


def rows(tiers: tuple[Tier, ...]) -> dict[str, Tier]:
    """Tiers by name, T4 by its subtypes."""
    return {
        f"{tier.name} {sub.name}" if tier.subtypes else tier.name: sub
        for tier in tiers
        for sub in tier.subtypes or [tier]
    }


@cache
def drawn(preset: str, row: str, count: int = DRAWN) -> tuple[Instance, ...]:
    tier = rows(PRESETS[preset])[row]
    return tuple(
        draw_instance(tier, preset, python_generator("presets", preset, row, index), solve) for index in range(count)
    )


def total(instance: Instance) -> int:
    return sum(job.duration for job in instance.jobs)


# The tables


def test_there_are_six_tiers_and_t4_has_the_three_pairs() -> None:
    for every in PRESETS.values():
        tiers = [tier for tier in every if not tier.curriculum_level]
        assert [tier.name for tier in tiers] == ["T0", "T1", "T2", "T3", "T4", "T5"]
        assert {sub.name for sub in tiers[4].subtypes} == {
            "sequencing+resources",
            "resources+deadlines",
            "sequencing+deadlines",
        }
        assert all(sub.families == set(sub.name.split("+")) for tier in every for sub in tier.subtypes)


def test_rungs_of_two_and_three_jobs_come_before_the_tiers_but_not_in_presets_with_more_jobs() -> None:
    assert [[tier.name for tier in tiers if tier.curriculum_level] for tiers in PRESETS.values()] == [
        ["L2", "L3"]
    ] * 2 + [[]] * 3
    assert [tier.name for tier in PRESETS["grounded"]][:3] == ["L2", "L3", "T0"]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_tier_with_all_families_is_held_out(preset: str) -> None:
    """T5 alone, and it is the only one that has all three."""
    assert [tier.name for tier in PRESETS[preset] if tier.held_out] == ["T5"]
    assert [name for name, tier in rows(PRESETS[preset]).items() if len(tier.families) == 3] == ["T5"]


def test_the_default_preset_comes_first() -> None:
    assert list(PRESETS) == ["grounded", "paper", "larger", "paper-larger", "sixteen"]


@pytest.mark.parametrize(("preset", "table"), TABLES.items())
def test_parameters_are_those_of_the_table(preset: str, table: dict[str, Any]) -> None:
    found = rows(PRESETS[preset])
    assert found.keys() == table.keys()
    for name, (jobs, edges, types, demands, capacities, durations, slack, deadlines, *hours) in table.items():
        tier = found[name]
        assert (tier.jobs, tier.edges, tier.resource_types, tier.durations) == (jobs, edges, types, durations), name
        assert (tier.slack, tier.deadlines) == (slack, deadlines), name
        if types:
            assert (tier.demands, tier.capacities) == (demands, capacities), name
        if hours and deadlines:
            assert tier.deadline_slack == hours[0], name


# The numbers as drawn


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "row"), [(preset, row) for preset in PRESETS for row in rows(PRESETS[preset])])
def test_drawn_numbers_keep_to_their_ranges_and_reach_the_ends(preset: str, row: str) -> None:
    """Counts are exact; each range is filled from its lowest to its highest number."""
    jobs, edges, types, demands, capacities, durations, _, deadlines, *_ = TABLES[preset][row]
    instances = drawn(preset, row)
    for instance in instances:
        assert (len(instance.jobs), len(instance.precedence), len(instance.resources)) == (jobs, edges, types)
        assert any(job.deadline is not None for job in instance.jobs) == deadlines
        assert instance.horizon is not None
    seen = {job.duration for instance in instances for job in instance.jobs}
    assert seen == set(range(durations[0], durations[1] + 1))
    if types:
        units = {units for instance in instances for job in instance.jobs for units in job.demands}
        assert units == set(range(demands[0], demands[1] + 1))
        there = {resource.capacity for instance in instances for resource in instance.resources}
        assert there == set(range(capacities[0], capacities[1] + 1))


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "row"), [(preset, row) for preset in PRESETS for row in rows(PRESETS[preset])])
def test_every_problem_can_be_solved(preset: str, row: str) -> None:
    assert {solve(instance).status for instance in drawn(preset, row)} == {"optimal"}


@pytest.mark.parametrize("row", PAPER_TABLE)
def test_paper_horizon_deadlines_and_labels(row: str) -> None:
    """int(sum x slack) + 1; a deadline between the job's duration and nine tenths of that; edges along the alphabet."""
    jobs, slack, deadlines = PAPER_TABLE[row][0], PAPER_TABLE[row][6], PAPER_TABLE[row][7]
    for instance in drawn("paper", row):
        assert instance.horizon == int(total(instance) * slack) + 1
        assert "".join(instance.labels) == string.ascii_uppercase[:jobs]
        assert all(before < after for before, after in instance.precedence)
        for job in instance.jobs:
            assert not deadlines or job.duration <= present(job.deadline) <= int(0.9 * present(instance.horizon))


@pytest.mark.parametrize("row", GROUNDED_TABLE)
def test_grounded_horizon_is_tied_to_the_optimum(row: str) -> None:
    """Optimal makespan without any horizon, stretched by the slack and rounded half up."""
    slack = GROUNDED_TABLE[row][6]
    for instance in drawn("grounded", row):
        shortest = present(solve(evolve(instance, horizon=None)).makespan)
        assert instance.horizon == shortest + int(shortest * slack + 0.5)


@pytest.mark.parametrize("row", GROUNDED_TABLE)
def test_one_after_another_is_too_long_unless_a_crew_forces_it(row: str) -> None:
    """With one unit crew nothing else is possible; otherwise the horizon lies below the sum of durations.

    One exception: jobs whose edges form a chain through all of them, where the chain itself forces it.
    """
    for instance in drawn("grounded", row):
        crew = [resource.name for resource in instance.resources] == [CREW]
        ends = [len(side(label)) for label in instance.labels for side in (instance.successors, instance.predecessors)]
        if crew or (len(instance.precedence) == len(instance.jobs) - 1 and max(ends) <= 1):
            assert instance.horizon == total(instance)
        else:
            assert present(instance.horizon) < total(instance)


@pytest.mark.parametrize("row", [row for row, values in GROUNDED_TABLE.items() if values[7]])
def test_grounded_deadlines_belong_to_last_jobs_and_differ(row: str) -> None:
    """A job that others wait for has none, all others have one, and no two are due at the same hour."""
    for instance in drawn("grounded", row):
        due = {job.label: job.deadline for job in instance.jobs}
        last = [label for label in instance.labels if not instance.successors(label)]
        assert {label for label, hour in due.items() if hour is not None} == set(last)
        hours = [due[label] for label in last]
        assert len(set(hours)) == len(hours)


def test_resources_have_names_of_their_own_in_grounded_tiers() -> None:
    """Two drawn from eight, in any order; the unit crew is called by its name."""
    names = Counter(resource.name for instance in drawn("grounded", "T5") for resource in instance.resources)
    assert set(names) == set(RESOURCE_NAMES)
    assert {resource.name for instance in drawn("grounded", "T3") for resource in instance.resources} == {CREW}
    pairs = [tuple(resource.name for resource in instance.resources) for instance in drawn("grounded", "T5")]
    assert any(RESOURCE_NAMES.index(one) > RESOURCE_NAMES.index(two) for one, two in pairs)


# What labels and places tell


@pytest.mark.slow
@pytest.mark.parametrize("row", ["T1", "T4 sequencing+deadlines"])
def test_labels_and_places_say_nothing_of_the_order(row: str) -> None:
    """Over 300 instances half the edges run from an earlier label to a later one; so they do in the prompt.

    At 1200 edges one standard deviation is 1.4 %.
    """
    edges = [(instance, *edge) for instance in drawn("grounded", row, 300) for edge in instance.precedence]
    assert len(edges) == 1200
    along_labels = sum(before < after for _, before, after in edges) / len(edges)
    along_prompt = sum(instance.labels.index(one) < instance.labels.index(two) for instance, one, two in edges) / 1200
    assert 0.45 < along_labels < 0.55
    assert 0.45 < along_prompt < 0.55


def test_labels_come_from_the_whole_alphabet_in_any_order() -> None:
    """All 26 about equally often, and of two neighbours in a prompt the first is the earlier letter half the time."""
    instances = drawn("grounded", "T1", 300)
    neighbours = [pair for instance in instances for pair in itertools.pairwise(instance.labels)]
    assert 0.45 < sum(one < two for one, two in neighbours) / len(neighbours) < 0.55
    used = Counter(label for instance in instances for label in instance.labels)
    assert set(used) == set(string.ascii_uppercase)
    assert max(used.values()) < 2 * min(used.values())


def test_deadlines_do_not_follow_labels_or_places() -> None:
    """Of two due jobs the one with the earlier label is due first about half the time, 15 pairs in each of 300."""
    pairs = [
        (one, two)
        for instance in drawn("grounded", "T3", 300)
        for index, one in enumerate(instance.jobs)
        for two in instance.jobs[index + 1 :]
    ]
    by_label = sum(
        (one.label < two.label) == (present(one.deadline) < present(two.deadline)) for one, two in pairs
    ) / len(pairs)
    by_place = sum(present(one.deadline) < present(two.deadline) for one, two in pairs) / len(pairs)
    assert 0.45 < by_label < 0.55
    assert 0.45 < by_place < 0.55


# How they are drawn


def test_t4_draws_its_pairs_evenly() -> None:
    """About a third each of 150, by what the instances have."""

    def pair(instance: Instance) -> str:
        real = bool(instance.resources) and instance.resources[0].name != CREW
        late = any(job.deadline is not None for job in instance.jobs)
        has = {"sequencing": bool(instance.precedence), "resources": real, "deadlines": late}
        return "+".join(name for name, there in has.items() if there)

    found = Counter(
        pair(draw_instance(GROUNDED[-2], "grounded", python_generator("pairs", index), solve)) for index in range(150)
    )
    assert set(found) == {sub.name for sub in GROUNDED[-2].subtypes}
    assert min(found.values()) > 30


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_generator_gives_the_same_instance(preset: str) -> None:
    for tier in PRESETS[preset]:
        one, two, other = (
            draw_instance(tier, preset, python_generator("again", preset, tier.name, index), solve)
            for index in (0, 0, 1)
        )
        assert one == two != other


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_problems_do_not_depend_on_which_exact_solver_is_used(preset: str) -> None:
    """Only makespan and status are read, and those agree: branch and bound or CP-SAT, same instances."""
    pytest.importorskip("ortools")
    from gce.adapters.solvers.cpsat import CpSatSolver

    solver = CpSatSolver()

    def by_cp_sat(instance: Instance) -> Solution:
        solution = solver.solve(instance)
        assert solution.status != "unknown"
        return solution

    for tier in PRESETS[preset]:
        for index in range(3):
            exact, cp_sat = (
                draw_instance(tier, preset, python_generator("either", preset, tier.name, index), how)
                for how in (solve, by_cp_sat)
            )
            assert exact == cp_sat


def test_a_tier_with_a_node_limit_is_solved_by_the_branch_and_bound() -> None:
    """A solver that is given is not asked: another one would reject other draws."""
    tier = next(tier for tier in PRESETS["sixteen"] if tier.name == "T2")
    rng = python_generator("nodes", 0)

    def never(_instance: Instance) -> Solution:
        raise AssertionError("a tier with a node limit is solved by the branch and bound")

    assert draw_instance(tier, "sixteen", rng, never).horizon is not None


def test_the_limit_is_of_nodes_so_that_the_same_draws_are_rejected_everywhere() -> None:
    """With a limit of 100 nodes, about the median of T5, other draws are left, all of which are solved within it."""
    tier = next(tier for tier in PRESETS["sixteen"] if tier.name == "T5")
    first = [draw_instance(tier, "sixteen", python_generator("nodes", index), solve) for index in range(5)]
    easy = [
        draw_instance(evolve(tier, node_limit=100), "sixteen", python_generator("nodes", index), solve)
        for index in range(5)
    ]
    assert first != easy
    for instance in easy:
        assert solve(evolve(instance, horizon=None), node_limit=100).status == "optimal"
    for index, instance in enumerate(first):
        assert draw_instance(tier, "sixteen", python_generator("nodes", index), solve) == instance


def test_a_draw_without_a_schedule_is_drawn_again() -> None:
    """A solver that refuses the first two instances: the third is taken, and the generator simply goes on."""
    for tier, preset in ((GROUNDED[-3], "grounded"), (PAPER[-3], "paper")):
        asked: list[Instance] = []

        def refuse_twice(instance: Instance, asked: list[Instance] = asked) -> Solution:
            asked.append(instance)
            return Solution("infeasible", None, None, 0) if len(asked) < 3 else solve(instance)

        instance = draw_instance(tier, preset, python_generator("refused"), refuse_twice)
        assert len(asked) >= 3
        assert instance.labels == asked[-1].labels
        assert asked[0] != asked[1]
