"""Runs in memory keep to the port, and the contract check finds those that do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from present import present
from stores import reopened

from gce.adapters.runs.memory_store import MemoryReader, MemoryRun, MemoryRuns
from gce.errors import BadInput
from gce.testing.contracts.runs import assert_same_state, check_runs, example_state

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


def test_runs_in_memory_keep_to_the_port() -> None:
    check_runs(MemoryRuns(), within="runs")


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=3))
def test_any_plain_record_comes_back_equal(record: Any) -> None:
    store = MemoryRun()
    store.append("a", record)
    store.commit(0, None, record)
    (found,) = store.read("a")
    assert found == record and json.dumps(found) == json.dumps(record)
    assert store.last() == (0, None, record)


def test_tuples_come_back_as_lists() -> None:
    store = MemoryRun()
    store.append("a", {"tuple": (1, (2, 3))})
    store.commit(0, None, {})
    assert list(store.read("a")) == [{"tuple": [1, [2, 3]]}]


def test_a_refused_value_is_named_by_where_it_is() -> None:
    with pytest.raises(TypeError, match=r"record\.measures\.gaps\[1\]: expected a finite number, got nan"):
        MemoryRun().append("a", {"measures": {"gaps": [0.5, float("nan")]}})
    with pytest.raises(TypeError, match=r"record\.by_tier: expected keys that are strings, got 3"):
        MemoryRun().append("a", {"by_tier": {3: "x"}})


def test_a_number_too_long_to_be_written_is_refused() -> None:
    with pytest.raises(TypeError, match="record: expected plain data, got some that JSON cannot hold"):
        MemoryRun().append("a", {"whole": 10**5000})


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "a\nb"])
def test_a_stream_needs_a_printable_name(name: str) -> None:
    with pytest.raises(ValueError, match="name of a stream"):
        MemoryRun().append(name, {})


def test_reopening_leaves_the_old_store_alone() -> None:
    store = MemoryRun()
    store.append("a", {"x": 1})
    store.commit(0, example_state(), {})
    other = reopened(store)
    other.append("a", {"x": 2})
    other.commit(1, None, {})
    assert list(store.read("a")) == [{"x": 1}]
    assert_same_state(present(store.last())[1], example_state())


class ShowsAppended(MemoryRun):
    def read(self, stream: str) -> Any:
        return iter([*super().read(stream), *(json.loads(body) for name, body in self._pending if name == stream)])


class ForgetsAppendedOnRefusal(MemoryRun):
    def commit(self, iteration: int, state: Any, loop: Any) -> None:
        try:
            super().commit(iteration, state, loop)
        except ValueError:
            self._pending = []
            raise


class CommitsTheSameIterationTwice(MemoryRun):
    def commit(self, iteration: int, state: Any, loop: Any) -> None:
        if self._kept.last == iteration:
            self._keep(loops={})
        super().commit(iteration, state, loop)


class TakesNan(MemoryRun):
    def append(self, stream: str, record: Any) -> None:
        self._pending.append((stream, json.dumps(record)))


class SharesArrays(MemoryRun):
    def commit(self, iteration: int, state: Any, loop: Any) -> None:
        super().commit(iteration, state, loop)
        self._keep(states={**self._kept.states, iteration: state})


class HandsOutItsArrays(MemoryRun):
    def last(self) -> Any:
        found = super().last()
        return found and (found[0], self._kept.states[found[0]], found[2])


class ReadsLive(MemoryRun):
    def read(self, stream: str) -> Iterator[Any]:
        found = 0
        while found < len(self._kept.streams.get(stream, ())):
            yield json.loads(self._kept.streams[stream][found][1])
            found += 1


class NewestFirst(MemoryRun):
    def read(self, stream: str) -> Any:
        return reversed(list(super().read(stream)))


class KeepsOnlyTheLastState(MemoryRun):
    def commit(self, iteration: int, state: Any, loop: Any) -> None:
        before = self.last()
        super().commit(iteration, state, loop)
        if state is None and before:
            self._keep(states={iteration: before[1]})


class ForgetsThePin(MemoryRun):
    def pin(self, *iterations: int) -> None:
        pass


class PinsWhatIsGone(MemoryRun):
    def pin(self, *iterations: int) -> None:
        self._keep(pinned=frozenset(iterations))


class PinsOnlyTheFirst(MemoryRun):
    def pin(self, *iterations: int) -> None:
        super().pin(iterations[0])


class KeepsAnswersThatAreNotPlain(MemoryRun):
    def write_answers(self, name: Any, answers: Any) -> None:
        self._write(f"{name}.jsonl", "\n".join(json.dumps(answer, default=str) for answer in answers))


def runs_written_by(writer: Any) -> Any:
    class Broken(MemoryRuns):
        @contextmanager
        def _writer(self, name: Any) -> Iterator[Any]:
            self._written.add(name)
            yield writer(self._kept, name)
            self._written.discard(name)

    return Broken()


def test_the_contract_passes_the_same_runs_with_a_writer_that_is_whole() -> None:
    check_runs(runs_written_by(MemoryRun), within="runs")


@pytest.mark.parametrize(
    "broken",
    [
        ShowsAppended,
        ForgetsAppendedOnRefusal,
        CommitsTheSameIterationTwice,
        TakesNan,
        SharesArrays,
        HandsOutItsArrays,
        ReadsLive,
        NewestFirst,
        KeepsOnlyTheLastState,
        ForgetsThePin,
        PinsWhatIsGone,
        KeepsAnswersThatAreNotPlain,
    ],
)
def test_the_contract_finds_a_writer_that_breaks_it(broken: Any) -> None:
    with pytest.raises((AssertionError, BadInput)):
        check_runs(runs_written_by(broken), within="runs")


class KeepsWhatWasNotCommitted(MemoryRuns):
    def __init__(self) -> None:
        super().__init__()
        self._left: dict[str, Any] = {}

    @contextmanager
    def _writer(self, name: Any) -> Iterator[Any]:
        with super()._writer(name) as run:
            run._pending = self._left.setdefault(name, run._pending)
            yield run
            self._left[name] = run._pending


class LetsTwoWrite(MemoryRuns):
    def _writer(self, name: Any) -> Any:
        return nullcontext(MemoryRun(self._kept, name))


class ReadsWhatIsWrittenNow(MemoryRuns):
    def read(self, name: Any, *, verify: bool = True) -> Any:
        reader: Any = MemoryReader(name, self._found(name))
        reader.read = lambda stream: self._kept[name].records(stream)
        return nullcontext(reader)


class TakesAnyCommitBack(MemoryRuns):
    def open(self, name: Any, *, discard_after: Any = None) -> Any:
        return super().open(name)


class FindsNothing(MemoryRuns):
    def find(self, within: Any) -> dict[str, Any]:
        return {}


class SumsUpARunThatWentOn(MemoryRuns):
    def read(self, name: Any, *, verify: bool = True) -> Any:
        reader: Any = MemoryReader(name, self._found(name))
        reader.summary = lambda: json.loads(reader._kept.text("summary") or "null")
        return nullcontext(reader)


@pytest.mark.parametrize(
    "broken",
    [
        KeepsWhatWasNotCommitted,
        LetsTwoWrite,
        ReadsWhatIsWrittenNow,
        TakesAnyCommitBack,
        FindsNothing,
        SumsUpARunThatWentOn,
    ],
)
def test_the_contract_finds_runs_that_break_it(broken: Any) -> None:
    with pytest.raises(AssertionError):
        check_runs(broken(), within="runs")
