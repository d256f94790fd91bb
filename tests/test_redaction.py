"""A key is found in whatever way a server writes it, and nothing else is changed."""

from __future__ import annotations

import base64
import html
import json
import string
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processor_time import seconds_of

from gce.adapters.models.servers.redaction import SHORTEST_SECRET, Redaction

PRINTABLE = "".join(each for each in string.printable if each.isprintable() and each != " ")
keys = st.text(PRINTABLE, min_size=SHORTEST_SECRET, max_size=60)
KEY = "sk-Proj_01/23+45=67.89"

WRITTEN = {
    "as it is": lambda key: key,
    "in small letters": str.lower,
    "in capitals": str.upper,
    "percent-encoded": lambda key: quote(key, safe=""),
    "percent-encoded whole": lambda key: "".join(f"%{ord(each):02X}" for each in key),
    "percent-encoded twice": lambda key: "".join(f"%25{ord(each):02x}" for each in key),
    "in JSON": lambda key: json.dumps(key)[1:-1],
    "in JSON with slashes escaped": lambda key: json.dumps(key)[1:-1].replace("/", "\\/"),
    "in JSON within JSON": lambda key: json.dumps(json.dumps(key))[3:-3],
    "in JSON's escapes": lambda key: "".join(f"\\u{ord(each):04x}" for each in key),
    "in Python's escapes": lambda key: "".join(f"\\x{ord(each):02x}" for each in key),
    "as Python shows bytes": lambda key: repr(key.encode())[2:-1],
    "in HTML": lambda key: "".join(f"&#{ord(each)};" for each in key),
    "in HTML's hexadecimal": lambda key: "".join(f"&#x{ord(each):X};" for each in key),
    "over lines": lambda key: "\r\n".join(key),
    "in spaced letters": lambda key: " ".join(key),
    "with what is not seen": lambda key: "\u200b\x00".join(key),
    "in base64": lambda key: base64.b64encode(key.encode()).decode(),
    "in base64 for URLs": lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
    "in base64 over lines": lambda key: base64.encodebytes(key.encode() * 2).decode(),
    "in hexadecimal": lambda key: key.encode().hex(),
}


@pytest.mark.slow
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
@given(key=keys)
@settings(max_examples=30)
def test_a_key_is_taken_out_however_it_is_written(write: Callable[..., Any], key: Any) -> None:
    found = Redaction(key).text(f"\u3010{write(key)}\u3011")
    assert "[key]" in found
    if "base64 over" not in str(write):
        for part in (key, key.lower(), write(key)):
            assert part not in found


@pytest.mark.slow
@given(keys, st.binary(max_size=9), st.binary(max_size=9))
def test_base64_of_a_text_that_holds_the_key_gives_none_of_it_away(key: Any, before: bytes, behind: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        found = Redaction(key).text(encode(before + key.encode() + behind).decode())
        assert "[key]" in found


@pytest.mark.parametrize("size", range(len(KEY) // 2, len(KEY)))
def test_half_of_a_key_is_taken_out(size: int) -> None:
    redaction = Redaction(KEY)
    assert redaction.text(f"a {KEY[:size]}*****b c") == "a [key] c"
    assert KEY[-size:] not in redaction.text(f"a {KEY[-size:]} c")


@pytest.mark.slow
@given(keys, st.text(st.characters(exclude_categories=()), max_size=60))
def test_a_text_without_the_key_stays_as_it_is(key: Any, text: str) -> None:
    if not set(key.lower()) & set(text.lower()) and not set(text) & set("%\\&") and not any(map(str.isalnum, text)):
        assert Redaction(key).text(text) == text


def test_ordinary_answers_stay_as_they_are() -> None:
    text = "A takes 2, so B starts at 2. Skipped: 50%25 of 7 &amp; 3.\nAnswer: A 0, B 2, C 5"
    for key in (KEY, "sk-no-key-required", "not-needed", "token-abc123"):
        assert Redaction(key).text(text) == text


@pytest.mark.parametrize("key", ["", "x", "0", "none", "EMPTY", "ollama", "Answer:"])
def test_a_placeholder_is_left_alone(key: str) -> None:
    assert Redaction(key).text(f"{key} Answer: A 0") == f"{key} Answer: A 0"


def test_a_value_loses_the_key_in_names_and_texts_and_nothing_else() -> None:
    value = {"a": [KEY, 3, None, True, 1.5], f"x{KEY}": {"b": f"y {KEY} z"}}
    assert Redaction(KEY).value(value) == {"a": ["[key]", 3, None, True, 1.5], "x[key]": {"b": "y [key] z"}}


def test_what_shows_a_redaction_shows_no_key() -> None:
    redaction = Redaction(KEY)
    assert KEY not in repr(redaction) + str(redaction) + repr(html.escape(str(redaction)))


@pytest.mark.slow
@pytest.mark.parametrize("key", [KEY, "s" * 40, "ab" * 100, "\\" * 20, "\\" * 41, "x\\n/" * 9])
@pytest.mark.parametrize("unit", ["a", "s", "s ", "%73", "ab", "\\", "\\n", "&#0", "&#00000000", "x\\n", "\u200b", "/"])
def test_time_grows_with_the_text(key: str, unit: str) -> None:
    redaction = Redaction(key)

    def seconds(size: Any) -> Any:
        text = (unit * size)[:size]
        return seconds_of(lambda: redaction.text(text))

    assert min(seconds(40_000) for _ in range(2)) < 12 * max(min(seconds(10_000) for _ in range(2)), 0.002)
