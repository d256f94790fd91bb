"""A task of sums to be exported: answers between tags, and half a point for a sum that is off by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gce

ROWS = [
    {"prompt": f"What is {a} + {b}? Answer as <answer>7</answer>.", "answer": str(a + b)}
    for a in range(12)
    for b in range(10)
]


def reward(answer: str, row: Mapping[str, Any]) -> float:
    """1 for the sum, 0.5 for one beside it, else 0."""
    if not answer.isascii() or not answer.isdigit() or len(answer) > 9:
        return 0.0
    off = abs(int(answer) - int(row["answer"]))
    return {0: 1.0, 1: 0.5}.get(off, 0.0)


SUMS = gce.task(ROWS, reward, name="graded-sums", extract=("tag", "answer"))
