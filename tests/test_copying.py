"""Rules that copy a part of a prompt by its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gce.domain.tasks.copying import copying_rules

PROMPTS = (
    "Unscramble 'tac' (3 letters), please.\nAnswer with one word.",
    "Unscramble 'odg' (3 letters), please.\nAnswer with one word.",
    "Unscramble 'orse h' (6 letters), please.\nAnswer with one word.",
)


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("the last word", "word"),
        ("the longest word", "Unscramble"),
        ("the first line", "Unscramble 'orse h' (6 letters), please."),
        ("the last line", "Answer with one word."),
        ("the first quoted text", "orse h"),
        ("the first word that varies", "orse"),
        ("the second word that varies", "h"),
        ("the third word that varies", "6"),
        ("the second to last word that varies", "h"),
        ("the last word that varies", "6"),
        ("the first words that vary", "orse h' (6"),
        ("the longest words that vary", "orse h' (6"),
        ("all words that vary", "orse h' (6"),
        ("the whole prompt", "Unscramble 'orse h' (6 letters), please. Answer with one word."),
        ("the first quoted text, 2 times", "orse h orse h"),
        ("the first word that varies, 5 times", "orse orse orse orse orse"),
    ],
)
def test_what_each_rule_copies(rule: str, part: str) -> None:
    """What varies between the prompts is the letters and their number."""
    assert copying_rules(PROMPTS)[rule](PROMPTS[2]) == part


def test_runs_of_words_that_vary() -> None:
    rules = copying_rules(["Add 1 and 20 now", "Add 305 and 4 now"])
    copied = {name: rule("Add 7 and 11 12 now") for name, rule in rules.items()}
    assert copied["the first words that vary"] == "7" and copied["the last words that vary"] == "11 12"
    assert copied["the longest words that vary"] == "11 12" and copied["all words that vary"] == "7 11 12"
    assert copied["the third word that varies"] == "12" and copied["the first quoted text"] == ""


def test_a_list_goes_on_with_a_comma() -> None:
    rules = copying_rules(["Order 'a, b, c' now", "Order 'd, e, f' now"])
    assert rules["the first quoted text, 2 times"]("Order 'c, a' now") == "c, a, c, a"


def test_a_long_part_is_not_repeated() -> None:
    """2,001 characters five times, with spaces between, are more than 10,000."""
    rules = copying_rules(["x" * 2001])
    assert len(rules["the last word, 2 times"]("x" * 2001)) == 4003
    assert rules["the last word, 5 times"]("x" * 2001) == ""
    assert rules["the first quoted text, 2 times"]("nothing is quoted") == ""


def test_one_prompt_alone_says_nothing_of_what_varies() -> None:
    assert not [name for name in copying_rules(PROMPTS[:1]) if "var" in name]
    assert copying_rules(()).keys() == copying_rules(PROMPTS[:1]).keys()


@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=60))
def test_every_rule_takes_any_text_and_copies_what_it_says(prompts: list[str], text: str) -> None:
    said = "".join(text.split())
    for rule in copying_rules(prompts).values():
        assert set("".join(rule(text).split())) <= set(said)
