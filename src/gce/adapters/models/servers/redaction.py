r"""A key taken out of what a server says, in whatever way it is written there.

A server, or a proxy before it, may repeat what it was sent: whole or in part, in other letter case, with line ends or
invisible characters within, percent-encoded, with the escapes of JSON, Python or HTML, in base64 or in hexadecimal. All
of these are replaced by `[key]`, and so are the key's first and last half by themselves. Knows nothing of HTTP.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["SHORTEST_SECRET", "Redaction", "redacted"]

SHORTEST_SECRET = 8
"""A shorter key is a placeholder such as `none` or `EMPTY`, which local servers require: redacting it would change what
models write. Shorter parts of a key are not redacted either."""

_SHOWN = "[key]"
_UNSEEN = "[^!-~]*+"
"""Matches what may separate a key's characters: white space and everything that is not ASCII, which no key contains."""
_UNSEEN_OR_ESCAPED = rf"{_UNSEEN}(?:\\[nrt]{_UNSEEN}){{0,4}}+"
"""Also a few line ends and tabs written as escapes; a key may begin within these."""
_RUNS = re.compile(r"\\+|[^\\]")
"""Matches what is written out as one: a character, or backslashes in a row."""
_REST = r"[\w.+/=*~-]*"
"""Matches what may follow the first half of a key: part of the rest, or asterisks in its place."""


class Redaction:
    """Removes one key from text. Its repr hides the key."""

    def __init__(self, key: str) -> None:
        """`key` is printable ASCII without spaces; nothing is redacted if it is empty or a placeholder."""
        self._pattern = re.compile("|".join(_forms(key)), re.IGNORECASE) if len(key) >= SHORTEST_SECRET else None

    def __repr__(self) -> str:
        return "Redaction()"

    def text(self, text: str) -> str:
        """Return `text` without the key, in linear time."""
        if self._pattern is None or len(text) < SHORTEST_SECRET:
            return text
        return self._pattern.sub(_SHOWN, text)

    def value(self, value: Any) -> Any:
        """Return decoded JSON without the key in any text, field names included.

        Raises:
            RecursionError: the value is nested too deeply.
        """
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(each) for each in value]
            case dict():
                return {self.text(name): self.value(each) for name, each in value.items()}
        return value


def redacted(text: str, redactions: Iterable[Redaction]) -> str:
    """Return a text without any of the keys."""
    for redaction in redactions:
        text = redaction.text(text)
    return text


def _forms(key: str) -> Iterator[str]:
    """Yield patterns of the ways in which a key, or half of it, can be written."""
    unseen = _UNSEEN if "\\" in key else _UNSEEN_OR_ESCAPED
    half = max(SHORTEST_SECRET, len(key) // 2)
    for part, rest in ((key, ""), (key[:half], _REST), (key[-half:], "")):
        yield unseen.join(map(_written, _RUNS.findall(part))) + rest
    yield key.encode().hex()
    for coded in _in_base64(key):
        yield unseen.join(_in_either_alphabet(character) for character in coded) + "=*"


def _written(character: str) -> str:
    """Return a pattern of a character or of backslashes in a row, as they are or escaped, as in URLs, JSON and HTML."""
    if character[1:]:
        return _backslashes(len(character))
    code = ord(character)
    plain = re.escape(character) if character.isalnum() else rf"\\{{0,8}}{re.escape(character)}"
    return rf"(?:{plain}|%(?:25){{0,4}}{code:02x}|\\{{1,8}}(?:u00|x){code:02x}|&#0{{0,8}}{code};|&#x0{{0,8}}{code:x};)"


def _backslashes(count: int) -> str:
    """Return a pattern of several in a row, which escapes make more of: how many stand for one must not be tried."""
    one = r"(?>\\{1,8}(?:u00|x)5c|\\|%(?:25){0,4}5c|&#0{0,8}92;|&#x0{0,8}5c;)"
    return f"{one}(?:{_UNSEEN}{one}){{{count - 1},{9 * count - 1}}}"


def _in_base64(key: str) -> Iterator[str]:
    """Yield the key in base64 within a longer text, for each of the three alignments."""
    data = key.encode()
    for before in range(3):
        coded = b64encode(bytes(before) + data).decode()
        yield coded[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]


def _in_either_alphabet(character: str) -> str:
    return {"+": r"(?:[+-]|%2b)", "/": r"(?:\\{0,8}/|_|%2f)"}.get(character, character)
