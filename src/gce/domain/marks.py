"""Where in an answer's text the things stand that its violations are about. Knows no task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

__all__ = ["Piece", "pieces"]

MOST_LABELS = MOST_PLACES = 200
"""Labels that are looked for, of all violations together, and places that are marked."""
_QUOTED = re.compile(r"'([^'\n]{2,60})'|\"([^\"\n]{2,60})\"")


@frozen
class Piece:
    """A stretch of an answer's text."""

    text: str
    about: tuple[int, ...] = ()
    """Numbers from 1 of the violations that it is marked for; none where it is as it should be, or cannot be told."""


def pieces(text: str, violations: Sequence[tuple[Sequence[str], str]]) -> tuple[Piece, ...]:
    """The text in pieces, some of them marked; joined they are the text.

    A violation is (labels, message). Marked is each place of a label as a word of its own in the last line that is not
    blank, where answers stand; without labels, what the message quotes. Takes time linear in the text's length.
    """
    start = len(text.rstrip().rpartition("\n")[0])
    places: dict[tuple[int, int], list[int]] = {}
    looked_for = [(number, label) for number, found in enumerate(violations, 1) for label in _labels(*found)]
    for number, label in looked_for[:MOST_LABELS]:
        for place in _words(text, label, start):
            if len(places) < MOST_PLACES:
                places.setdefault((place, place + len(label)), []).append(number)
    return tuple(_cut(text, places))


def _labels(labels: Sequence[str], message: str) -> list[str]:
    found = labels or [one or other for one, other in _QUOTED.findall(message)]
    return [label for label in dict.fromkeys(found) if label.strip()]


def _words(text: str, word: str, start: int) -> Iterator[int]:
    """Where `word` begins, from `start` on, without a letter or digit that would go on with it on either side."""
    while (place := text.find(word, start)) >= 0:
        end = place + len(word)
        before, after = text[max(place - 1, 0) : place], text[end : end + 1]
        if not (before.isalnum() and word[0].isalnum()) and not (after.isalnum() and word[-1].isalnum()):
            yield place
        start = end


def _cut(text: str, places: dict[tuple[int, int], list[int]]) -> Iterator[Piece]:
    done = 0
    for (start, end), numbers in sorted(places.items()):
        if start < done:  # Within a longer one, or over its end.
            continue
        if start > done:
            yield Piece(text[done:start])
        yield Piece(text[start:end], tuple(sorted(set(numbers))))
        done = end
    if done < len(text) or not text:
        yield Piece(text[done:])
