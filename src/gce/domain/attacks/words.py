"""Attacks on words: one edit disturbs one word."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from gce.domain.attacks.attack import PromptAttack, Words

__all__ = ["WORD_ATTACKS"]

Bug = Callable[[str, random.Random], str]
"""Disturbs a word of at least one character."""

_ROWS = ("1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm")
_NEIGHBOURS = {
    key: "".join(
        _ROWS[row + up][column + side]
        for up in (-1, 0, 1)
        for side in (-1, 0, 1)
        if (up, side) != (0, 0)
        and (row + up in range(1, len(_ROWS)) if row else up == 0)
        and 0 <= column + side < len(_ROWS[row + up])
    )
    for row, keys in enumerate(_ROWS)
    for column, key in enumerate(keys)
}
"""Keys around a key of an American keyboard, on a square grid: letters by letters, digits by digits."""
_ALIKE = str.maketrans(
    "aceijopsxyABCEHIKMOPTXlu",
    "\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0445\u0443\u0410\u0412\u0421\u0415\u041d\u0406\u041a\u041c\u041e"
    "\u0420\u0422\u0425\u04cf\u057d",
)
"""Letters of other scripts that look the same."""


def _at(word: str, place: int, new: str, *, length: int = 1) -> str:
    return word[:place] + new + word[place + length :]


def _letter(like: str, rng: random.Random) -> str:
    if like.isdigit():
        return rng.choice(string.digits)
    letter = rng.choice(string.ascii_lowercase)
    return letter.upper() if like.isupper() else letter


def _swap(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word) - 1)
    return _at(word, place, word[place + 1] + word[place], length=2)


def _substitute(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word))
    return _at(word, place, _letter(word[place], rng))


def _delete(word: str, rng: random.Random) -> str:
    return _at(word, rng.randrange(len(word)), "")


def _insert(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word))
    return _at(word, place, _letter(word[place], rng), length=0)


def _deepwordbug(word: str, rng: random.Random) -> str:
    return rng.choice((_swap, _substitute, _delete, _insert) if len(word) > 1 else (_insert,))(word, rng)


def _inside(bug: Bug) -> Bug:
    """Return the bug for what stands between the first and the last character."""
    return lambda word, rng: word[0] + bug(word[1:-1], rng) + word[-1]


def _split(word: str, rng: random.Random) -> str:
    return _at(word, rng.randrange(1, len(word)), " ", length=0)


def _look_alike(word: str, rng: random.Random) -> str:
    places = [place for place, letter in enumerate(word) if letter.translate(_ALIKE) != letter]
    if not places:
        return word
    place = rng.choice(places)
    return _at(word, place, word[place].translate(_ALIKE))


def _textbugger(word: str, rng: random.Random) -> str:
    inner: tuple[Bug, ...] = (_split, _inside(_delete), _inside(_swap)) if len(word) > 3 else ()
    return rng.choice((*inner, _look_alike))(word, rng)


def _typo(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word))
    key = rng.choice(_NEIGHBOURS.get(word[place].lower(), word[place]))
    return _at(word, place, key.upper() if word[place].isupper() else key)


def _other_case(word: str, rng: random.Random) -> str:
    place = rng.randrange(len(word))
    return _at(word, place, word[place].swapcase())


def _space(word: str, rng: random.Random) -> str:
    return rng.choice((" ", "  ", "\t")) + word


def _on_words(name: str, words: str, bug: Bug) -> PromptAttack:
    def perturb(text: str, places: Words, rng: random.Random, edits: int) -> str:
        changed = {place: bug(text[place[0] : place[1]], rng) for place in places[:edits]}
        for (start, end), word in sorted(changed.items(), reverse=True):
            text = text[:start] + word + text[end:]
        return text

    return PromptAttack(name, words, perturb)


WORD_ATTACKS = (
    _on_words(
        "deepwordbug",
        "two letters swapped, or one substituted, deleted or inserted (Gao et al. 2018)",
        _deepwordbug,
    ),
    _on_words(
        "textbugger",
        "a space inside, an inner letter deleted, two swapped, or a look-alike (Li et al. 2018)",
        _textbugger,
    ),
    _on_words("typos", "a key beside the right one", _typo),
    _on_words("look-alikes", "a letter of another script that looks the same", _look_alike),
    _on_words("case", "a letter in the other case", _other_case),
    _on_words("whitespace", "further blanks or a tab before a word", _space),
)
