"""Answers that are lists of items, such as "red, white, green"."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

__all__ = ["glue_of", "items_of", "vocabulary"]

LISTS = 3
"""Answers that have to be lists before short ones, such as "red, white", are taken for lists, too."""


def items_of(answer: str) -> list[str]:
    """The items of an answer that is a list; none where it is not.

    A list has three items, or two numbers, with commas or semicolons, or three numbers with spaces.
    """
    items = _parts(answer)
    if len(items) == 1 and re.fullmatch("[-0-9.]+( +[-0-9.]+){2,}", answer):
        return answer.split()
    numbers = all(re.fullmatch(r"[+-]?[0-9.]+", item) for item in items)
    is_list = all(items) and len(items) >= (2 if numbers else 3) and answer[:1] not in "[{("
    return items if is_list else []


def glue_of(answer: str) -> str:
    """What stands between the items of a list."""
    return next((glue for glue in ("; ", ";", ", ", ",") if glue in answer), " ")


def vocabulary(answers: Iterable[str]) -> Counter[str]:
    """In how many of the answers each item occurs; empty unless some answers are lists and have items in common."""
    known = [(items_of(answer), answer) for answer in answers if answer]
    if sum(bool(items) for items, _ in known) < LISTS:
        return Counter()
    found = Counter(item for items, answer in known for item in {*(items or _parts(answer))} if item)
    return found if max(found.values()) > 1 else Counter()


def _parts(answer: str) -> list[str]:
    return [item.strip() for item in re.split("[,;]", answer)]
