"""Helpers for requests that all samplers share. Independent of vendors."""

from __future__ import annotations

from collections.abc import Sequence

from gce.domain.completions import Completion, SampleRequest
from gce.domain.tasks.task import THINK_END, THINK_START

__all__ = ["PLAIN_TEMPLATE", "all_different", "cut_before", "no_room", "reply_after"]

PLAIN_TEMPLATE = "plain"
"""The chat template of base models: messages, separated by blank lines."""


def all_different(requests: Sequence[SampleRequest]) -> list[SampleRequest]:
    """Return the requests as a list; ValueError if two have the same key."""
    requests = list(requests)
    keys = [request.key for request in requests]
    if len(set(keys)) != len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        raise ValueError(f"expected one request for each key, got {twice!r} twice")
    return requests


def no_room(request: SampleRequest, prompt: tuple[int, ...], context: int, policy: str) -> Completion:
    """Return the completion of a request whose prompt leaves no room in the model's context."""
    said = f"the prompt has {len(prompt):,} tokens, and the model's context is {context:,}"
    return Completion(request.key, "", "context", policy, prompt_token_ids=prompt, error=said)


def cut_before(text: str, stop: Sequence[str]) -> str:
    """Return the text before the first of the stop strings."""
    return text[: min((text.index(end) for end in stop if end in text), default=len(text))]


def reply_after(opening: str, text: str) -> str:
    """Return what a model writes of an answer after a prompt that begins the answer with `opening`.

    `opening` is empty or begins a thought; an answer without a thought then ends it first.
    """
    if not opening or text.startswith(opening):
        return text.removeprefix(opening)
    written = text.lstrip()
    if written.startswith(THINK_START):
        return written.removeprefix(THINK_START).lstrip("\n")
    return text if THINK_END in text else f"\n{THINK_END}\n\n{text}"
