"""Answers that are lists: their items, and scores that pay for incomplete ones."""

from __future__ import annotations

import re
from typing import Any

import pytest

import gce
from gce.domain.tasks.answer_lists import glue_of, items_of, vocabulary
from gce.domain.tasks.own import ONE_ITEM
from gce.testing.verifiers.check import TaskReport, check_task
from gce.testing.verifiers.responses import near_misses

FLAGS = {
    **{"France": "blue, white, red", "Italy": "green, white, red", "Germany": "black, red, yellow"},
    **{"Japan": "white, red", "Poland": "white, red", "Sweden": "blue, yellow", "Ukraine": "blue, yellow"},
    **{"Ireland": "green, white, orange", "Belgium": "black, yellow, red", "Austria": "red, white"},
    **{"Canada": "red, white", "China": "red, yellow", "Denmark": "red, white", "Finland": "white, blue"},
    **{"Greece": "blue, white", "Norway": "red, white, blue", "Spain": "red, yellow", "Turkey": "red, white"},
    **{"India": "orange, white, green, blue", "Jamaica": "green, yellow, black", "Nigeria": "green, white"},
    **{"Hungary": "red, white, green", "Argentina": "blue, white, yellow", "Colombia": "yellow, blue, red"},
}
ROWS = [{"prompt": f"Which colours are in the flag of {land}?", "answer": colours} for land, colours in FLAGS.items()]
KNOWN = {item for colours in FLAGS.values() for item in colours.split(", ")}


def named(answer: str) -> set[str]:
    return {*re.findall("[a-z]+", answer.lower())} & KNOWN


def precision(answer: str, row: Any) -> float:
    """Leaky: what is missing costs nothing."""
    said = named(answer)
    return len(said & named(row["answer"])) / len(said) if said else 0.0


def jaccard(answer: str, row: Any) -> float:
    said, right = named(answer), named(row["answer"])
    return len(said & right) / len(said | right) if said else 0.0


def checked(score: Any, **options: Any) -> TaskReport:
    return check_task(gce.task(ROWS, score, name="flags", admit_at=1.0), responses=200, **options)


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        ("red, white, green", ["red", "white", "green"]),
        ("4; 2", ["4", "2"]),
        ("4 2 1", ["4", "2", "1"]),
        ("Paris, France", []),
        ("[1, 2, 3]", []),
        ("a,,b", []),
        ("", []),
    ],
)
def test_items(answer: str, items: list[str]) -> None:
    assert items_of(answer) == items


def test_what_stands_between_items() -> None:
    assert [glue_of(answer) for answer in ("a; b", "a, b", "a,b", "1 2 3")] == ["; ", ", ", ",", " "]


def test_short_lists_count_once_some_answers_are_lists() -> None:
    assert vocabulary(FLAGS.values())["white"] == 16
    assert not vocabulary(["Paris, France", "Rome, Italy"])
    assert not vocabulary(["a, b, c", "d, e, f", "g, h, i"]), "nothing in common"
    assert not vocabulary([])


def test_an_item_of_another_answer_takes_the_place_of_nonsense() -> None:
    found = near_misses("red, white, green", ["white", "blue"])
    assert found["an item more"] == "red, white, green, blue"
    assert found["the first item changed"] == "blue, white, green"
    assert near_misses("red, white, green")["an item more"] == "red, white, green, green7"


@pytest.mark.slow
def test_a_score_that_misses_nothing_is_found_by_dropped_items() -> None:
    report = checked(precision)
    kinds = {finding.kind for finding in report.findings}
    assert {"the first item dropped", "the last item dropped"} <= kinds
    assert "hedging" not in report.found and report.table().startswith("  check")


@pytest.mark.slow
def test_a_sound_score_of_sets_has_no_finding() -> None:
    assert checked(jaccard).ok
    assert checked(
        jaccard, accepts=lambda row, text: named((text.strip().splitlines() or [""])[-1]) == named(row["answer"])
    ).ok


def test_one_item_is_a_prompt_blind_baseline() -> None:
    """White is in 16 of 24 flags, and so is red."""
    task = gce.task(ROWS, precision, name="flags")
    assert ONE_ITEM in str(gce.audit(task))
    sums = gce.task([{"prompt": f"{n}?", "answer": n} for n in range(40)], lambda a, row: a == str(row["answer"]))
    assert ONE_ITEM not in str(gce.audit(sums))
