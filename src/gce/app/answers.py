"""Answers of a run or an evaluation as records, for programs and for pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import field, frozen

from gce.app.evaluation.scoring import stored_reward
from gce.app.wiring.frames import data_frame

__all__ = ["Answers"]


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
