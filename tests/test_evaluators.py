"""Every evaluator keeps the port's word; and what it takes to bring one of your own."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
import toy_task
from attrs import evolve

from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.sandboxes.scripted import ScriptedRunner
from gce.app.evaluation.scoring import judge_each
from gce.app.wiring.evaluators import EVALUATORS, find_evaluator
from gce.domain.completions import Completion
from gce.domain.executions import Evidence, Outcome
from gce.domain.tasks import TASKS, Task, draw_problems
from gce.domain.verdicts import Verdict
from gce.errors import BadInput
from gce.testing.contracts.evaluator import check_evaluator


def answers(task: Any, preset: str, tier: str) -> list[tuple[Any, Completion]]:
    """Demonstrated and heuristic answers to three problems, right and wrong, and one that is none."""
    problems = draw_problems(task, preset, tier, "test", 3)
    policies = {**task.references.heuristics(problems), "none": lambda _problem, _rng: "no idea"}
    return [
        (problem, Completion(f"{problem.key}/{name}", text, "stop", policy="test"))
        for problem, (name, policy) in itertools.product(problems, policies.items())
        if (text := policy(problem, random.Random(0))) is not None
    ]


@pytest.mark.parametrize("name", EVALUATORS)
@pytest.mark.parametrize("task", [TASKS["scheduling"], toy_task.ADDITION], ids=["scheduling", "addition"])
def test_every_evaluator_keeps_the_ports_word(name: str, task: Task) -> None:
    preset = next(iter(task.presets))
    check_evaluator(EVALUATORS[name](task, None), answers(task, preset, task.tiers(preset)[1].name))


@pytest.mark.parametrize("name", EVALUATORS)
def test_so_it_does_where_programs_have_to_be_run(name: str) -> None:
    runner = ScriptedRunner(lambda execution: Evidence((Outcome("returned", "0"),) * len(execution.calls)))
    check_evaluator(EVALUATORS[name](TASKS["programs"], runner), answers(TASKS["programs"], "pipelines", "P2"))


class Drifting:
    """A clock as an evaluator: no two times are the same."""

    deterministic = False

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.times = itertools.cycle((0.50, 0.53, 0.56))

    def judge(self, given: Any) -> Iterator[Any]:
        for problem, completion in given:
            yield problem, completion, (Verdict("right", next(self.times), "clock", "1"),)


def test_one_that_is_not_deterministic_is_held_to_its_tolerance() -> None:
    asked = answers(toy_task.ADDITION, "small", "T0")[:4]
    check_evaluator(Drifting(0.07), asked)
    with pytest.raises(AssertionError, match="more than the stated tolerance"):
        check_evaluator(Drifting(0.01), asked)


class Backwards(TaskVerifier):
    def judge(self, given: Any) -> Any:
        return reversed(list(super().judge(given)))


class Silent(TaskVerifier):
    def judge(self, given: Any) -> Any:
        return ((problem, completion, ()) for problem, completion, _ in super().judge(given))


class Forgetful(TaskVerifier):
    calls = 0

    def judge(self, given: Any) -> Iterator[Any]:
        for problem, completion, _ in super().judge(given):
            self.calls += 1
            yield problem, completion, (Verdict("right" if self.calls % 2 else "wrong", 0.0, "e", "1"),)


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Backwards, "in their order"), (Silent, "expected verdicts on"), (Forgetful, "the same verdicts again")],
)
def test_the_contract_finds_what_breaks_it(kind: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_evaluator(kind(toy_task.ADDITION), answers(toy_task.ADDITION, "small", "T0")[:3])


def test_a_verifier_that_raises_has_failed_and_says_so() -> None:
    def raising(*_: Any) -> tuple[Verdict, ...]:
        raise ZeroDivisionError("by hand")

    task = evolve(toy_task.ADDITION, verify=raising)
    ((_, _, (found,)),) = TaskVerifier(task).judge(answers(task, "small", "T0")[:1])
    assert found.status == "failed"
    assert found.violations[0].message.startswith("the verifier raised ZeroDivisionError: ")


def test_an_evaluator_of_your_own_is_named_by_module_and_attribute() -> None:
    assert isinstance(find_evaluator(toy_task.ADDITION, evaluator="test_evaluators:Backwards"), TaskVerifier)
    with pytest.raises(BadInput, match="no evaluator 'clock': choose one of verifier, or give your own"):
        find_evaluator(toy_task.ADDITION, evaluator="clock")


class Skips(TaskVerifier):
    """Leaves the first answer out."""

    def judge(self, answers: Any) -> Any:
        yield from list(super().judge(answers))[1:]


class Repeats(TaskVerifier):
    """Judges the first answer twice."""

    def judge(self, answers: Any) -> Any:
        judged = list(super().judge(answers))
        yield from (judged[0], *judged)


@pytest.mark.parametrize("broken", [Skips, Repeats])
def test_an_evaluator_that_leaves_out_or_repeats_an_answer_is_refused(broken: type[TaskVerifier]) -> None:
    task = toy_task.ADDITION
    problems = draw_problems(task, "small", "T0", "test", 2)
    answers = [(problem, Completion(f"{place}", "w1", "stop", "p")) for place, problem in enumerate(problems)]
    with pytest.raises(BadInput, match="expected the evaluator to judge each answer"):
        list(judge_each(task, broken(task), answers))
