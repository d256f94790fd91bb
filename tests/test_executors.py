from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from gce.adapters.executors.in_process import InProcess
from gce.adapters.executors.process_pool import ProcessPool
from gce.errors import GceError, MissingExtra
from gce.ports.executor import Executor
from gce.testing.contracts.executor import check_executor


@pytest.mark.parametrize("make", [InProcess, lambda: ProcessPool(2)], ids=["in process", "process pool"])
def test_executors_keep_the_contract(make: Callable[[], Executor]) -> None:
    check_executor(make)


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


def test_a_pool_works_in_other_processes() -> None:
    assert os.getpid() not in set(ProcessPool(2).map(process_number, [1, 2]))


def end_this_process(_spec: int) -> list[int]:
    os._exit(9)


def test_a_process_ended_from_outside_is_said() -> None:
    with pytest.raises(GceError, match="ended from outside"):
        list(ProcessPool(1).map(end_this_process, [1]))


def lacking(_spec: int) -> list[int]:
    raise MissingExtra("mlx", "mlx")


def test_a_missing_package_is_named_from_another_process() -> None:
    with pytest.raises(MissingExtra, match="mlx is not installed"):
        list(ProcessPool(1).map(lacking, [1]))


def test_a_pool_needs_a_process() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        ProcessPool(0)
