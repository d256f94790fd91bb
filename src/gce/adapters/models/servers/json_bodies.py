"""The JSON bodies of responses, whatever their format, with the API key redacted."""

from __future__ import annotations

import json
from typing import Any

from attrs import frozen

from gce.adapters.models.servers.redaction import Redaction

__all__ = ["Unreadable", "body_of"]


@frozen
class Unreadable:
    """The beginning of a body that is not JSON."""

    text: str


def body_of(content: bytes, redaction: Redaction) -> Any:
    """Return the JSON value of a body, or `Unreadable` if it is not JSON; the key is redacted from all text."""
    try:
        return redaction.value(json.loads(content))
    except (ValueError, RecursionError):
        return Unreadable(redaction.text(content[: 1 << 16].decode(errors="replace")))
