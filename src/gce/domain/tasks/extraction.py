r"""How the answer is found in a response: the last line, `\boxed{}`, a tag, a regular expression, or a field of JSON.

Fails closed: a response that names no answer, or two that differ, has none. All but a user's own expression take time
linear in the length of the response.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

__all__ = ["Extract", "Extraction", "NoAnswer", "expression_for", "extraction_of", "final_part"]

Extract = str | re.Pattern[str] | tuple[str, str]
"""'last line', 'text', 'boxed', ('json', FIELD), ('tag', NAME), or a regular expression with one group."""

EXPECTED = (
    "'last line', 'text', 'boxed', ('json', FIELD), ('tag', NAME) or a regular expression with one group, as "
    "r'Answer: (.+)'"
)
_BOX = "\\boxed{"
_BRACES = re.compile(r"[{}]")
_MARKED = re.compile(r"(?:####|\b(?:final )?answer(?: is)?\b[ \t]*:?)[ \t]*(?P<final>[^\n]*\S)\s*\Z", re.IGNORECASE)
_WORDS = re.compile(r"[\w ]*")
_ESCAPED = re.compile(r"\\(.)[*+?]?|\^|\$")
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)


_LAST = {
    r"-?\d+": r"(?<![\d.,])(-?\d+)\D*$",
    r"-?\d+(?:\.\d+)?": r"(?<![\d.,])(-?\d+(?:\.\d+)?)\D*$",
    r"-?\d+(?:, ?-?\d+)*": r"(?<![\d.,] )(?<![\d.,])(-?\d+(?:, ?-?\d+)*)\D*$",
    r"[A-Za-z]+": r"([A-Za-z]+)\W*$",
}
"""By what an answer looks like, an expression for the last one in a response."""


class NoAnswer(ValueError):
    """A response without an answer, or with several."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        """As of a `Violation`: missing-answer or several-answers."""


@frozen
class Extraction:
    """One way to find the answer."""

    what: str
    """What is looked for, as in "the response has no ..."."""
    find: Callable[[str], Sequence[str]]
    """The answers that a response names, in order."""
    write: Callable[[str], str] = str
    """A response that names this answer, where one is known; else the answer as it is."""

    def answer(self, response: str) -> str:
        """The one answer of a response, without white space around it; never empty.

        Raises:
            NoAnswer: there is none, or there are several that differ.
        """
        found = list(dict.fromkeys(filter(None, (each.strip() for each in self.find(response)))))
        if not found:
            raise NoAnswer("missing-answer", f"The response has no {self.what}.")
        if len(found) > 1:
            raise NoAnswer("several-answers", f"The response has {len(found)} different answers: expected one.")
        return found[0]


def extraction_of(extract: Extract) -> Extraction:
    """The extraction that is meant.

    Raises:
        ValueError: none is.
    """
    if extract == "last line":
        return Extraction("line that is not blank", lambda text: text.rstrip().split("\n")[-1:])
    if extract == "text":
        return Extraction("text", lambda text: [text])
    if extract == "boxed":
        return Extraction("answer in \\boxed{}", _boxed, lambda answer: f"{_BOX}{answer}}}")
    if isinstance(extract, (tuple, list)) and len(extract) == 2 and extract[0] == "json" and _is_name(extract[1]):
        field = extract[1]
        return Extraction(
            f"JSON object with the field {field!r}",
            lambda text: _field(text, field),
            lambda answer: json.dumps({field: answer}, ensure_ascii=False),
        )
    if isinstance(extract, (tuple, list)) and len(extract) == 2 and extract[0] == "tag" and _is_name(extract[1]):
        begin, end = f"<{extract[1]}>", f"</{extract[1]}>"
        return Extraction(
            f"answer between {begin} and {end}",
            lambda text: [piece.rpartition(begin)[2] for piece in text.split(end)[:-1] if begin in piece],
            lambda answer: f"{begin}{answer}{end}",
        )
    if isinstance(extract, (str, re.Pattern)):
        return _by_expression(extract)
    raise ValueError(f"unknown extraction {extract!r}: expected {EXPECTED}")


def expression_for(answers: Sequence[str]) -> str:
    """A regular expression that finds such an answer at the end of a sentence; empty where none is known."""
    fitting = (last for shape, last in _LAST.items() if all(re.fullmatch(shape, each) for each in answers))
    return next(fitting, "") if answers else ""


def final_part(solution: str) -> tuple[str, str, str]:
    r"""A worked solution as what stands before its final answer, the final answer, and what stands behind it.

    It stands in the last `\boxed{}`, or on the last line behind `####` (as in GSM8K) or "answer". Where nothing marks
    it, or nothing stands before it, the whole text is the final answer.
    """
    start = solution.rfind(_BOX)
    boxed = _boxed(solution[start:]) if start >= 0 else []
    if boxed:
        begin, final = start + len(_BOX), boxed[0]
    else:
        at = solution.rstrip().rfind("\n") + 1
        found = _MARKED.search(solution, at)
        begin, final = (found.start("final"), found["final"]) if found else (0, solution)
    marked = begin and solution[:begin].strip().count("\n") + len(solution[:begin].split()) > 2
    if not marked:
        return "", solution, ""
    return solution[:begin], final, solution[begin + len(final) :]


def _by_expression(extract: str | re.Pattern[str]) -> Extraction:
    try:
        pattern = re.compile(extract)
    except (re.error, TypeError) as error:
        raise ValueError(f"extract={extract!r} is not a regular expression: {error}") from error
    if not isinstance(pattern.pattern, str) or _WORDS.fullmatch(pattern.pattern):
        raise ValueError(f"unknown extraction {extract!r}: expected {EXPECTED}")
    if pattern.groups != 1:
        raise ValueError(
            f"extract={pattern.pattern!r:.80} is a regular expression with {pattern.groups or 'no'} "
            f"group{'s' * (pattern.groups > 1)}: expected one group, ( and ) around the answer, as r'Answer: (.+)'; "
            "(?: and ) make none"
        )

    def find(text: str) -> list[str]:
        return [found[1] or "" for found in pattern.finditer(text)]

    def write(answer: str) -> str:
        """The answer alone where that is found, else with what stands around the group, where that is plain text."""
        if find(answer) == [answer]:
            return answer
        before, _, after = pattern.pattern.partition("(")
        around = [_ESCAPED.sub(_plain, part) for part in (before, after.rpartition(")")[2])]
        response = answer.join(around)
        return response if find(response) == [answer] else answer

    return Extraction(f"match of {pattern.pattern}", find, write)


def _plain(escaped: re.Match[str]) -> str:
    """Text that a piece of an expression matches."""
    return "" if escaped[0] in ("^", "$") else " " if escaped[1] == "s" else escaped[1]


def _is_name(field: Any) -> bool:
    return isinstance(field, str) and bool(field)


def _boxed(text: str) -> list[str]:
    r"""What stands in each `\boxed{}`, braces matched; nothing where one does not end."""
    found: list[str] = []
    start = text.find(_BOX)
    while start >= 0:
        depth, begin, end = 1, start + len(_BOX), -1
        for brace in _BRACES.finditer(text, begin):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                end = brace.start()
                break
        if end < 0:
            return []
        found.append(text[begin:end])
        start = text.find(_BOX, end)
    return found


def _field(text: str, field: str) -> list[str]:
    """The field of the response, which is one JSON object, in a fence or not; what is no text, as JSON writes it."""
    fenced = _FENCE.fullmatch(text.strip())
    try:
        pairs = json.loads(fenced[1] if fenced else text, object_pairs_hook=_Pairs)
        values = [_unpaired(value) for name, value in pairs if name == field] if isinstance(pairs, _Pairs) else []
    except (ValueError, RecursionError):
        return []
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def _unpaired(value: Any) -> Any:
    """The value with its objects as dicts."""
    if isinstance(value, _Pairs):
        return {name: _unpaired(each) for name, each in value}
    return [_unpaired(each) for each in value] if isinstance(value, list) else value


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, names that come twice included."""
