"""Answers of a run or an evaluation as records, for programs and for pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.scoring import stored_outcome, stored_reward
from gce.app.shown import Part, html_of
from gce.app.wiring.frames import data_frame
from gce.domain.figures import Table

__all__ = ["Answers"]

HEAD = ("tier", "question", "answer", "outcome", "reward")
SHOWN = 10
"""Answers that a notebook shows."""
MOST_OF_A_TEXT = 200
"""Characters of a prompt or an answer that a notebook shows."""


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

    def _repr_html_(self) -> str:
        first = list(islice(self, SHOWN + 1))
        parts: list[Part] = [Table(HEAD, tuple(map(_row, first[:SHOWN])))]
        return html_of([*parts, f"The first {SHOWN} answers."] if len(first) > SHOWN else parts)


def _row(record: Mapping[str, Any]) -> tuple[str, ...]:
    reward = "-" if record["reward"] is None else f"{record['reward']:g}"
    question = str(record["prompt"][-1]["content"]) if record["prompt"] else ""
    return (record["tier"], _clipped(question), _clipped(record["text"]), stored_outcome(record), reward)


def _clipped(text: str) -> str:
    return text[:MOST_OF_A_TEXT] + (" ..." if len(text) > MOST_OF_A_TEXT else "")
