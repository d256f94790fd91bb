from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import toy_task

import gce
from gce.adapters.evaluators.parallel import Spread
from gce.adapters.evaluators.verifier import TaskVerifier
from gce.adapters.executors.in_process import InProcess
from gce.adapters.executors.process_pool import ProcessPool
from gce.app.settings.records import ExecutorSettings
from gce.app.wiring.evaluators import _judge_one
from gce.app.wiring.executors import find_executor
from gce.domain.completions import Completion
from gce.domain.serialization import to_plain
from gce.domain.tasks import draw_problems
from gce.errors import BadInput, GceError, MissingExtra, SettingError
from gce.ports.executor import Executor
from gce.testing.contracts.evaluator import check_evaluator
from gce.testing.contracts.executor import check_executor


@pytest.mark.slow
@pytest.mark.parametrize("make", [InProcess, lambda: ProcessPool(2)], ids=["in process", "process pool"])
def test_executors_keep_the_contract(make: Callable[[], Executor]) -> None:
    check_executor(make)


@pytest.fixture(scope="module")
def two() -> ProcessPool:
    """One pool for many tests: a process takes seconds to begin."""
    return ProcessPool(2)


class Forgets:
    def map(self, work: Callable[[Any], Iterable[Any]], specs: Iterable[Any]) -> Iterator[Any]:
        for spec in list(specs)[1:]:
            yield from work(spec)


class Mixes:
    def map(self, work: Callable[[Any], Iterable[Any]], specs: Iterable[Any]) -> Iterator[Any]:
        yield from reversed([result for spec in specs for result in work(spec)])


class Swallows:
    def map(self, work: Callable[[Any], Iterable[Any]], specs: Iterable[Any]) -> Iterator[Any]:
        for spec in specs:
            try:
                yield from work(spec)
            except ValueError:
                continue


@pytest.mark.parametrize("broken", [Forgets, Mixes, Swallows])
def test_the_contract_finds_what_breaks_it(broken: Callable[[], Executor]) -> None:
    with pytest.raises(AssertionError):
        check_executor(broken)


def test_in_process_runs_nothing_ahead() -> None:
    begun = []

    def work(spec: int) -> Iterator[int]:
        begun.append(spec)
        yield spec

    results = InProcess().map(work, iter([1, 2, 3]))
    assert (next(results), begun) == (1, [1])


def process_number(_spec: int) -> list[int]:
    return [os.getpid()]


@pytest.mark.slow
def test_a_pool_works_in_other_processes(two: ProcessPool) -> None:
    assert os.getpid() not in set(two.map(process_number, [1, 2]))


def end_this_process(_spec: int) -> list[int]:
    os._exit(9)


@pytest.mark.slow
def test_a_process_ended_from_outside_is_said_and_the_pool_begins_anew() -> None:
    pool = ProcessPool(1)
    with pytest.raises(GceError, match="ended from outside"):
        list(pool.map(end_this_process, [1]))
    assert os.getpid() not in set(pool.map(process_number, [1]))


def lacking(_spec: int) -> list[int]:
    raise MissingExtra("mlx", "mlx")


def test_a_missing_package_is_named_from_another_process(two: ProcessPool) -> None:
    with pytest.raises(MissingExtra, match="mlx is not installed"):
        list(two.map(lacking, [1]))


def test_a_pool_needs_a_process() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ProcessPool(0)


def slow_first(spec: int) -> Iterator[int]:
    time.sleep(0.5 * (spec == 0))
    yield spec


def test_a_pool_takes_specifications_while_others_are_worked_on(two: ProcessPool) -> None:
    """What is finished comes out before the last specification is taken."""
    taken: list[int] = []

    def specs() -> Iterator[int]:
        for number in itertools.count():
            taken.append(number)
            time.sleep(0.01)
            yield number

    assert next(two.map(slow_first, specs())) in taken
    assert list(two.map(slow_first, [7])) == [7], "and the next call finds the pool free"


def test_a_pool_keeps_its_processes_from_call_to_call(two: ProcessPool) -> None:
    assert len({*two.map(process_number, range(9)), *two.map(process_number, range(9))}) <= 2


def test_executors_have_names_or_are_brought_along() -> None:
    assert isinstance(find_executor(), InProcess)
    assert isinstance(find_executor(2), ProcessPool)
    assert isinstance(find_executor(3, "test_executors:Backwards"), Backwards)
    with pytest.raises(BadInput, match="no executor 'cloud': choose one of local, ray"):
        find_executor(1, "cloud")
    with pytest.raises(BadInput, match="expected an executor"):
        find_executor(1, "test_executors:process_number")


class Backwards:
    """Finishes the last specification first."""

    def __init__(self, processes: int) -> None:
        self.processes = processes

    def map(self, work: Callable[[Any], Iterable[Any]], specs: Iterable[Any]) -> Iterator[Any]:
        for spec in reversed(list(specs)):
            yield from work(spec)


def answers(count: int) -> list[tuple[Any, Completion]]:
    return [
        (problem, Completion(problem.key, f"{place}", "stop", policy="test"))
        for place, problem in enumerate(draw_problems(toy_task.ADDITION, "small", "T0", "train", count, seed=1))
    ]


def spread(executor: Executor, evaluator: str = "verifier") -> Any:
    work = partial(_judge_one, "toy_task:ADDITION", "auto", evaluator)
    return Spread(TaskVerifier(toy_task.ADDITION), executor, work)


@pytest.mark.parametrize("make", [InProcess, lambda: Backwards(1)], ids=["in process", "backwards"])
def test_answers_are_judged_the_same_wherever_and_in_their_order(make: Callable[[], Executor]) -> None:
    given = answers(12)
    assert list(spread(make()).judge(iter(given))) == list(TaskVerifier(toy_task.ADDITION).judge(given))
    check_evaluator(spread(make()), answers(3))


def test_so_they_are_in_other_processes(two: ProcessPool) -> None:
    given = answers(12)
    assert list(spread(two).judge(iter(given))) == list(TaskVerifier(toy_task.ADDITION).judge(given))
    check_evaluator(spread(two), answers(3))


class Raising:
    deterministic, tolerance = True, 0.0

    def __init__(self, *_given: Any) -> None:
        pass

    def judge(self, _answers: Any) -> Iterator[Any]:
        raise RuntimeError("out of order")


def test_what_raises_where_it_is_judged_has_failed(two: ProcessPool) -> None:
    ((_, _, (verdict,)),) = spread(two, "test_executors:Raising").judge(answers(1))
    assert verdict.status == "failed"
    assert verdict.violations[0].message == "the evaluator test_executors:Raising raised RuntimeError: out of order"


SMALL: dict[str, Any] = {
    "task": "toy_task:ADDITION",
    "model": "toy_task:careless",
    "rollouts": {"problems": 4, "samples": 2, "second_wave": 4},
    "optimizer": {"updates": 1},
    "stopping": {"iterations": 2},
    "evaluation": {"dev": 1, "test": 2},
}


def kept(where: Mapping[str, Any]) -> dict[str, Any]:
    """A run's records, seconds left out."""
    with gce.train(**SMALL, executor=where).run() as run:
        found: dict[str, Any] = {stream: list(run.read(stream)) for stream in ("rollouts", "traces", "iterations")}
        for record in found["iterations"]:
            del record["seconds"]
        return found | {"test": run.answers("test-after")}


@pytest.mark.slow
@pytest.mark.parametrize("where", [{"judges": 2}, {"kind": "test_executors:Backwards"}], ids=["pool", "own"])
def test_a_run_ends_with_the_same_bytes_wherever_answers_are_judged(where: Mapping[str, Any]) -> None:
    whole = kept({})
    assert json.dumps(kept(where)) == json.dumps(whole)
    assert whole["rollouts"] and whole["traces"]


def test_what_was_given_from_python_is_judged_in_this_process() -> None:
    with pytest.raises(SettingError, match=r"leave out executor\.judges"):
        gce.train(**SMALL | {"task": toy_task.ADDITION}, executor={"judges": 2})


def test_settings_of_the_executor_are_kept_only_where_they_are_others() -> None:
    assert set(to_plain(ExecutorSettings())) == {"runner"}
    assert to_plain(ExecutorSettings(judges=2))["judges"] == 2
