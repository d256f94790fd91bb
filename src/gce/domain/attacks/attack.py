"""What an attack on a prompt is, which words it may change, and whether the meaning is kept.

Independent of models and strategies.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

from attrs import frozen

from gce.domain.problems import Problem
from gce.domain.serialization import to_plain
from gce.domain.tasks.task import Task

__all__ = ["PromptAttack", "Words", "keeps_meaning", "labels_of", "words_of"]

Words = tuple[tuple[int, int], ...]
"""Places (start, end) in a text."""

LEAST = 3
"""Letters of a word that may be changed."""
_WORD = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]+")
_QUOTED = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_MARKERS = frozenset({"answer"})
"""Words by which answers are found."""


@frozen
class PromptAttack:
    """An attack on prompts: an entry of `ATTACKS`."""

    name: str
    help: str
    perturb: Callable[[str, Words, random.Random, int], str]
    """(text, words that may be changed in the order of attack, generator, number of edits) -> the attacked text. No
    edits change nothing. With the same generator, fewer edits are the first of more."""


def labels_of(instance: Any) -> frozenset[str]:
    """Return the words that name something in an instance: its texts that are one word."""
    return frozenset(text for text in _texts(to_plain(instance)) if _WORD.fullmatch(text))


def _texts(plain: Any) -> Iterator[str]:
    if isinstance(plain, str):
        yield plain
    elif isinstance(plain, dict):
        for value in plain.values():
            yield from _texts(value)
    elif isinstance(plain, list | tuple):
        for value in plain:
            yield from _texts(value)


def words_of(text: str, labels: Collection[str], *, everything: bool = False) -> Words:
    """Return the words that an attack may change: with `everything` all, else no numbers, labels, capitals or code."""
    if everything:
        return tuple(match.span() for match in _WORD.finditer(text))
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    return tuple(
        match.span()
        for match in _WORD.finditer(text)
        if not _is_protected(match.group(), labels)
        and len(match.group()) >= LEAST
        and not any(start <= match.start() < end for start, end in quoted)
    )


def _is_protected(word: str, labels: Collection[str]) -> bool:
    """Return whether a word carries data: a number, a name, a label, a placeholder or the mark of the answer."""
    return _LETTERS.fullmatch(word) is None or word in labels or word.isupper() or word.lower() in _MARKERS


def keeps_meaning(task: Task, problem: Problem, text: str) -> bool:
    """True if the text still states the problem: it is read back into the same instance where the task can do that.

    Otherwise its lines must hold the same protected words as before, line by line in any order.
    """
    if task.audit.restates is not None:
        return task.audit.restates(problem.instance, text)
    labels = labels_of(problem.instance)
    return _data(problem.prompt[-1].content, labels) == _data(text, labels)


def _data(text: str, labels: Collection[str]) -> Counter[tuple[str, ...]]:
    """Return the protected words of each line that has some."""
    lines = (tuple(word for word in _WORD.findall(line) if _is_protected(word, labels)) for line in text.split("\n"))
    return Counter(line for line in lines if line)
