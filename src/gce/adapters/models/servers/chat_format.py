"""What a server that speaks OpenAI's chat format says, read strictly: anything may come, and little of it is believed.

Knows bytes, neither connections nor requests. The format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from attrs import frozen

from gce.adapters.models.servers.redaction import Redaction

__all__ = [
    "ENDS",
    "Choice",
    "NotAReplyError",
    "Reply",
    "Unreadable",
    "body_of",
    "fault_of",
    "one_line",
    "read_reply",
    "what_is_told",
]

ENDS: Mapping[str | None, Literal["stop", "length"]] = {
    "stop": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
}
"""Reasons for which a model ends by itself or by its limit, in the words of OpenAI, TGI, Anthropic and Mistral. Any
other (`content_filter`, `tool_calls`, `error`, none at all ...) is the server's doing and says nothing of the model."""

_TOLD = 1 << 12
"""Characters of a message that decide what kind of fault it tells."""
_LIMITED = re.compile(
    r"quota|rate[ _-]?limit|too[ _]many[ _]requests|\b(tokens|requests)[ _]per[ _](second|min|hour|day|month)"
    r"|\b[tr]p[smd]\b|billing|insufficient[ _](funds|balance|credit)|credit (balance|limit)|out of credits|\bpayment"
    r"|\byour (current )?(plan|tier|organi[sz]ation|subscription)\b|queue|overload|throttl|concurren(t|cy)",
    re.IGNORECASE,
)
"""A limit of the account or of the server, whatever size it is about."""
_NO_ROOM = re.compile(
    r"context[ _-](length|size|window|limit)[ _](has been |is |was )?exceed|exceed[ _]context"
    r"|(exceed|overflow|longer than|larger than|greater than|more than|too (long|large|big|many|short|small)|not enough"
    r"|(not|n't) fit)[^.]{0,120}\bcontext\b"
    r"|\bcontext\b[^.]{0,120}(exceed|overflow|too (small|short)|not enough|is full)"
    r"|\bmax(imum)? (context|model|prompt|input|sequence)[ _](length|size)\b|\bmax_(model|seq|input)_len"
    r"|\b(prompt|inputs?|messages?|conversation|sequence)( (text|tokens?|length|sequence))?( \([^)]{0,40}\))?"
    r"( is| are| was| has| have)?( far| much| way)? too (long|large|many)"
    r"|\b(prompt|inputs?|messages?|conversation|sequence|token count|requested tokens)\b[^.]{0,80}"
    r"\b(exceeds?|longer than|larger than|more than)\b[^.]{0,80}\b(tokens?|(allowed )?length|limit of [0-9])"
    r"|`?inputs`?( tokens)? (\+ `?max_new_tokens`? )?must (be <=|have less than) [0-9]+"
    r"|reduce the length of (the|your) (messages?|prompt|input)",
    re.IGNORECASE,
)
"""The prompt, or the prompt with what was to be written, is stated to be longer than the model's context."""
_FOR_NOW = re.compile(
    r"(at|over|full|no|insufficient|out of|exceed\w*|reached)( \w+){0,2} capacity"
    r"|capacity( \w+){0,2} (exceeded|reached|full)|(try|retry)( \w+){0,3} (again|later)|retry after|temporar"
    r"|unavailable|\bbusy\b|(still|is|being) load(ing|ed)|time[d -]?out|out of memory"
    r"|slots?\b[^.]{0,20}\b(available|free)",
    re.IGNORECASE,
)
"""What may be otherwise in a while."""


@frozen
class Unreadable:
    """The beginning of a body that is no JSON."""

    text: str


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


def body_of(content: bytes, redaction: Redaction) -> Any:
    """The JSON value in the body of an answer, or `Unreadable` where there is none; no text in it holds the key."""
    try:
        return redaction.value(json.loads(content))
    except (ValueError, RecursionError):
        return Unreadable(redaction.text(content[: 1 << 16].decode(errors="replace")))


def read_reply(body: Any) -> Reply:
    """The answer of the chat format that `body_of` found.

    Raises:
        NotAReplyError: it is none.
    """
    match body:
        case Unreadable():
            raise NotAReplyError("an answer that is no JSON")
        case {"choices": [_, *_] as found}:
            choices = [_choice(each) for each in found]
        case _:
            raise NotAReplyError("an answer without choices")
    usage = body.get("usage")
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


def what_is_told(body: Any) -> str:
    """What an answer says that is none, in one line: the message of an error, or all of it."""
    told = body.text if isinstance(body, Unreadable) else body
    while isinstance(told, dict):
        told = next((told[name] for name in ("error", "message", "detail", "msg") if told.get(name)), str(told))
    if isinstance(told, list) and told and all(isinstance(each, dict) and "msg" in each for each in told):
        # Pydantic's list of errors, which repeats the request: its words are not the server's.
        told = "; ".join(f"{each.get('loc', '')} {each['msg']}" for each in told)
    return one_line(str(told))


def fault_of(status: int, body: Any) -> Literal["no room", "failed", "refused"]:
    """What an answer with another status than 200 means.

    `no room`: the prompt does not fit into the model's context, as the server states in words or by the code of the
    error. `failed`: asking again may help. `refused`: it does not. Words about quotas, rates and queues decide first,
    for "too large" may be said of them; then words about the context; then those that hold for now; then the status.
    """
    told = f"{what_is_told(body)[:_TOLD]} {' '.join(_codes(body))}"
    if status in (401, 404):
        return "refused"
    if status >= 400 and _LIMITED.search(told):
        return "failed"
    if status in (400, 413, 422, 500) and _NO_ROOM.search(told):
        return "no room"
    if status in (408, 425, 429) or status >= 500 or (status >= 400 and _FOR_NOW.search(told)):
        return "failed"
    return "refused"


def _codes(body: Any) -> list[str]:
    """Names that errors have for programs."""
    found: list[str] = []
    while isinstance(body, dict):
        found += [body[name][:100] for name in ("code", "type", "status") if isinstance(body.get(name), str)]
        body = body.get("error")
    return found


def one_line(words: str) -> str:
    """One line without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in words).split())
