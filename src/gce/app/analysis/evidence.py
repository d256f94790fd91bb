"""Token-level evidence: the log-probability of a stored answer along its text, by a model that scores.

After each quarter of its text, how probable is the answer line that was given in the end? Where the answer is a belief
b, it is also compared with the line that says 1 - b, which has the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import fsum, isfinite
from typing import TypeAlias

import numpy as np
from attrs import frozen

from gce.domain.answers import Answer
from gce.domain.problems import Message
from gce.errors import ModelError

__all__ = ["SHARES", "AlongText", "Scores", "along_text", "is_scored", "spread_over"]

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the passages before the answer line."""
MOST_CHARACTERS = 20_000
"""Longer answers are not scored."""
_END = re.compile(r"[.!?](?=\s)|\n|\Z")
"""Of a sentence or a line."""
_DIGITS = re.compile(r"\.(\d+)")


Scores: TypeAlias = Callable[[Sequence[Message], str], tuple[float, ...]]
"""Log-probabilities of a reply's tokens behind messages, its end included: see `gce.ports.model.Scorer`."""


@frozen
class AlongText:
    """The log-probability of one answer line at each of `SHARES`, in nats."""

    problem: str
    line: str
    answer: tuple[float, ...]
    against: tuple[float, ...] | None
    """The same less that of the opposite belief; None where the line states no belief, or 0.5."""


def is_scored(answer: Answer) -> bool:
    """Return whether an answer has text before its last line, and its prompt and length allow scoring."""
    text = answer.completion.text
    return bool(answer.problem.prompt) and len(text) <= MOST_CHARACTERS and bool(_parts(text)[0])


def spread_over(answers: Sequence[Answer], count: int) -> list[Answer]:
    """Return at most `count` of the answers, spread evenly over their order."""
    places = np.linspace(0, len(answers) - 1, min(count, len(answers))).round().astype(int)
    return [answers[place] for place in places]


def along_text(scores: Scores, answer: Answer) -> AlongText:
    """Score the answer line after each share of the passages before it, as if the model had stopped there.

    The log-probability is that of the text up to there with the answer line behind it, less that of the text alone; the
    end of the reply belongs to the answer line. The prompt is the stored one: what a strategy said in other turns is
    not stored.

    Raises:
        ModelError: the model cannot score, or its log-probabilities are no numbers.
    """
    passages, line = _parts(answer.completion.text)
    texts = ["", *passages]
    belief = answer.measure("belief")
    opposite = "" if belief is None else _opposite(line, belief)
    places = [round(share * len(passages)) for share in SHARES]
    found = {place: _after(scores, answer.problem.prompt, texts[place], line, opposite) for place in places}
    against = tuple(found[place][0] - found[place][1] for place in places) if opposite else None
    return AlongText(answer.problem.key, line, tuple(found[place][0] for place in places), against)


def _after(scores: Scores, prompt: Sequence[Message], before: str, line: str, opposite: str) -> tuple[float, float]:
    """Log-probabilities of the line and of its opposite behind a text."""
    before = before.rstrip()
    held = fsum(scores(prompt, before)[:-1]) if before else 0.0
    behind = f"{before}\n" if before else ""
    one, other = (fsum(scores(prompt, behind + each)) - held if each else 0.0 for each in (line, opposite))
    if not isfinite(one) or not isfinite(other):
        raise ModelError(f"expected finite log-probabilities of {line[:60]!r}, got {one} and {other}")
    return one, other


def _parts(text: str) -> tuple[list[str], str]:
    """The text up to the end of each sentence or line before the last line, and the last line."""
    body, _, line = text.rstrip().rpartition("\n")
    ends = [0, *(match.end() for match in _END.finditer(body))]
    return [body[:end] for last, end in pairwise(ends) if body[last:end].strip()], line


def _opposite(line: str, belief: float) -> str:
    """The answer line of 1 - b, in the form of the line; empty where it says the same."""
    decimals = _DIGITS.search(line)
    places = min(len(decimals[1]), 12) if decimals else 0
    if not 0.0 <= belief <= 1.0:
        return ""
    if "%" in line:
        found = f"Answer: {100 * (1 - belief):.{places}f}{' %' if ' %' in line else '%'}"
    else:
        found = f"Answer: {1 - belief:.{places}f}"
    return "" if found == line else found
