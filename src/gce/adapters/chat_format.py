"""What a server that speaks OpenAI's chat format says, read strictly: anything may come, and little of it is believed.

Knows bytes, neither connections nor requests. The format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from attrs import frozen

__all__ = ["Choice", "NotAReplyError", "Reply", "one_line", "read_reply", "what_is_told"]


class NotAReplyError(Exception):
    """What came is no answer of the chat format."""


@frozen
class Choice:
    """One of several answers to the same messages."""

    text: str
    finish_reason: str | None
    tokens: int | None = None
    """As many as the server tells log-probabilities of."""
    log_probabilities: tuple[float, ...] | None = None


@frozen
class Reply:
    """What a server answers."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    tokens: int | None
    """Of all choices."""

    @property
    def counted(self) -> int:
        """Tokens that log-probabilities are told of."""
        return sum(choice.tokens or 0 for choice in self.choices)


def read_reply(content: bytes) -> Reply:
    """An answer of the chat format.

    Raises:
        NotAReplyError: it is none.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as exc:
        raise NotAReplyError("an answer that is no JSON") from exc
    match answer:
        case {"choices": [_, *_] as found}:
            choices = [_choice(each) for each in found]
        case _:
            raise NotAReplyError("an answer without choices")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        choices=tuple(choice for _, choice in sorted(choices, key=lambda choice: choice[0])),
        prompt_tokens=_number_of(usage.get("prompt_tokens")),
        tokens=_number_of(usage.get("completion_tokens")),
    )


def _choice(found: Any) -> tuple[int, Choice]:
    """A choice, and its place among them."""
    match found:
        case {"message": {"content": str() | None as content} as message, "finish_reason": str() | None as reason}:
            reasoning = message.get("reasoning_content") or message.get("reasoning")
            text = content or ""
            if isinstance(reasoning, str):
                text = f"<think>\n{reasoning}\n</think>\n{text}"
        case _:
            raise NotAReplyError("a choice without message and finish reason")
    text = text.encode(errors="replace").decode()  # Halves of surrogate pairs can be written in JSON, but not stored.
    match found.get("logprobs"):
        case {"content": [*entries]}:
            values: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else None for entry in entries]
            sound = all(type(value) in (int, float) and -1e6 < value <= 1e-3 for value in values)
            choice = Choice(text, reason, len(values), tuple(map(float, values)) if sound else None)
        case _:
            choice = Choice(text, reason)
    return _number_of(found.get("index")) or 0, choice


def _number_of(value: object) -> int | None:
    """A count, if it is one."""
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def what_is_told(content: bytes) -> str:
    """What an answer says that is none, in one line: the message of an error, or all of it."""
    told: object = content[: 1 << 16].decode(errors="replace")
    with suppress(ValueError, RecursionError):
        told = json.loads(content)
    while isinstance(told, dict):
        told = next((told[name] for name in ("error", "message", "detail") if told.get(name)), str(told))
    return one_line(str(told))


def one_line(words: str) -> str:
    """One line without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())
