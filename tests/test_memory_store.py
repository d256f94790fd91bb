"""The store in memory keeps to the port, and the contract check finds stores that do not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gce.adapters.memory_store import MemoryStore
from gce.testing.store_contract import assert_same_state, check_store, example_state

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


def test_the_memory_store_keeps_to_the_port():
    check_store(MemoryStore, reopen=lambda store: store.reopen())


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=3))
def test_any_plain_record_comes_back_equal(record):
    store = MemoryStore()
    store.append("a", record)
    store.commit(0, None, record)
    (found,) = store.read("a")
    assert found == record and json.dumps(found) == json.dumps(record)
    assert store.last() == (0, None, record)


def test_tuples_come_back_as_lists():
    store = MemoryStore()
    store.append("a", {"tuple": (1, (2, 3))})
    store.commit(0, None, {})
    assert list(store.read("a")) == [{"tuple": [1, [2, 3]]}]


def test_a_refused_value_is_named_by_where_it_is():
    with pytest.raises(TypeError, match=r"record\.measures\.gaps\[1\]: expected a finite number, got nan"):
        MemoryStore().append("a", {"measures": {"gaps": [0.5, float("nan")]}})
    with pytest.raises(TypeError, match=r"record\.by_tier: expected keys that are strings, got 3"):
        MemoryStore().append("a", {"by_tier": {3: "x"}})


def test_a_number_too_long_to_be_written_is_refused():
    with pytest.raises(TypeError, match="record: expected plain data, got some that JSON cannot hold"):
        MemoryStore().append("a", {"whole": 10**5000})


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", "a\nb"])
def test_a_stream_needs_a_printable_name(name):
    with pytest.raises(ValueError, match="name of a stream"):
        MemoryStore().append(name, {})


def test_reopening_leaves_the_old_store_alone():
    store = MemoryStore()
    store.append("a", {"x": 1})
    store.commit(0, example_state(), {})
    other = store.reopen()
    other.append("a", {"x": 2})
    other.commit(1, None, {})
    assert list(store.read("a")) == [{"x": 1}]
    assert_same_state(store.last()[1], example_state())


class ShowsAppended(MemoryStore):
    def read(self, stream):
        return iter([*super().read(stream), *(json.loads(body) for name, body in self._pending if name == stream)])


class ForgetsAppendedOnRefusal(MemoryStore):
    def commit(self, iteration, state, loop):
        try:
            super().commit(iteration, state, loop)
        except ValueError:
            self._pending = []
            raise


class CommitsTheSameIterationTwice(MemoryStore):
    def commit(self, iteration, state, loop):
        if self._last and self._last[0] == iteration:
            self._last = None
        super().commit(iteration, state, loop)


class TakesNan(MemoryStore):
    def append(self, stream, record):
        self._pending.append((stream, json.dumps(record)))


class SharesArrays(MemoryStore):
    def commit(self, iteration, state, loop):
        super().commit(iteration, state, loop)
        self._last = (iteration, state, self._last[2])


class HandsOutItsArrays(MemoryStore):
    def last(self):
        return self._last and (self._last[0], self._last[1], json.loads(self._last[2]))


class ReadsLive(MemoryStore):
    def read(self, stream):
        return (json.loads(body) for body in self._streams.get(stream, ()))


class NewestFirst(MemoryStore):
    def read(self, stream):
        return reversed(list(super().read(stream)))


class KeepsOnlyTheLastState(MemoryStore):
    def commit(self, iteration, state, loop):
        before = self._last
        super().commit(iteration, state, loop)
        if state is None and before:
            self._last = (iteration, before[1], self._last[2])


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
    ],
)
def test_the_contract_finds_a_store_that_breaks_it(broken):
    with pytest.raises(AssertionError):
        check_store(broken)


def test_the_contract_finds_a_store_that_keeps_what_was_not_committed():
    def reopen(store):
        found = store.reopen()
        found._pending = store._pending
        return found

    with pytest.raises(AssertionError, match=r"commits survive|nothing survives"):
        check_store(MemoryStore, reopen=reopen)
    with pytest.raises(AssertionError):
        check_store(MemoryStore, reopen=lambda store: MemoryStore())
