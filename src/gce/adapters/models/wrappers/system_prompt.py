"""A model wrapper that puts a system prompt before every conversation. Independent of the inner model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from attrs import evolve

from gce.domain.completions import Completion, SampleRequest
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.ports.model import Sampler

__all__ = ["WithSystemPrompt"]


class WithSystemPrompt:
    """`inner` with `prompt` as its system prompt. Has only `Sampler` of `gce.ports.model`, whatever `inner` can do.

    If a conversation has a system prompt of its own, the two are joined in one message, `prompt` first.
    """

    def __init__(self, inner: Sampler, prompt: str) -> None:
        self._inner = inner
        self._prompt = prompt

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is a SHA-256 of the inner model's identity and the prompt."""
        inner = self._inner.info()
        identity = hashlib.sha256(f"{inner.identity} system prompt {self._prompt}".encode()).hexdigest()
        return evolve(inner, identity=identity, capabilities=frozenset({"sample"}))

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`."""
        identity = self.info().identity
        shown = [evolve(request, messages=self._shown(request.messages)) for request in requests]
        return (evolve(completion, policy=identity) for completion in self._inner.sample(shown))

    def _shown(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        if messages and messages[0].role == "system":
            return (Message("system", f"{self._prompt}\n\n{messages[0].content}"), *messages[1:])
        return (Message("system", self._prompt), *messages)
