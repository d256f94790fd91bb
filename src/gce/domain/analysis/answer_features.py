"""Features of an answer that can be read off its text and its conversation, without a model."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from gce.domain.conversations import Conversation

__all__ = ["FEATURES"]

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_HEDGES = frozenset(("maybe", "perhaps", "probably", "possibly", "might", "could", "may", "seems", "likely", "unsure"))
_REVERSALS = frozenset(("but", "however", "actually", "wait", "although", "instead", "nevertheless", "yet"))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _among(words: list[str], some: frozenset[str]) -> float:
    """Occurrences for 100 words."""
    return 100 * sum(word in some for word in words) / len(words) if words else 0.0


def _of_text(read: Callable[[str], float]) -> Callable[[Conversation], float]:
    return lambda conversation: read(conversation.last.completion.text)


FEATURES: Mapping[str, Callable[[Conversation], float]] = {
    "words, log2": _of_text(lambda text: math.log2(1 + len(_words(text)))),
    "numbers, log2": _of_text(lambda text: math.log2(1 + len(_NUMBER.findall(text)))),
    "lines, log2": _of_text(lambda text: math.log2(1 + text.count("\n"))),
    "hedges, % of words": _of_text(lambda text: _among(_words(text), _HEDGES)),
    "reversals, % of words": _of_text(lambda text: _among(_words(text), _REVERSALS)),
    "questions, log2": _of_text(lambda text: math.log2(1 + text.count("?"))),
    "distinct words, share": _of_text(lambda text: len(set(_words(text))) / max(1, len(_words(text)))),
    "replies": lambda conversation: float(conversation.replies),
    "truncated": lambda conversation: float(conversation.last.completion.finish_reason == "length"),
}
"""Of the answer that counts, each in time linear in its length: an entry is one line."""
