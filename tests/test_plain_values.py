"""Plain values as text: read back as they were, told apart by type, and nothing else lets through."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.plain_values import MOST_CHARACTERS, MOST_DEPTH, NotPlain, from_text, to_text

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
HASHABLE = st.recursive(ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3), max_leaves=4)
PLAIN = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(HASHABLE, max_size=4)
        | st.dictionaries(HASHABLE, inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
@given(PLAIN)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = to_text(value)
    assert text.isascii()
    again = from_text(text)
    assert again == value
    assert type(again) is type(value)
    assert to_text(again) == text


@pytest.mark.slow
@given(PLAIN, PLAIN)
def test_equal_text_means_equal_values(one: Any, other: Any) -> None:
    if to_text(one) == to_text(other):
        assert one == other


def test_values_that_python_calls_equal_are_told_apart_by_type() -> None:
    texts = {to_text(value) for value in (1, 1.0, True, "1", b"1", (1,), [1], {1}, frozenset({1}), {1: None}, 1 + 0j)}
    assert len(texts) == 11


def test_a_set_has_one_text_and_a_dict_keeps_its_order() -> None:
    assert to_text({3, 1, 2}) == to_text({2, 3, 1}) == '{"set":[1,2,3]}'
    assert to_text({"b": 1, "a": 2}) == '{"dict":[["b",1],["a",2]]}'


def test_numbers_that_json_lacks() -> None:
    assert math.isnan(from_text(to_text(math.nan)))
    assert from_text(to_text([math.inf, -math.inf])) == [math.inf, -math.inf]
    assert to_text(-0.0) != to_text(0.0)


def test_dictionaries_of_the_standard_library_are_dictionaries() -> None:
    for value in (Counter("aab"), OrderedDict(a=2, b=1), defaultdict(int, a=2, b=1)):
        assert from_text(to_text(value)) == {"a": 2, "b": 1}


class Sly(int):
    def __eq__(self, other: Any) -> bool:
        return True

    __hash__ = int.__hash__


class SlyText(str):
    pass


class SlyList(list[object]):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Sly(3),
        SlyText("3"),
        SlyList([3]),
        [Sly(3)],
        {Sly(3): 1},
        object(),
        iter([]),
        range(3),
        int,
        len,
        bytearray(b"a"),
        NotImplemented,
        ...,
        10**5000,
        "a" * (MOST_CHARACTERS + 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_all_else_is_refused(value: Any) -> None:
    with pytest.raises(NotPlain):
        to_text(value)


def test_depth_has_a_limit() -> None:
    value: list[object] = []
    for _ in range(MOST_DEPTH - 1):
        value = [value]
    assert from_text(to_text(value)) == value
    with pytest.raises(NotPlain, match="nested deeper"):
        to_text([[value]])
    knot: list[object] = []
    knot.append(knot)
    with pytest.raises(NotPlain, match="nested deeper"):
        to_text(knot)


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "nothing", '{"set":[[1]]}', '{"tuple":1}', '{"list":[]}', '{"a":1,"b":2}', "{}", '{"bytes":"x"}'),
        *('{"dict":[1]}', '{"float":"one"}', "[" * 100_000, "9" * 5000),
        *(
            f'{{"float":{"9" * 400}}}',
            f'{{"complex":[1,{"9" * 400}]}}',
            '{"float":[1]}',
            '{"bytes":7}',
            '{"complex":"abc"}',
        ),
    ],
)
def test_text_of_no_value_is_refused(text: str) -> None:
    with pytest.raises(NotPlain):
        from_text(text)
