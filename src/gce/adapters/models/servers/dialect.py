"""What the formats of chat servers have in common: what is asked, what a response holds, and why a text ended.

A format is a `Dialect`: `openai_format.OPENAI`, `anthropic_format.ANTHROPIC`. Independent of connections and providers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen

from gce.domain.problems import Message

__all__ = ["ENDS", "Choice", "Dialect", "NotAReplyError", "Parameters", "Reply", "as_count", "storable"]

ENDS: Mapping[str | None, Literal["stop", "length"]] = {
    "stop": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
}
"""Finish reasons with which a model stops by itself or at its token limit, in the words of OpenAI, TGI, Anthropic and
Mistral. Any other (`content_filter`, `refusal`, `tool_calls`, `error`, none at all ...) is the server's doing and says
nothing about the model."""


class NotAReplyError(Exception):
    """The body is not a response of the dialect."""


@frozen
class Choice:
    """One of several answers to the same messages."""

    text: str
    """The answer alone."""
    finish_reason: str | None
    tokens: int | None = None
    """Number of tokens for which the server reports log-probabilities."""
    log_probabilities: tuple[float, ...] | None = None
    reasoning: str = ""
    """What the server reports apart from the answer."""
    token_ids: tuple[int, ...] | None = None
    """Those of the answer, with the end token if it was sampled."""
    sampling_log_probabilities: tuple[float, ...] | None = None
    """Those under the distribution that was sampled from."""


@frozen
class Reply:
    """A server's response."""

    choices: tuple[Choice, ...]
    prompt_tokens: int | None
    tokens: int | None
    """Generated tokens of all choices, reasoning included."""
    prompt_token_ids: tuple[int, ...] | None = None
    model: str = ""
    """Which model answered, as the server calls it."""
    fingerprint: str = ""
    """What identifies its weights; empty if the server does not tell."""

    @property
    def counted(self) -> int:
        """Number of tokens with log-probabilities, over all choices."""
        return sum(choice.tokens or 0 for choice in self.choices)


def _names(given: Iterable[str]) -> frozenset[str]:
    return frozenset(given)


@frozen
class Parameters:
    """Which parameters a model takes: `n`, `logprobs`, `seed`, `stop`, `temperature`, `max_tokens`."""

    refused: frozenset[str] = field(default=frozenset(), converter=_names)
    """Those that are not sent, because the model refuses them or does not heed them."""
    renamed: Mapping[str, str] = field(factory=dict)
    """Those with another name in the request."""

    def __or__(self, more: Parameters) -> Parameters:
        """Return both together; of two names the second one holds."""
        return Parameters(self.refused | more.refused, {**self.renamed, **more.renamed})


@frozen
class Dialect:
    """A format of requests and responses."""

    name: str
    path: str
    """Of the requests, behind the server's address."""
    headers: Callable[[str], dict[str, str]]
    """From an API key, which may be empty, to the headers that carry it, and others of the format."""
    conversation: Callable[[Sequence[Message]], dict[str, Any]]
    """From messages to the fields of a request that hold them."""
    read: Callable[[Any], Reply]
    """From the value that `body_of` returned to a reply; NotAReplyError if it is none."""
    parameters: Parameters = field(factory=Parameters)
    """Those that the format has."""


def as_count(value: object) -> int | None:
    """Return the value if it is a valid count."""
    return value if type(value) is int and 0 <= value < 1 << 31 else None


def storable(text: str) -> str:
    """Return the text without unpaired surrogates, which JSON can hold but files cannot."""
    return text.encode(errors="replace").decode()
