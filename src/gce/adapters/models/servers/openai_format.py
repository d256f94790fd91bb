"""OpenAI's chat format, parsed strictly: a server may send anything, and little of it is trusted.

Works on decoded bodies; independent of connections. The format: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from gce.adapters.models.servers.dialect import Choice, Dialect, NotAReplyError, Reply, as_count, storable
from gce.adapters.models.servers.json_bodies import Unreadable
from gce.domain.problems import Message

__all__ = ["OPENAI", "read_reply"]


def read_reply(body: Any) -> Reply:
    """Parse the value that `body_of` returned as a chat response.

    Raises:
        NotAReplyError: it is not one.
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
    prompt, completion, total = (as_count(usage.get(f"{what}_tokens")) for what in ("prompt", "completion", "total"))
    if prompt is not None and completion is not None and total is not None:
        completion = max(completion, total - prompt)  # xAI and Gemini count reasoning in the total alone.
    return Reply(
        choices=tuple(choice for _, choice in sorted(choices, key=lambda choice: choice[0])),
        prompt_tokens=prompt,
        tokens=completion,
        prompt_token_ids=_ids(body.get("prompt_token_ids")),
        model=_text(body.get("model")),
        fingerprint=_text(body.get("system_fingerprint")),
    )


def _choice(found: Any) -> tuple[int, Choice]:
    """Return a choice and its index."""
    match found:
        case {"message": {"content": str() | None as content} as message, "finish_reason": str() | None as reason}:
            reasoning, text = _apart(storable(content or ""))
            told = message.get("reasoning_content") or message.get("reasoning")
            reasoning = storable(told) if isinstance(told, str) else reasoning
        case _:
            raise NotAReplyError("a choice without message and finish reason")
    match found.get("logprobs"):
        case {"content": [*entries]}:
            values: list[Any] = [entry.get("logprob") if isinstance(entry, dict) else None for entry in entries]
            choice = Choice(text, reason, len(values), _log_probabilities(values), reasoning=reasoning)
        case _:
            choice = Choice(text, reason, reasoning=reasoning)
    ids, sampling = _ids(found.get("token_ids")), _log_probabilities(found.get("sampling_logprobs"))
    return as_count(found.get("index")) or 0, evolve(choice, token_ids=ids, sampling_log_probabilities=sampling)


def _log_probabilities(values: Any) -> tuple[float, ...] | None:
    """Return the values if all of them are log-probabilities."""
    sound = isinstance(values, list) and all(type(v) in (int, float) and -1e6 < v <= 1e-3 for v in values)
    return tuple(map(float, values)) if sound else None


def _ids(values: Any) -> tuple[int, ...] | None:
    """Return the values if all of them are token ids; they are no part of OpenAI's format, but vLLM tells them."""
    sound = isinstance(values, list) and all(as_count(value) is not None for value in values)
    return tuple(values) if sound else None


def _text(value: Any) -> str:
    return storable(value) if isinstance(value, str) else ""


def _apart(content: str) -> tuple[str, str]:
    """Return reasoning and answer of content that begins with a <think> block; without its end, nothing is answer."""
    if not content.lstrip().startswith("<think>"):
        return "", content
    reasoning, ended, answer = content.lstrip().removeprefix("<think>").rpartition("</think>")
    return (reasoning.strip(), answer.lstrip("\n")) if ended else (answer.strip(), "")


def _headers(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _conversation(messages: Sequence[Message]) -> dict[str, Any]:
    return {"messages": [{"role": message.role, "content": message.content} for message in messages]}


OPENAI = Dialect("OpenAI chat", "/chat/completions", _headers, _conversation, read_reply)
