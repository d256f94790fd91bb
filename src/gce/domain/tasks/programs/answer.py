"""Extract the program from a response: its last fenced block, or the whole response if it has no fence. Strict.

A fence is a line of three backquotes; the opening one may be followed by `python`, `py` or nothing. The program must
define the function in exactly one line that begins with `def NAME(`. A response is ambiguous, and wrong, if two of its
blocks define the function or one block defines it twice. A response without fences must begin with code. Fences and
further definitions are searched in the plain form of `gce.domain.text`, so invisible characters, full-width letters and
unusual line ends hide none. Nothing is parsed or run here: the sandbox finds out whether the program is valid Python.
"""

from __future__ import annotations

import re

from gce.domain.text import plain
from gce.domain.verdicts import Violation

__all__ = ["MOST_CHARACTERS", "fenced", "read_program"]

MOST_CHARACTERS = 20_000
"""Maximum number of characters of a response."""
_LANGUAGES = frozenset({"", "python", "py", "python3"})
_BEGINS_WITH = re.compile(r"(?:def|import|from|class|async def) |@|#")


def fenced(program: str) -> str:
    """Return a response that holds this program."""
    return f"```python\n{program.rstrip()}\n```"


def read_program(text: str, entry_point: str) -> str | Violation:
    """Return the program, or the violation if there is none, in time linear in the length of the text."""
    if len(text) > MOST_CHARACTERS:
        return _wrong("grammar", f"the response has {len(text)} characters, more than {MOST_CHARACTERS}")
    blocks = _blocks(text)
    if isinstance(blocks, Violation):
        return blocks
    if not blocks:
        program = text.strip()
        if not _BEGINS_WITH.match(program):
            return _wrong("missing-answer", "there is no fenced block, and the response is no function alone")
    else:
        language, program = blocks[-1]
        if language not in _LANGUAGES:
            return _wrong("missing-answer", "the last fenced block is not marked as Python")
        if sum(bool(_definitions(block, entry_point)) for _, block in blocks) > 1:
            return _wrong("several-answers", f"several blocks define {entry_point}")
    if not re.search(rf"^def {re.escape(entry_point)}[ \t]*\(", program, re.MULTILINE):
        return _wrong("missing-answer", f"the program has no line that begins with def {entry_point}(")
    if (count := _definitions(program, entry_point)) > 1:
        return _wrong("several-answers", f"the program defines {entry_point} {count} times")
    return program


def _definitions(program: str, entry_point: str) -> int:
    """Count the lines that define the function, in any spelling."""
    begins = re.compile(rf"(?:async\s+)?def\s+{re.escape(plain(entry_point))}\s*[(\[]")
    return sum(bool(begins.match(line)) for line in plain(program).splitlines())


def _blocks(text: str) -> list[tuple[str, str]] | Violation:
    """Return the language and content of each fenced block."""
    found: list[tuple[str, str]] = []
    inside: list[str] | None = None
    language = ""
    for line in text.split("\n"):
        stripped = plain(line).strip()
        if not stripped.startswith("```"):
            if inside is not None:
                inside.append(line)
        elif inside is None:
            inside, language = [], stripped[3:].strip().lower()
        elif stripped == "```":
            found.append((language, "\n".join(inside)))
            inside = None
        else:
            return _wrong("grammar", "a fence with text behind it stands inside a block")
    return found if inside is None else _wrong("grammar", "the last fenced block has no end")


def _wrong(kind: str, message: str) -> Violation:
    return Violation(kind, message)
