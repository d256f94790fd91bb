r"""The written form of a schedule: a strict grammar for rewards, and a lenient reading for diagnosis only.

    response    = [ reasoning newline ] answer-line { whitespace } ;
    reasoning   = any text ;
    newline     = LF ;                                  (* a CR before it belongs to the reasoning *)
    answer-line = "Answer: " entry { ", " entry } ;
    entry       = LABEL " " NUMBER ;
    LABEL       = alphanumeric { alphanumeric } ;       (* ASCII letters and digits *)
    NUMBER      = "0" | nonzero-digit { digit } ;       (* ASCII digits, at most 6 of them *)
    whitespace  = " " | TAB | CR | LF ;

Beside the grammar one rule: the word `answer:` occurs exactly once in the whole response, so that neither a second
answer, nor an echo of the prompt or of an example, can stand beside the one that is judged. It is looked for in the
plain form of `gce.domain.text`, in either case, and nothing hides it but another letter, digit or colon between its
characters: neither width (full-width letters and colons) nor accents, control, format, private-use and other invisible
characters, whitespace, quotation marks, Markdown emphasis or any other sign, be they within the word or before the
colon. Letters and colons that merely look alike, of other scripts or small capitals, are others.

Knows the form alone: whether a label names a job, and whether the times are right, is judged elsewhere. What the
reasoning says is never read here. All functions take any `str`, lone surrogates and NULs included, and take time
linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from attrs import frozen

from gce.domain.text import plain
from gce.domain.verdicts import Violation

__all__ = ["MAX_START", "Answer", "diagnose", "parse", "render"]

MAX_START = 999_999
"""The largest start that the grammar can write."""

_MARKER = "Answer: "
_MAX_DIGITS = len(str(MAX_START))
_JOINS_PAIR = " \t:=|*_`\"'~()[]{}<>-\u2192\u21d2\u27f6"
_FILLERS = frozenset({"at", "begin", "begins", "day", "is", "on", "s", "start", "starts", "time"})

# No part of these can match what may follow it, so giving characters back fails at once: linear time on any line.
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
    """What the answer line says, entry by entry; labels may repeat or be unknown to the instance."""

    entries: tuple[tuple[str, int], ...]
    """(label, start) in the order written; at least one; starts in [0, 999999]."""


def parse(text: str) -> Answer | Violation:
    """Read a response under the strict grammar, or say what broke it.

    The violation's kind is `missing-answer` (the word `answer:` is nowhere), `several-answers` (it occurs more than
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
        ValueError: no job, a label that is not ASCII letters and digits, or a start that is not a whole number
            from 0 to 999999.
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
    """Guess which schedule a response meant, whatever its form: bold, tables, `A -> 0`, `A = 0`, `A: 0`, JSON.

    For messages and measures; never for rewards. Reads pairs of a known label and a whole number after the last
    `answer:`, or in the whole text where that word is missing, and keeps the last stretch of pairs in which no label
    repeats. Labels may be missing from the result. None where there is no pair, or where a number of that stretch
    is no plain start (`3.9`, `0-50`, `-1`).
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
    """Labels with the number next to each, from position `after` on; None for a number that is no plain start."""
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
    """Whether what looked like a number ending at `end` is part of a decimal or a range."""
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
    """Say what is wrong with the first entry of the line that does not fit the grammar."""
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
