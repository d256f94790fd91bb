"""Requests for rollouts, and the completions that a model returns."""

from __future__ import annotations

from typing import Literal, get_args

from attrs import field, frozen, validators

from gce.domain.problems import Message
from gce.domain.serialization import OMIT_DEFAULT

__all__ = ["Completion", "FinishReason", "SampleRequest"]


FinishReason = Literal["stop", "length", "context", "error"]


@frozen
class SampleRequest:
    """A request for one rollout."""

    key: str
    """Unique within one call of `sample`; the completion carries the same key."""
    messages: tuple[Message, ...]
    seed: int = field(validator=validators.ge(0))
    """Seeds this rollout alone: the same request in the same call yields the same tokens. In [0, 2**63)."""
    temperature: float = field(default=0.8, validator=validators.ge(0.0))
    """Sampling temperature; 0 means greedy decoding."""
    max_tokens: int = field(default=512, validator=validators.ge(1))
    """Maximum number of generated tokens, the end token included."""
    stop: tuple[str, ...] = field(default=(), validator=validators.deep_iterable(validators.min_len(1)))
    """Stop sequences: the text ends before the first of them, as if the model had stopped there."""


@frozen
class Completion:
    """A model's completion of one request. Fields that a backend does not report are None."""

    key: str
    text: str
    """Decoded text without the end token."""
    finish_reason: FinishReason = field(validator=validators.in_(get_args(FinishReason)))
    """stop: the model ended the text. length: the maximum number of tokens was reached. context: the prompt leaves no
    room in the model's context, and nothing was generated. error: the backend failed."""
    policy: str
    """Identifies the weights that generated the text: a hash of base model and adapter."""
    prompt_token_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    """Generated token ids, including the end token if the model sampled one."""
    log_probabilities: tuple[float, ...] | None = None
    """Log-probability of each generated token under the model at temperature 1."""
    sampling_log_probabilities: tuple[float, ...] | None = None
    """Log-probability of each generated token under the distribution that it was sampled from."""
    prompt_tokens: int | None = field()
    """Number of prompt tokens; defaults to the length of `prompt_token_ids`."""
    tokens: int | None = field()
    """Number of generated tokens; defaults to the length of `token_ids`."""
    error: str = ""
    """Why there is no text, in one sentence, if the finish reason is `context` or `error`."""
    reasoning: str = field(default="", metadata=OMIT_DEFAULT)
    """What a backend reports as reasoning apart from the answer, which alone is `text`."""

    @prompt_tokens.default
    def _prompt_length(self) -> int | None:
        return None if self.prompt_token_ids is None else len(self.prompt_token_ids)

    @tokens.default
    def _length(self) -> int | None:
        return None if self.token_ids is None else len(self.token_ids)
