"""One rollout as it is requested of a model, and what the model wrote."""

from __future__ import annotations

from typing import Literal, get_args

from attrs import field, frozen, validators

from gce.domain.problems import Message

__all__ = ["Completion", "FinishReason", "SampleRequest"]


FinishReason = Literal["stop", "length", "context", "error"]


@frozen
class SampleRequest:
    """One rollout asked of a model."""

    key: str
    """Unique within one call of `sample`; its completion carries the same key."""
    messages: tuple[Message, ...]
    seed: int = field(validator=validators.ge(0))
    """Seeds this rollout alone: the same request in the same call gives the same tokens. In [0, 2**63)."""
    temperature: float = field(default=0.8, validator=validators.ge(0.0))
    """0 means greedy."""
    max_tokens: int = field(default=512, validator=validators.ge(1))
    """Generated tokens at most, the end token included."""
    stop: tuple[str, ...] = field(default=(), validator=validators.deep_iterable(validators.min_len(1)))
    """The text ends before the first of these, as if the model had ended it."""


@frozen
class Completion:
    """What a model wrote for one request. What a backend cannot tell is None."""

    key: str
    text: str
    """Decoded, without the end token."""
    finish_reason: FinishReason = field(validator=validators.in_(get_args(FinishReason)))
    """stop: the model ended it. length: the token limit did. context: the prompt leaves no room in the model's context,
    and nothing was written. error: the backend failed to answer."""
    policy: str
    """Names the weights that wrote it: a hash of base and adapter."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Generated ids, the end token included where one was sampled."""
    log_probabilities: tuple[float, ...] | None = None
    """Of each generated token under the model at temperature 1."""
    sampling_log_probabilities: tuple[float, ...] | None = None
    """Of each generated token under the distribution sampled from."""
    prompt_tokens: int | None = field()
    """How many were read; by default as many as `prompt_token_ids`."""
    tokens: int | None = field()
    """How many were generated; by default as many as `token_ids`."""
    error: str = ""
    """In one sentence why there is no text, where the finish reason is `context` or `error`."""

    @prompt_tokens.default
    def _prompt_length(self) -> int | None:
        return None if self.prompt_token_ids is None else len(self.prompt_token_ids)

    @tokens.default
    def _length(self) -> int | None:
        return None if self.token_ids is None else len(self.token_ids)
