r"""A key taken out of what a server says, in whatever way it is written there.

A server, or a proxy before it, may repeat what it was sent: whole or in part, in other letter case, with line ends or
invisible characters within, percent-encoded, with the escapes of JSON, Python or HTML, in base64 or in hexadecimal. All
of these are replaced by `[key]`, and so are the key's first and last half by themselves. Knows nothing of HTTP.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

__all__ = ["SHORTEST_SECRET", "Redaction"]

SHORTEST_SECRET = 8
"""A key of fewer characters is a placeholder such as `none` or `EMPTY`, which local servers want: taking it out would
change what models write. No part of a key that is shorter is taken out either."""

_SHOWN = "[key]"
_UNSEEN = "[^!-~]*+"
"""What may stand within a key: white space and all that is not ASCII. No key holds any."""
_UNSEEN_OR_ESCAPED = rf"{_UNSEEN}(?:\\[nrt]{_UNSEEN}){{0,4}}+"
"""The same with line ends and tabs that are written as escapes, a few: a key may begin within these."""
_REST = r"[\w.+/=*~-]*"
"""What may follow the first half: as much of the rest as was kept, or asterisks in its place."""


class Redaction:
    """Takes one key out of text. Its repr hides the key."""

    def __init__(self, key: str) -> None:
        """`key` is printable ASCII without spaces; nothing is taken out where it is empty or a placeholder."""
        self._pattern = re.compile("|".join(_forms(key)), re.IGNORECASE) if len(key) >= SHORTEST_SECRET else None

    def __repr__(self) -> str:
        return "Redaction()"

    def text(self, text: str) -> str:
        """`text` without the key; linear in its length."""
        if self._pattern is None or len(text) < SHORTEST_SECRET:
            return text
        return self._pattern.sub(_SHOWN, text)

    def value(self, value: Any) -> Any:
        """Decoded JSON without the key in any text, names of fields included.

        Raises:
            RecursionError: it is nested too deeply.
        """
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(each) for each in value]
            case dict():
                return {self.text(name): self.value(each) for name, each in value.items()}
        return value


def _forms(key: str) -> Iterator[str]:
    """Patterns of the ways in which a key, or half of it, can be written."""
    written = [_written(character) for character in key]
    unseen = _UNSEEN if "\\" in key else _UNSEEN_OR_ESCAPED
    half = max(SHORTEST_SECRET, len(key) // 2)
    yield unseen.join(written)
    yield unseen.join(written[:half]) + _REST
    yield unseen.join(written[-half:])
    yield key.encode().hex()
    for coded in _in_base64(key):
        yield unseen.join(_in_either_alphabet(character) for character in coded) + "=*"


def _written(character: str) -> str:
    """A character itself, or its number as URLs, JSON, Python and HTML write it."""
    code = ord(character)
    plain = re.escape(character) if character.isalnum() else rf"\\{{0,8}}{re.escape(character)}"
    return rf"(?:{plain}|%(?:25){{0,4}}{code:02x}|\\{{1,8}}(?:u00|x){code:02x}|&#0{{0,8}}{code};|&#x0{{0,8}}{code:x};)"


def _in_base64(key: str) -> Iterator[str]:
    """What base64 makes of the key, within a text that has 0, 1 or 2 bytes over before it."""
    data = key.encode()
    for before in range(3):
        coded = b64encode(bytes(before) + data).decode()
        yield coded[(8 * before + 5) // 6 : 8 * (before + len(data)) // 6]


def _in_either_alphabet(character: str) -> str:
    return {"+": r"(?:[+-]|%2b)", "/": r"(?:\\{0,8}/|_|%2f)"}.get(character, character)
