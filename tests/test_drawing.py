"""Drawing until something fits ends, whatever is drawn and whoever refuses it."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.randomness import python_generator
from gce.domain.tasks import Drawn, NoProblem, draw_problem
from gce.domain.tasks.drawing import draw_until_it_fits
from gce.domain.tasks.programs import generate
from gce.domain.tasks.scheduling.branch_and_bound import solve
from gce.domain.tasks.scheduling.generate import draw_instance
from gce.domain.tasks.scheduling.presets import PRESETS, Tier
from gce.domain.tasks.scheduling.solution import Solution
from gce.domain.tasks.scheduling.task import SCHEDULING


def never(_instance: Any) -> Solution:
    return Solution("infeasible", None, None, 0)


@given(tries=st.integers(1, 50), fits_at=st.integers(0, 60))
def test_every_try_counts_and_the_first_that_fits_is_taken(tries: int, fits_at: int) -> None:
    calls = count()

    def draw() -> Any:
        number = next(calls)
        return number if number >= fits_at else None

    if fits_at < tries:
        assert draw_until_it_fits(draw, "number", tries=tries) == fits_at
        assert next(calls) == fits_at + 1
    else:
        with pytest.raises(NoProblem, match=f"{tries} draws gave no number"):
            draw_until_it_fits(draw, "number", tries=tries)
        assert next(calls) == tries


def test_what_is_false_fits_too() -> None:
    assert draw_until_it_fits(lambda: 0, "number") == 0


@pytest.mark.parametrize("jobs", [2, 3, 4, 6])
def test_a_tier_whose_precedence_is_one_chain_is_refused_before_any_solver_is_asked(jobs: int) -> None:
    """All pairs are edges: no schedule is shorter than all durations together, so no horizon is tight."""
    chain = Tier(
        "chain", frozenset({"sequencing", "resources"}), jobs, jobs * (jobs - 1) // 2, (1, 5), 2, (2, 4), (1, 2)
    )

    def unasked(_instance: Any) -> Solution:
        raise AssertionError("the bound refuses each draw first")

    with pytest.raises(NoProblem, match=rf"1,000 draws gave no grounded instance of chain with {jobs} jobs"):
        draw_instance(chain, "grounded", python_generator("chain", jobs), unasked)


@pytest.mark.parametrize(
    "preset", [name for name, tiers in PRESETS.items() if not any(tier.node_limit for tier in tiers)]
)
def test_a_solver_that_refuses_everything_ends_in_every_tier(preset: str) -> None:
    """Tiers with a node limit ask the branch and bound, whatever the solver."""
    for tier in PRESETS[preset]:
        with pytest.raises(NoProblem, match="30 draws gave no"):
            draw_instance(tier, preset, python_generator("refused", tier.name), never, tries=30)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    tier = PRESETS["grounded"][-1]
    for index in range(5):
        some, others = (
            draw_instance(tier, "grounded", python_generator("same", index), solve, tries=tries) for tries in (40, 400)
        )
        assert some == others


def test_a_task_says_that_nothing_could_be_drawn() -> None:
    drawn = SCHEDULING.draw
    assert isinstance(drawn, Drawn)
    task = evolve(
        SCHEDULING,
        name="chained",
        draw=lambda preset, tier, rng, _solve: drawn.draw(preset, tier, rng, never),
    )
    with pytest.raises(NoProblem, match="1,000 draws gave no paper instance of T0"):
        draw_problem(task, "paper", "T0", "train", 0)


def test_functions_of_steps_that_do_nothing_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "_is_worth_asking", lambda _takes, _steps: False)
    with pytest.raises(NoProblem, match="draws gave no function of 2 steps"):
        generate.draw_exercise(2, python_generator("nothing"))


def test_values_that_are_always_the_same_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function is called with twelve different ones."""
    fixed = {"int": 3, "list": [1, 2], "str": "word"}
    for kind in fixed:
        generate.probes(kind)  # Once drawn, they stay.
    monkeypatch.setattr(generate, "draw_value", lambda kind, _rng: fixed[kind])
    with pytest.raises(NoProblem, match="draws gave no further value of the kind"):
        generate.draw_exercise(1, python_generator("one value"))
