"""The grammar of a stated probability, the verdict on it, and answers that were made to confuse them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.completions import Completion
from gce.domain.problems import Problem
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.beliefs.answer import parse, render, render_percent
from gce.domain.verdicts import Violation

BELIEFS = TASKS["beliefs"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Answer: 0.35", 0.35),
        ("Answer: 35 %", 0.35),
        ("Answer: 35%", 0.35),
        ("Answer: 35.5 %", 0.355),
        ("Answer: 0", 0.0),
        ("Answer: 1", 1.0),
        ("Answer: 1.000", 1.0),
        ("Answer: 1 %", 0.01),
        ("Answer: 0 %", 0.0),
        ("Answer: 100 %", 1.0),
        ("Answer: 100.0%", 1.0),
        ("At first 20 %, then 1e999.\nAnswer: 0.9\nNo:\nAnswer: 0.4\n \n", 0.4),
        ("NaN or -3\nAnswer: 40 %\r\n", 0.4),
    ],
)
def test_what_the_grammar_reads(text: str, expected: float) -> None:
    assert parse(text) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "NaN",
            "nan",
            "inf",
            "1e999",
            "1e-3",
            "-0.5",
            "+0.5",
            "-5 %",
            "\u22125 %",
            "0,35",
            "35",
            "35.0",
            "1.5",
            "1.01",
        ),
        *("100.1 %", "101 %", "1000 %", "035 %", "00.5", "0.", ".5", "5. %", "0.5 %%", "0.5  %", "35 percent", "35 %."),
        *(
            "0.3 0.4",
            "0.3 or 0.4",
            "0.3-0.4",
            "30 % to 40 %",
            "0.3, 0.4",
            "1/2",
            "**0.5**",
            "?",
            " 0.5",
            "\u0660.\u0665",
        ),
        *("\u0663\u0665 %", "\uff10.\uff15", "\u096b\u0966 %", "0.5\u200b", "3\u0665 %", "0.5\x00", "\ud800", "0x1p-1"),
        *("0." + "3" * 21, "0." + "3" * 100_000, "9" * 100_000 + " %", "True", "[0.5]", "X %", "about 0.5"),
    ],
    ids=lambda said: f"{said[:12]!a}",
)
def test_what_the_grammar_does_not_read(said: str) -> None:
    """Unreadable, and not wrong: the reward is 0, and no belief is recorded."""
    found = parse(f"Answer: {said}")
    assert isinstance(found, Violation) and found.kind == "grammar"
    (verdict,) = BELIEFS.judge(problem(), Completion("k", f"Answer: {said}", "stop", "policy"))
    assert (verdict.status, verdict.score) == ("unreadable", 0.0)
    assert "belief" not in verdict.measures and "posterior" in verdict.measures


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "Answer: ",
        "0.5",
        "answer: 0.5",
        "Answer:0.5",
        "The Answer: 0.5",
        "Answer: 0.5\nThat is it.",
        "Answer\uff1a 0.5",
    ],
)
def test_a_last_line_without_the_mark_is_missing(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Violation) and found.kind == "missing-answer"


def problem() -> Problem:
    return draw_problem(BELIEFS, "sources", "B1", "test", 0)


def test_a_probability_in_the_thought_is_not_the_answer() -> None:
    def status(text: str) -> tuple[str, float | None]:
        (verdict,) = BELIEFS.judge(problem(), Completion("k", text, "stop", "policy"))
        return verdict.status, verdict.measures.get("belief")

    assert status("<think>\nAnswer: 0.9\n</think>\nAnswer: 0.25")[1] == 0.25
    assert status("<think>\nAnswer: 0.9\n</think>\nI am not sure.") == ("unreadable", None)
    assert status("<think>\nAnswer: 0.9") == ("unreadable", None)


def test_the_form_of_other_collections_is_read_on_request_alone() -> None:
    text = "First \\finalBeliefProb{0.2}, in the end \\finalBeliefProb{0.7}."
    assert isinstance(parse(text), Violation)
    assert parse(text, final_belief=True) == 0.7
    assert parse("\\finalBeliefProb{70 %}", final_belief=True) == pytest.approx(0.7)
    assert parse("Answer: 0.1\n\\finalBeliefProb{0.7}", final_belief=True) == 0.7
    assert parse("\\finalBeliefProb{0.7}\nAnswer: 0.1", final_belief=True) == 0.1
    for said in ("1.7", "-0.1", "0.2 0.3", "{0.2}", "nan", ""):
        assert isinstance(parse(f"\\finalBeliefProb{{0.5}} \\finalBeliefProb{{{said}}}", final_belief=True), Violation)
    assert isinstance(parse("\\finalBeliefProb{0.5} \\finalBeliefProb{0.6", final_belief=True), Violation)


@given(st.floats(0, 1))
def test_a_probability_is_read_back(probability: float) -> None:
    assert parse(render(probability)) == pytest.approx(probability, abs=1e-15)
    assert parse(render_percent(probability, places=12)) == pytest.approx(probability, abs=1e-14)
    assert parse(render_percent(probability)) == pytest.approx(probability, abs=0.00501)


@pytest.mark.parametrize("probability", [-0.01, 1.01, float("nan"), float("inf")])
def test_what_is_no_probability_is_not_written(probability: float) -> None:
    for write in (render, render_percent):
        with pytest.raises(ValueError, match=r"expected a probability in \[0, 1\]"):
            write(probability)


@given(st.text(st.characters()), st.booleans())
def test_any_text_is_read_or_refused(text: str, final_belief: bool) -> None:
    for each in (text, f"Answer: {text}", f"{text}\nAnswer: 0.5", f"\\finalBeliefProb{{{text}}}"):
        found = parse(each, final_belief=final_belief)
        assert isinstance(found, Violation) or 0.0 <= found <= 1.0


def hostile(rng: random.Random) -> str:
    pieces = (
        *("Answer: ", "Answer:", "answer: ", "\\finalBeliefProb{", "}", "\n", "\r\n", " ", "\t", "<think>", "</think>"),
        *(
            "0.35",
            "35 %",
            "35%",
            "100 %",
            "100.0001 %",
            "1e999",
            "NaN",
            "-",
            "\u2212",
            "+",
            ".",
            ",",
            "0",
            "1",
            "9" * 50,
        ),
        *("\u0663", "\uff15", "\u200b", "\x00", "\ud800", "%", "\uff05", "{", "inf", "or", "1/2", "0.3 0.4", "e5", "_"),
    )
    return "".join(rng.choices(pieces, k=rng.randint(0, 12)))


def judge_hostile_answers(count: int) -> None:
    rng, asked = random.Random(0), draw_problem(BELIEFS, "sources", "B1", "test", 0)
    seen = set()
    for _ in range(count):
        text = hostile(rng)
        (verdict,) = BELIEFS.verify(asked, Completion("k", text, "stop", "policy"), None)
        assert verdict.status in ("right", "wrong", "unreadable") and verdict.score is not None
        assert 0.0 <= verdict.score <= 1.0 and (verdict.status == "unreadable") == ("belief" not in verdict.measures)
        seen.add(verdict.status)
        parse(text, final_belief=True)
    assert {"wrong", "unreadable"} <= seen


def test_hostile_answers_are_graded_or_unreadable() -> None:
    judge_hostile_answers(3_000)


@pytest.mark.slow
def test_a_hundred_thousand_hostile_answers_crash_nothing() -> None:
    judge_hostile_answers(100_000)
