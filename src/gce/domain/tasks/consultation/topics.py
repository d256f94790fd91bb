"""What facts and questions are about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

__all__ = ["TOPICS", "Topic", "topic_of"]

Topic = Literal["deadline", "sequence", "resources", "duration", "end"]

TOPICS: Mapping[Topic, tuple[str, ...]] = {
    "deadline": ("deadline", "deadlines", "due", "latest"),
    "sequence": ("sequence", "after", "before", "predecessors", "wait", "waits", "order"),
    "resources": ("resources", "resource", "need", "needs", "hold", "holds", "demand", "demands"),
    "duration": ("duration", "durations", "long", "take", "takes"),
    "end": ("end", "project", "finished", "horizon"),
}
"""Words by which a question is understood; the first topic that has one is meant."""

_WORD = re.compile("[a-z]+")


def topic_of(question: str) -> Topic | None:
    """Return the topic of a question; None if it names none."""
    words = set(_WORD.findall(question.lower()))
    return next((topic for topic, known in TOPICS.items() if words.intersection(known)), None)
