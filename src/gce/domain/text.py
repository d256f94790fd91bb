r"""Text of unknown origin: normalise it for matching words, and escape it for display.

Both work by Unicode category, so no list of single characters has to be complete. Independent of tasks and terminals.
All functions accept any `str`, lone surrogates included, in time linear in its length.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence

__all__ = ["counted", "last_line", "mentions", "plain", "printable", "voted"]

_ORDINARY = frozenset(string.printable)
_BLANK = frozenset("\u115f\u1160\U00013441\U00013442")
"""Letters by category that are drawn as nothing. U+3164 and U+FFA0 are compatibility forms of U+1160."""


def mentions(text: str, part: str) -> bool:
    """Return whether `text` holds `part` between the borders of words."""
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text) is not None


def plain(text: str) -> str:
    """Return `text` in compatibility form, without accents and invisible characters.

    Each character becomes its NFKD form (full-width letters and ligatures become plain ones). Then marks (M) and
    invisible characters are dropped: controls, format characters, surrogates, private-use and unassigned code points
    (C), and blank letters. White space stays, control characters such as the tab included; so does letter case.

    Works character by character: normalising a whole string sorts its combining marks, which takes quadratic time on a
    long run of them.
    """
    table = {ord(character): _plain_character(character) for character in set(text) - _ORDINARY}
    return text.translate(table) if table else text


def _plain_character(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    return "".join(
        part for part in parts if part.isspace() or not (unicodedata.category(part)[0] in "CM" or part in _BLANK)
    )


def printable(text: str) -> str:
    r"""`text` on one line, with an escape such as `\x1b`, `\n` or `\u202e` for what is not seen as itself.

    Escaped are controls, format characters (those that turn the direction of writing among them), surrogates,
    private-use and unassigned code points, and line and paragraph separators: categories C, Zl and Zp. Nothing that is
    shown this way moves a cursor, begins a line or hides a character. A backslash stays as it is.
    """
    if text.isprintable():
        return text
    table = {ord(character): _escaped(character) for character in set(text) if not character.isprintable()}
    return text.translate(table)


def _escaped(character: str) -> str:
    if unicodedata.category(character) == "Zs":  # A space, though `repr` calls it unprintable.
        return character
    return character.encode("unicode_escape").decode("ascii")


def counted(n: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun, as "1 task" or "1,200 tasks", or "2 patches" with the ending es."""
    return f"{n:,} {noun}{'' if n == 1 else ending}"


def last_line(text: str) -> str:
    """Return the last line that is not blank, without blanks around it."""
    return text.rstrip().rpartition("\n")[2].strip()


def voted(texts: Sequence[str]) -> int:
    """Return the place of the first text with the most frequent last line; blank texts count only among such."""
    lines = [last_line(text) for text in texts]
    return lines.index(Counter([line for line in lines if line] or lines).most_common(1)[0][0])
