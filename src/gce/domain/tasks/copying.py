"""Rules that copy a part of a prompt by its place, without reading what it says.

Words that stand in every one of some prompts are their template; what varies is what a question is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

__all__ = ["Copy", "copying_rules"]

Copy = Callable[[str], str]
"""A prompt's text -> a part of it; empty where it has no such part."""

_AROUND = " \t\n.,:;!?\"'`()[]{}<>*"
"""Signs that belong to the sentence around a part, not to it."""
_QUOTED = re.compile(r"[\"'`\u2018\u201c]([^\"'`\u2018\u2019\u201c\u201d\n]+)[\"'`\u2019\u201d]")
_TIMES = (2, 5)
_MOST_REPEATED = 10_000
"""Characters of a part with its repetitions."""
_PLACES = {"first": 0, "second": 1, "third": 2, "second to last": -2, "last": -1}


def copying_rules(prompts: Sequence[str]) -> Mapping[str, Copy]:
    """Return rules by what they copy: words and runs of words that vary between these prompts, lines, quoted text, all.

    Each part is copied once, and several times in a row: a score that lets text stand between the right parts finds
    any order in repetitions of a list. With fewer than two prompts, nothing is known to vary.
    """
    rules = dict(_rules(prompts))
    for times in _TIMES:
        rules |= {f"{name}, {times} times": partial(_repeated, rule, times) for name, rule in _rules(prompts).items()}
    return rules


def _rules(prompts: Sequence[str]) -> Mapping[str, Copy]:
    words = [{_bare(word) for word in text.split()} for text in prompts]
    template = frozenset.intersection(*map(frozenset, words)) if len(words) > 1 else None
    rules: dict[str, Copy] = {
        "the last word": lambda text: _at(_words(text), -1),
        "the longest word": lambda text: max(_words(text), key=len, default=""),
        "the first line": lambda text: _at(_lines(text), 0),
        "the last line": lambda text: _at(_lines(text), -1),
        "the first quoted text": lambda text: _at(_QUOTED.findall(text), 0),
        "the whole prompt": lambda text: " ".join(text.split()),
    }
    if template is None:
        return rules
    for name, place in _PLACES.items():
        rules[f"the {name} word that varies"] = partial(_varying_word, template, place)
    for name, place in (("first", 0), ("last", -1)):
        rules[f"the {name} words that vary"] = partial(_varying_run, template, place)
    rules["the longest words that vary"] = lambda text: max(_runs(text, template), key=len, default="")
    rules["all words that vary"] = lambda text: " ".join(_runs(text, template))
    return rules


def _repeated(rule: Copy, times: int, text: str) -> str:
    """Empty where this would be too long. A part with commas is a list, which goes on."""
    part = rule(text)
    repeated = (", " if "," in part else " ").join([part] * times)
    return repeated if part and len(repeated) <= _MOST_REPEATED else ""


def _bare(word: str) -> str:
    return word.strip(_AROUND)


def _words(text: str) -> list[str]:
    return [word for word in map(_bare, text.split()) if word]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _at(parts: Sequence[str], place: int) -> str:
    try:
        return parts[place]
    except IndexError:
        return ""


def _varying_word(template: frozenset[str], place: int, text: str) -> str:
    return _at([word for word in _words(text) if word not in template], place)


def _varying_run(template: frozenset[str], place: int, text: str) -> str:
    return _at(_runs(text, template), place)


def _runs(text: str, template: frozenset[str]) -> list[str]:
    """The runs of words that are not of the template, in their order, without signs around each run."""
    runs: list[list[str]] = [[]]
    for word in text.split():
        if _bare(word) in template:
            runs.append([])
        else:
            runs[-1].append(word)
    return [run for run in (_bare(" ".join(run)) for run in runs) if run]
