"""Helpers for requests that all samplers share. Independent of vendors."""

from __future__ import annotations

from collections.abc import Sequence

from gce.domain.completions import Completion, SampleRequest

__all__ = ["all_different", "cut_before", "no_room"]


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
