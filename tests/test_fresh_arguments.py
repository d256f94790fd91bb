"""Fresh arguments come from those of the tests, and have their types."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attacks.fresh_arguments import arguments_in, varied

TESTS = """
def check(candidate):
    assert candidate([1, 2], "a") == 3
    assert f(-1.5) == candidate([1] * 3)
    assert abs(candidate((True, None))) < 1e-6
    other(5)
"""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text("ab c", max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text("xy"), inner),
    max_leaves=8,
)


def test_arguments_are_those_that_are_written_out() -> None:
    assert sorted(map(repr, arguments_in(TESTS, "f"))) == ["[(True, None)]", "[-1.5]", "[[1, 2], 'a']"]
    assert arguments_in("assert True", "f") == []
    assert list(varied([], 9, random.Random(0))) == []


@given(st.lists(VALUES, min_size=1, max_size=3), st.integers(0, 99))
def test_values_keep_their_types_and_the_known_ones_stay(arguments: list[Any], seed: int) -> None:
    known, before = [arguments], repr(arguments)
    found = list(varied(known, 20, random.Random(seed)))
    assert len(found) == 20 and repr(arguments) == before
    assert all([type(each) for each in drawn] == [type(each) for each in arguments] for drawn in found)
    assert found == list(varied(known, 20, random.Random(seed))), "the seed says what is drawn"


def test_something_changes_where_it_can() -> None:
    found = {repr(each) for each in varied([[[1, 2, 3], "abc"]], 200, random.Random(1))}
    assert len(found) > 50 and any(each.startswith("[[1, 2, 3], ") for each in found)
