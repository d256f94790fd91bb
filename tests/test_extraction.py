"""The expression that is proposed where right answers in sentences are refused."""

from __future__ import annotations

import pytest

from gce.domain.tasks.extraction import NoAnswer, expression_for, extraction_of


@pytest.mark.parametrize(
    ("known", "sentence", "found"),
    [
        (("12", "-3"), "12 + 1, so the answer is 13.", "13"),
        (("12", "3.5"), "It is 3.5 km.", "3.5"),
        (("3, 23", "7"), "The prime factors of 69 are 3, 23.", "3, 23"),
        (("3,23",), "**3,23**", "3,23"),
        (("Paris", "Rome"), "The capital is Paris.", "Paris"),
    ],
)
def test_a_proposed_expression_finds_answers_in_sentences_and_alone(
    known: tuple[str, ...], sentence: str, found: str
) -> None:
    extraction = extraction_of(expression_for(known))
    assert extraction.answer(sentence) == found
    assert [extraction.answer(extraction.write(answer)) for answer in known] == [*known]
    with pytest.raises(NoAnswer):
        extraction.answer("...")


@pytest.mark.parametrize("known", [(), ("New York", "Rome"), ("x + 1",), ("3, 23", "none")])
def test_for_other_answers_none_is_proposed(known: tuple[str, ...]) -> None:
    assert expression_for(known) == ""
