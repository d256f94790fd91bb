"""Stored answers of a run as a page finds them: an index that grows with the run, and what is kept in it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict

from gce.app.evaluation.scoring import stored_reward
from gce.app.transcripts import MOMENTS, StoredAnswer
from gce.app.web.served import Served, stamp_of
from gce.app.wiring.runs import AnswerIndex, Indexed, IndexedAnswer

__all__ = ["GrowingIndex", "index_of"]

NAMES = {moment: "" if moment == "rollouts" else f"test-{moment}" for moment in MOMENTS}
SECONDS_OF_A_PAGE, SECONDS_BEHIND = 0.3, 2.0
"""For how long a page adds to the index before it shows what is there; a thread adds the rest, in such slices."""
DISAGREEMENT = 0.5
"""Difference of two evaluators' scores from which on they disagree."""
MOST_OF_A_TEXT, MOST_OF_A_LINE = 20_000, 200
"""Characters: of a prompt and of an answer in which a search looks, and of an answer in a list."""


class GrowingIndex:
    """The index of one run's answers."""

    def __init__(self, served: Served, path: Path) -> None:
        file = served.own / "answers" / f"{served.id_of(path)}.sqlite"
        self.index = AnswerIndex(file, path, NAMES, served.opened)
        self._path = path
        self._lock = threading.Lock()
        self._whole: object = None
        """What the run's files looked like when everything in them was indexed."""

    def grow(self) -> bool:
        """Add what is new, but not for long; whether that is all."""
        if self._whole == stamp_of(self._path):
            return True
        if not self._lock.acquire(blocking=False):
            return False  # A thread is at it.
        try:
            whole = self._add(SECONDS_OF_A_PAGE)
        finally:
            self._lock.release()
        if not whole:
            threading.Thread(target=self._add_the_rest, daemon=True).start()
        return whole

    def at(self, moment: str, sequence: int) -> tuple[IndexedAnswer, dict[str, Any]] | None:
        """The answer at this place, with its record. One that is not indexed yet has the id 0."""
        record = self.index.record(moment, sequence)
        if record is None:
            return None
        found = self.index.at(moment, sequence)
        if found is None or found.problem != storable(record["problem"]):
            plain = asdict(describe(moment, record), filter=lambda field, _: field.name != "text")
            found = IndexedAnswer(id=0, moment=moment, sequence=sequence, **plain)
        return found, record

    def _add(self, seconds: float) -> bool:
        stamp = stamp_of(self._path)
        whole = self.index.grow(describe, seconds)
        self._whole = stamp if whole else None
        return whole

    def _add_the_rest(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                while not self._add(SECONDS_BEHIND):
                    pass
            finally:
                self._lock.release()


def index_of(served: Served, path: Path) -> GrowingIndex:
    """The index of a run's answers, one for all requests."""
    return served.kept(("answers", path), None, lambda: GrowingIndex(served, path))


def describe(moment: str, record: Mapping[str, Any]) -> Indexed:
    """What the index keeps of a record."""
    answer = StoredAnswer(moment, 0, record)
    scores = [each["score"] for each in record["verdicts"] if each.get("score") is not None]
    violations = [found["message"] for each in record["verdicts"] for found in each["violations"]]
    text: str = record["text"]
    prompt = record["prompt"][-1]["content"] if record.get("prompt") else ""
    last_line = text.rstrip()[-MOST_OF_A_TEXT:].rpartition("\n")[2]
    return Indexed(
        iteration=record.get("iteration"),
        tier=storable(answer.tier),
        outcome=answer.outcome,
        reward=stored_reward(record),
        disagree=bool(scores) and max(scores) - min(scores) >= DISAGREEMENT,
        problem=storable(answer.problem),
        beginning=storable(last_line[:MOST_OF_A_LINE]),
        text=storable(" ".join((prompt[:MOST_OF_A_TEXT], text[:MOST_OF_A_TEXT], *violations))),
    )


def storable(text: str) -> str:
    """The text without lone surrogates, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()
