"""Near-duplicates between two sets of texts, by shared runs of words.

Problems of one task share a template, so that runs of words which many texts have say nothing and are left out. Finds
copies with small changes, in any order of lines; does not find paraphrases.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping

from attrs import frozen

__all__ = ["COMMON", "LEAST_SIMILARITY", "RUN", "NearDuplicate", "NearDuplicates", "near_duplicates"]

RUN = 5
"""Words of a run; each sign of punctuation is a word."""
COMMON = 0.1
"""Share of all texts above which a run that they contain counts as template."""
LEAST_SIMILARITY = 0.8
"""Jaccard similarity of the remaining runs from which two texts are near-duplicates."""

_WORD = re.compile(r"\w+|[^\w\s]")


@frozen
class NearDuplicate:
    """Two texts, by their names, and the Jaccard similarity of their runs of words, in (0, 1]."""

    one: str
    other: str
    similarity: float


@frozen
class NearDuplicates:
    """What was found between two sets of texts."""

    compared: int
    """Texts of the second set that have runs of their own."""
    template: int
    """Texts of the second set that consist of template alone, which cannot be compared."""
    found: tuple[NearDuplicate, ...]
    """For each text of the second set the most similar one of the first, where they are near-duplicates."""
    highest: float
    """The highest similarity of any two, in [0, 1]."""


def near_duplicates(ones: Mapping[str, str], others: Mapping[str, str]) -> NearDuplicates:
    """Compare each text of `others` with all of `ones`; both are texts by name."""
    all_runs = [[_runs(text) for text in texts.values()] for texts in (ones, others)]
    counts = Counter(run for of_set in all_runs for each in of_set for run in each)
    most = max(2, COMMON * (len(ones) + len(others)))
    first, second = ([frozenset(run for run in each if counts[run] <= most) for each in of_set] for of_set in all_runs)
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, each in enumerate(first):
        for run in each:
            holders[run].append(place)
    names, found, highest = list(ones), [], 0.0
    for name, each in zip(others, second, strict=True):
        shared = Counter(place for run in each for place in holders.get(run, ()))
        similar = {place: count / (len(each) + len(first[place]) - count) for place, count in shared.items()}
        best = max(similar, key=lambda place: (similar[place], -place), default=None)
        if best is not None:
            highest = max(highest, similar[best])
            if similar[best] >= LEAST_SIMILARITY:
                found.append(NearDuplicate(names[best], name, similar[best]))
    template = sum(not each for each in second)
    return NearDuplicates(len(second) - template, template, tuple(found), highest)


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return frozenset(tuple(words[start : start + RUN]) for start in range(max(1, len(words) - RUN + 1)))
