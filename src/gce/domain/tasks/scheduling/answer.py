r"""The written form of a schedule: a strict grammar for rewards, and a lenient parser for diagnosis only.

    response    = [ reasoning newline ] answer-line { whitespace } ;
    reasoning   = any text ;
    newline     = LF ;                                  (* a CR before it belongs to the reasoning *)
    answer-line = "Answer: " entry { ", " entry } ;
    entry       = LABEL " " NUMBER ;
    LABEL       = alphanumeric { alphanumeric } ;       (* ASCII letters and digits *)
    NUMBER      = "0" | nonzero-digit { digit } ;       (* ASCII digits, at most 6 of them *)
    whitespace  = " " | TAB | CR | LF ;

In addition, the word `answer:` must occur exactly once in the whole response. This rules out a second answer, and an
echo of the prompt or of an example, beside the judged answer. The word is searched case-insensitively in the plain form
of `gce.domain.text`. Only another letter, digit or colon between its characters hides it. Full width, accents, control,
format, private-use and other invisible characters, whitespace, quotation marks, Markdown emphasis and other signs do
not, be they within the word or before the colon. Lookalike letters and colons of other scripts, and small capitals, are
different characters.

This module checks the form alone. Whether labels name jobs and times are right is judged elsewhere, and the reasoning
is never read here. All functions accept any `str`, lone surrogates and NULs included, in time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from attrs import frozen

from gce.domain.text import plain
from gce.domain.verdicts import Violation

__all__ = ["MAX_START", "Answer", "diagnose", "parse", "render"]

MAX_START = 999_999
"""The largest start that the grammar can express."""

_MARKER = "Answer: "
_MAX_DIGITS = len(str(MAX_START))
_JOINS_PAIR = " \t:=|*_`\"'~()[]{}<>-\u2192\u21d2\u27f6"
_FILLERS = frozenset({"at", "begin", "begins", "day", "is", "on", "s", "start", "starts", "time"})

# No part of these patterns can match what may follow it, so backtracking fails at once: linear time on any line.
_BETWEEN = r"(?:[^\w:]|_)*+"
_MARK = re.compile(_BETWEEN.join("answer:"), re.IGNORECASE)
_WORD = re.compile("[0-9A-Za-z]+")
_LABEL = "[0-9A-Za-z]+"
_NUMBER = f"(?:0|[1-9][0-9]{{0,{_MAX_DIGITS - 1}}})"
_LINE = re.compile(f"{_LABEL} {_NUMBER}(?:, {_LABEL} {_NUMBER})*")
_FITTING = re.compile(f"(?:{_LABEL} {_NUMBER}, )*")
_ENTRY = re.compile("([0-9A-Za-z]*)( ?)([0-9]*)")


@frozen
class Answer:
    """The parsed answer line; labels may repeat or be unknown to the instance."""

    entries: tuple[tuple[str, int], ...]
    """(label, start) in the order written, at least one; starts are in [0, 999999]."""


def parse(text: str) -> Answer | Violation:
    """Parse a response under the strict grammar, or return the violation that broke it.

    The violation's kind is `missing-answer` (the word `answer:` does not occur), `several-answers` (it occurs more than
    once) or `grammar` (anything else; the message says what was expected and where).
    """
    body = text.rstrip(" \t\r\n")
    start = body.rfind("\n") + 1
    count = sum(1 for _ in _MARK.finditer(plain(text)))
    if count == 0:
        return Violation("missing-answer", 'The response has no line that starts with "Answer: ".')
    if count > 1:
        message = f'The word "answer:" occurs {count} times in the response; it must occur exactly once.'
        return Violation("several-answers", message, found=count, bound=1)
    if not body.startswith(_MARKER, start):
        return _unmarked(body, start)
    line = body[start + len(_MARKER) :]
    if not _LINE.fullmatch(line):
        return _broken(line)
    words = line.replace(",", "").split(" ")
    return Answer(tuple(zip(words[::2], map(int, words[1::2]), strict=True)))


def render(starts: Mapping[str, int]) -> str:
    """Write a schedule as the answer line that `parse` reads back exactly, in the order of the mapping.

    Raises:
        ValueError: no job, a label that is not ASCII letters and digits, or a start that is not an integer from 0 to
            999999.
    """
    if not starts:
        raise ValueError("expected a start for at least one job, got none")
    for label, start in starts.items():
        if not (label.isascii() and label.isalnum()):
            raise ValueError(f"a job's label must be ASCII letters and digits, got {label!r}")
        if isinstance(start, bool) or not isinstance(start, int):
            raise ValueError(f"job {label}: start must be a whole number, got {start!r}")
        if not 0 <= start <= MAX_START:
            raise ValueError(f"job {label}: start must be from 0 to {MAX_START}, got one outside")
    return _MARKER + ", ".join(f"{label} {start}" for label, start in starts.items())


def diagnose(text: str, labels: Collection[str]) -> dict[str, int] | None:
    """Guess which schedule a response meant, in any format: bold, tables, `A -> 0`, `A = 0`, `A: 0`, JSON.

    For messages and measures, never for rewards. Reads pairs of a known label and an integer after the last `answer:`,
    or in the whole text if that word is missing. Keeps the last run of pairs in which no label repeats; labels may be
    missing from it. None if there is no pair, or if a number of that run is not a plain start (`3.9`, `0-50`, `-1`).
    """
    seen = plain(text)
    after = max((mark.end() for mark in _MARK.finditer(seen)), default=0)
    starts: dict[str, int] = {}
    for label, start in reversed(list(_pairs(seen, after, frozenset(labels)))):
        if label in starts:
            break
        if start is None:
            return None
        starts[label] = start
    return dict(reversed(starts.items())) or None


def _pairs(seen: str, after: int, labels: frozenset[str]) -> Iterator[tuple[str, int | None]]:
    """Yield labels with the adjacent number, from position `after` on; None for a number that is not a plain start."""
    pending: str | None = None
    end = after
    for match in _WORD.finditer(seen, after):
        word, gap = match.group(), seen[end : match.start()]
        end = match.end()
        joined = not gap.strip(_JOINS_PAIR)
        if pending is not None and joined and word.isdigit():
            whole = len(word) <= _MAX_DIGITS and not gap.endswith("-") and not _goes_on(seen, end)
            yield pending, int(word) if whole else None
            pending = None
        elif word in labels and not seen[max(match.start() - 1, 0) : match.start()].isalpha():  # no foreign word's end
            pending = word
        elif not joined or word.lower() not in _FILLERS:
            pending = None


def _goes_on(seen: str, end: int) -> bool:
    """True if the number-like text that ends at `end` is part of a decimal or a range."""
    return seen[end : end + 1] in {".", ",", "-", "\u2013"} and seen[end + 1 : end + 2].isdigit()


def _unmarked(body: str, start: int) -> Violation:
    line = body.count("\n", 0, start) + 1
    if body[start:] == _MARKER.rstrip():
        return Violation("grammar", f'Expected a job and its start after "Answer: " on line {line}, got nothing.')
    return Violation(
        "grammar",
        f'Expected the last line (line {line}) to start with "Answer: ", got {_clip(body[start:])!r}.',
    )


def _broken(line: str) -> Violation:
    """Describe the first entry of the line that does not match the grammar."""
    fitting = _FITTING.match(line)
    assert fitting is not None
    entry = _ENTRY.match(line, fitting.end())
    assert entry is not None
    label, space, number = entry.groups()
    if not label:
        expected, at = "a job's label (letters and digits)", entry.start()
    elif not space:
        expected, at = "one space between label and start", entry.end()
    elif not number:
        expected, at = "a start in plain digits", entry.start(3)
    elif len(number) > 1 and number[0] == "0":
        expected, at = "a start without leading zeros", entry.start(3)
    elif len(number) > _MAX_DIGITS:
        expected, at = f"a start of at most {_MAX_DIGITS} digits", entry.start(3)
    else:
        expected, at = "a comma and one space, or the end of the line, after the start", entry.end()
    got = repr(_clip(line[at:])) if at < len(line) else "the end of the line"
    position = len(_MARKER) + at + 1
    return Violation("grammar", f"Expected {expected} at character {position} of the answer line, got {got}.")


def _clip(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
