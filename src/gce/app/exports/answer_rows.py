"""Stored answers as rows with plain columns, for spreadsheets and data frames. Knows no file format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gce.app.evaluation.scoring import stored_outcome, stored_reward
from gce.app.transcripts import stored_answers
from gce.ports.runs import AnswerReader

__all__ = ["COLUMNS", "answer_rows"]

COLUMNS: Mapping[str, type] = {
    "moment": str,
    "problem": str,
    "tier": str,
    "iteration": int,
    "outcome": str,
    "correct": bool,
    "reward": float,
    "score": float,
    "finish_reason": str,
    "tokens": int,
    "policy": str,
    "admitted": bool,
    "shown": bool,
    "violations": int,
    "violation": str,
    "message": str,
    "digest": str,
    "prompt": str,
    "text": str,
}
"""Name and type of each column; any value may be None."""


def answer_rows(run: AnswerReader, moments: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """A row for each answer of these moments, by default of all, one after another.

    `correct` and `reward` are None where the answer failed, so that their means are over answers that were judged.
    `violation` and `message` are the first violation's; `prompt` is the problem's last message.
    """
    for answer in stored_answers(run, moments):
        record = answer.record
        reward = stored_reward(record)
        violations = [each for verdict in record["verdicts"] for each in verdict["violations"]]
        first = violations[0] if violations else {}
        row = {name: record.get(name) for name in COLUMNS}
        yield row | {
            "moment": answer.moment,
            "outcome": stored_outcome(record),
            "correct": None if reward is None else record["right"],
            "reward": reward,
            "violations": len(violations),
            "violation": first.get("kind"),
            "message": first.get("message"),
            "prompt": record["prompt"][-1]["content"] if record.get("prompt") else None,
        }
