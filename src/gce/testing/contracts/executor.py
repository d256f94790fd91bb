"""Contract checks for executors: one check for each sentence of the docstring in `gce.ports.executor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from gce.ports.executor import Executor

__all__ = ["check_executor"]


def check_executor(make: Callable[[], Executor]) -> None:
    """Run all checks, each with a new executor.

    Raises:
        AssertionError: a check failed; the message says what the executor did.
    """
    for check in (
        _every_result_comes_once,
        _results_of_one_specification_stay_together,
        _nothing,
        _errors_are_raised,
        _several_calls_share_it,
    ):
        check(make())


def _upward(count: int) -> Iterator[tuple[int, int]]:
    yield from ((count, place) for place in range(count))


def _refusing(count: int) -> Iterator[int]:
    if count == 2:
        raise ValueError("2 is refused")
    yield count


def _every_result_comes_once(executor: Executor) -> None:
    found = sorted(executor.map(_upward, [3, 1, 0, 2]))
    assert found == [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)], found


def _results_of_one_specification_stay_together(executor: Executor) -> None:
    found = list(executor.map(_upward, [4, 5, 6]))
    starts = [place for place, (_, number) in enumerate(found) if number == 0]
    assert len(starts) == 3, found
    for start in starts:
        count = found[start][0]
        assert found[start : start + count] == list(_upward(count)), found


def _nothing(executor: Executor) -> None:
    assert list(executor.map(_upward, [])) == []


def _errors_are_raised(executor: Executor) -> None:
    try:
        found = list(executor.map(_refusing, [1, 2]))
    except ValueError as error:
        assert "2 is refused" in str(error), error
    else:
        raise AssertionError(f"expected what the work raised, got {found}")


def _several_calls_share_it(executor: Executor) -> None:
    """Answers are judged while others are still sampled, so calls begin while workers are busy with others."""
    count = 1_200
    calls = [executor.map(_upward, [1] * count) for _ in range(3)]
    found = [list(islice(call, 2)) for call in calls]
    for results, call in zip(found, calls, strict=True):
        results += call
    assert [len(results) for results in found] == [count] * 3, found
