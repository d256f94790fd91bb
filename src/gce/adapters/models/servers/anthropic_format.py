"""Anthropic's messages format, parsed as strictly as OpenAI's.

Works on decoded bodies; independent of connections. The format: https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gce.adapters.models.servers.dialect import Choice, Dialect, NotAReplyError, Parameters, Reply, as_count, storable
from gce.adapters.models.servers.json_bodies import Unreadable
from gce.domain.problems import Message

__all__ = ["ANTHROPIC", "read_message"]

_VERSION = "2023-06-01"
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Counts of prompt tokens, which exclude each other."""


def read_message(body: Any) -> Reply:
    """Parse the value that `body_of` returned as a message of the assistant.

    Thinking blocks are reasoning, text blocks the answer; what is encrypted or of another kind is left out.

    Raises:
        NotAReplyError: it is not one.
    """
    match body:
        case Unreadable():
            raise NotAReplyError("an answer that is no JSON")
        case {"content": [*blocks], "stop_reason": str() | None as reason}:
            choice = Choice(_joined(blocks, "text"), reason, reasoning=_joined(blocks, "thinking"))
        case _:
            raise NotAReplyError("an answer without content and stop reason")
    usage = body.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = [as_count(usage[name]) for name in _INPUT if usage.get(name) is not None]
    known = "input_tokens" in usage and None not in counts
    return Reply(
        (choice,), sum(count or 0 for count in counts) if known else None, as_count(usage.get("output_tokens"))
    )


def _joined(blocks: Iterable[Any], kind: str) -> str:
    """Return the text of all blocks of a kind."""
    texts = []
    for block in blocks:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise NotAReplyError("a block of content without a type")
        if block["type"] == kind:
            if not isinstance(block.get(kind), str):
                raise NotAReplyError(f"a block of content without its {kind}")
            texts.append(block[kind])
    return storable("".join(texts))


def _headers(key: str) -> dict[str, str]:
    return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    """Return system prompts apart from the rest, and the results of tools as the user's words.

    An empty turn has a placeholder, because it would be refused.
    """
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    rest = [
        {"role": "assistant", "content": message.content if message.content.strip() else "(no answer)"}
        if message.role == "assistant"
        else {"role": "user", "content": message.content if message.content.strip() else "(empty)"}
        for message in messages
        if message.role != "system"
    ]
    return {"messages": rest, **({"system": system} if system else {})}


ANTHROPIC = Dialect(
    "Anthropic messages",
    "/messages",
    _headers,
    _conversation,
    read_message,
    Parameters(refused={"n", "logprobs", "seed"}, renamed={"stop": "stop_sequences"}),
)
