"""Answers of a run or an evaluation as records, for programs and for pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.scoring import stored_outcome, stored_reward
from gce.app.shown import html_of
from gce.app.tables.layout import table
from gce.app.wiring.frames import data_frame
from gce.domain.figures import Table

__all__ = ["Answers"]

HEAD = ("tier", "question", "answer", "outcome", "reward")
SHOWN = 10
"""Answers that a notebook or `print` shows."""
MOST_OF_A_TEXT = 200
"""Characters of a prompt or an answer that a notebook shows."""
MOST_ON_A_LINE = 24
"""The same for `print`, so that a row of the table fits on a line."""


@frozen(eq=False)
class Answers:
    """Records of answers, read anew each time that they are iterated over.

    A record is a dict: the problem's key, digest, tier and prompt, the answer's text, tokens and finish reason, whether
    it is right, its outcome and its verdicts, and its reward: a float in [0, 1], None only where the answer failed.
    """

    _read: Callable[[], Iterable[dict[str, Any]]] = field(repr=False)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return ({**record, "reward": stored_reward(record)} for record in self._read())

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row for each answer; MissingExtra where pandas is not installed."""
        return data_frame(self)

    def __str__(self) -> str:
        """The first ones as a table."""
        rows, more = self._first(MOST_ON_A_LINE)
        return "\n".join([table(HEAD, rows, words=True), *more])

    def _repr_html_(self) -> str:
        rows, more = self._first(MOST_OF_A_TEXT)
        return html_of([Table(HEAD, rows), *more])

    def _first(self, most: int) -> tuple[tuple[tuple[str, ...], ...], list[str]]:
        """Rows of the first answers, with at most so many characters of a text, and a line where there are more."""
        first = list(islice(self, SHOWN + 1))
        more = [f"The first {SHOWN} answers."] if len(first) > SHOWN else []
        return tuple(_row(record, most) for record in first[:SHOWN]), more


def _row(record: Mapping[str, Any], most: int) -> tuple[str, ...]:
    reward = "-" if record["reward"] is None else f"{record['reward']:g}"
    question = str(record["prompt"][-1]["content"]) if record["prompt"] else ""
    return (record["tier"], _clipped(question, most), _clipped(record["text"], most), stored_outcome(record), reward)


def _clipped(text: str, most: int) -> str:
    return text[:most] + (" ..." if len(text) > most else "")
