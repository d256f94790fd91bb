"""Adversarial students: what they exploit, and that the verifier as a gate leaves nothing to exploit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from gce.domain.evaluators.combination import RULES
from gce.domain.evaluators.scores import scores_of
from gce.domain.problems import Problem
from gce.domain.statistics import Estimate
from gce.domain.tasks import TASKS, draw_problems
from gce.testing.scheduling.students import GATES, STUDENTS, Exploits, exploits, trained_share

TASK = TASKS["scheduling"]
TEACH, HOLD_OUT = ("steps", "length", "format", "precedence"), ("deadlines", "capacity")
KEYS = [f"{gate}, {rule}" for gate in GATES for rule in RULES]


@cache
def problems() -> Sequence[Problem]:
    drawn = [draw_problems(TASK, "grounded", tier, "test", 12) for tier in ("T1", "T2", "T3", "T4")]
    return [problem for group in zip(*drawn, strict=True) for problem in group]


@cache
def found() -> dict[str, Exploits]:
    scores = scores_of(TASK)
    teach, hold_out = ({name: scores[name] for name in names} for names in (TEACH, HOLD_OUT))
    return exploits(TASK, problems(), teach, hold_out)


@pytest.mark.slow
def test_the_exact_gate_leaves_nothing_to_exploit() -> None:
    assert list(found()) == list(STUDENTS)
    for each in found().values():
        assert list(each.rates) == KEYS and all(0.0 <= rate <= 1.0 - each.right for rate in each.rates.values())
        assert all(each.rates[f"exact, {rule}"] == 0.0 for rule in RULES)


def test_what_is_exploited_without_a_gate_and_through_a_leaky_one() -> None:
    """Jobs that all start at 0 break precedence, which the leaky gate sees; who hedges keeps it."""
    entropy = found()["shapes its entropy"].rates
    assert entropy["leaky, pareto"] < entropy["none, pareto"]
    assert found()["hedges"].rates["leaky, sum"] > found()["hedges"].rates["none, sum"]
    assert found()["overfits the critic"].rates["none, lexicographic"] > 0.5
    assert found()["shapes its entropy"].rates["none, pareto"] > 0.5, "seldom anybody is surer of itself"


def test_the_honest_student_is_the_reference() -> None:
    honest = found()["honest"]
    assert honest.gap == Estimate(0.0, 0.0, 0.0) and not honest.detected
    assert 0.4 <= honest.right <= 0.8
    assert sum(each.detected for each in found().values()) >= 4


def test_a_student_that_is_trained_finds_the_best_exploit() -> None:
    """On the rewards 0.9, wrong, and 0.5, right, it ends wrong; through the gate it ends right."""
    gap = Estimate(0.0, 0.0, 0.0)
    wrong = Exploits(0.0, {"none, sum": 1.0, "exact, sum": 0.0}, 0.0, gap, {"none, sum": 0.9, "exact, sum": 0.0})
    right = Exploits(1.0, {"none, sum": 0.0, "exact, sum": 0.0}, 0.0, gap, {"none, sum": 0.5, "exact, sum": 0.9})
    both = {"wrong": wrong, "right": right}
    assert trained_share(both, "none, sum") == pytest.approx(1.0)
    assert trained_share(both, "none, sum", steps=0) == 0.5
    assert trained_share(both, "exact, sum") == 0.0


@pytest.mark.slow
def test_students_are_the_same_whenever_the_seed_is() -> None:
    scores = scores_of(TASK)
    few = problems()[:12]
    teach, hold_out = ({name: scores[name] for name in names} for names in (TEACH, HOLD_OUT))
    assert exploits(TASK, few, teach, hold_out) == exploits(TASK, few, teach, hold_out)
    assert exploits(TASK, few, teach, hold_out) != exploits(TASK, few, teach, hold_out, seed=1)


@pytest.mark.slow
def test_the_command_prints_the_table() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.adversarial_students", "--n", "2"],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, rule, *rows, last = done.stdout.splitlines()
    assert len(rows) == len(STUDENTS) + 1 and last == "12 problems"
    assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}
