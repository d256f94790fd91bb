"""Numbers with their nouns, wherever a message counts something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gce
from gce.domain.text import counted


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 tasks"), (1, "1 task"), (2, "2 tasks"), (1200, "1,200 tasks")], ids=str
)
def test_a_noun_is_plural_unless_there_is_one(n: int, words: str) -> None:
    assert counted(n, "task") == words


def test_no_message_puts_an_s_behind_a_length_that_may_be_one() -> None:
    """Lengths that a message begins with, or that follow a colon, as "1 tasks" did."""
    package = Path(gce.__file__).parent
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r'(?:put|note|say)\(f"(?:\{\w+\}: )?\{(?:count|n|len\([\w.]+\))(?::,)?\} [a-z]+s\b', line)
    ]
    assert found == []
