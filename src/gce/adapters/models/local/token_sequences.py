"""The input of learners: token sequences, which of their tokens are trained on, and the loss of a token.

All conversations are converted to tokens here: trained turns as their policy generated them, all other turns as the
chat template writes them. Independent of models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from attrs import field, frozen

from gce.adapters.models.local.token_sampling import Array
from gce.domain.completions import Completion
from gce.domain.learning import Trace, Turn
from gce.domain.problems import Message

__all__ = [
    "Example",
    "Objective",
    "Tokenizer",
    "batch_arrays",
    "examples_of",
    "passes",
    "template_messages",
    "token_losses",
]

_BUCKET = 32


class Tokenizer(Protocol):
    """Converts conversations to tokens."""

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return a conversation through the chat template, with the generation prompt."""
        ...

    def turn_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the last message as the chat template writes it after the prompt, up to its end token."""
        ...

    def text_tokens(self, text: str, *, end: bool) -> tuple[int, ...]:
        """Return `text` as the model would generate it, with the end token if `end`."""
        ...


@frozen
class Example:
    """One training sequence."""

    tokens: tuple[int, ...]
    start: int
    """Index of the first token that may be trained on, at least 1."""
    weight: float
    sampled: tuple[float, ...] = ()
    """Log-probabilities at sampling of the tokens from `start` on, arbitrary for untrained tokens; empty if the
    objective does not clip."""
    base: tuple[float, ...] = ()
    """Log-probabilities of these tokens under the base; empty if the objective has no KL term."""
    factors: tuple[float, ...] = field(default=(), kw_only=True)
    """Factors on the weight of each token from `start` on; a token with factor 0 is not trained on. Empty: 1 each."""

    @cached_property
    def offsets(self) -> Array:
        """Indices of the trained tokens, counted from `start`."""
        found: Array = np.flatnonzero(self.factors) if self.factors else np.arange(len(self.tokens) - self.start)
        return found

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return len(self.offsets)

    @property
    def weights(self) -> Array:
        """Weight of each trained token."""
        factors = np.asarray(self.factors)[self.offsets] if self.factors else np.ones(self.trained)
        return self.weight * factors

    @property
    def targets(self) -> Array:
        """The trained tokens."""
        return np.asarray(self.tokens[self.start :])[self.offsets]

    def at_trained(self, values: Sequence[float]) -> Array:
        """Return the values of `sampled` or `base` at the trained tokens; 0 if there are none."""
        found: Array = np.asarray(values)[self.offsets] if values else np.zeros(self.trained)
        return found


@frozen
class Objective:
    """The objective apart from the examples' weights: see `gce.domain.learning.TrainingBatch`."""

    clip: float | None = None
    kl: float = 0.0


def examples_of(trace: Trace, weight: float, tokenizer: Tokenizer, *, clip: bool) -> list[Example]:
    """Return the training sequences of a trace, in which only the trained turns count.

    Each trained turn is learned after the prompt that its policy read: the recorded ids, or those of the chat template
    if none are recorded. A turn whose prompt continues the turns before it, token for token, shares their sequence.
    Otherwise, because the template drops earlier reasoning or retokenizes the text, the turn begins a sequence of its
    own, with the earlier turns in its prompt.

    Raises:
        ValueError: `clip` is true, and a trained turn lacks the log-probabilities of its tokens; or the template does
            not separate the tokens of a tool call from its prompt.
    """
    sequences: list[list[_Written]] = []
    for place, turn in enumerate(trace.turns):
        if turn.trained:
            written = _written(trace, place, turn, tokenizer, clip=clip)
            if sequences and written.follows(sequences[-1][-1]):
                sequences[-1].append(written)
            else:
                sequences.append([written])
    return [_example(sequence, weight) for sequence in sequences]


@frozen
class _Written:
    """A trained turn as tokens."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    factors: tuple[float, ...]
    sampled: tuple[float, ...]

    def follows(self, before: _Written) -> bool:
        """True if this turn's prompt begins with the prompt and the tokens of the turn before."""
        read = len(before.prompt)
        return self.prompt[:read] == before.prompt and self.prompt[read : read + len(before.tokens)] == before.tokens


def _written(trace: Trace, place: int, turn: Turn, tokenizer: Tokenizer, *, clip: bool) -> _Written:
    completion = turn.completion
    assert completion is not None
    prompt, tokens, sampled = completion.prompt_token_ids, completion.token_ids, completion.log_probabilities
    if clip and (prompt is None or tokens is None or sampled is None):
        raise ValueError(f"clip needs log-probabilities of sampled tokens, and {completion.key} has none")
    messages = [each.message for each in trace.turns[: place + 1]]
    if prompt is None:
        prompt = tokenizer.prompt_tokens(messages[:-1], trace.tools)
    if tokens is None:
        tokens = _from_text(messages, completion, trace, tokenizer)
    return _Written(prompt, tokens, turn.weights, sampled if clip and sampled is not None else ())


def _from_text(
    messages: Sequence[Message], completion: Completion, trace: Trace, tokenizer: Tokenizer
) -> tuple[int, ...]:
    if messages[-1].tool_calls:  # Only the template knows how to write a call.
        return tokenizer.turn_tokens(messages, trace.tools)
    return tokenizer.text_tokens(completion.text, end=completion.finish_reason == "stop")


def _example(sequence: Sequence[_Written], weight: float) -> Example:
    first, last = sequence[0], sequence[-1]
    start, tokens = len(first.prompt), (*last.prompt, *last.tokens)
    if len(sequence) == 1:
        return Example(tokens, start, weight, sampled=first.sampled, factors=first.factors)
    factors, sampled = np.zeros(len(tokens) - start), np.zeros(len(tokens) - start)
    for written in sequence:
        own = slice(len(written.prompt) - start, len(written.prompt) - start + len(written.tokens))
        factors[own] = written.factors or 1.0
        sampled[own] = written.sampled or 0.0
    known = tuple(sampled.tolist()) if first.sampled else ()
    return Example(tokens, start, weight, sampled=known, factors=tuple(factors.tolist()))


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return a conversation in the form that chat templates take.

    Source: https://huggingface.co/docs/transformers/chat_extras, tool calls: arguments are objects, and a tool's result
    names its function.
    """
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    found = []
    for message in messages:
        plain: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            plain["tool_calls"] = [
                {
                    "type": "function",
                    "id": call.id,
                    "function": {"name": call.name, "arguments": _arguments(call.arguments)},
                }
                for call in message.tool_calls
            ]
        if message.tool_call_id:
            plain["tool_call_id"] = message.tool_call_id
        if message.role == "tool" and message.tool_call_id in names:
            plain["name"] = names[message.tool_call_id]
        found.append(plain)
    return found


def _arguments(text: str) -> Any:
    """Return the JSON object in the text, or else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def token_losses(
    objective: Objective, found: Array, weights: Array, sampled: Array | None, base: Array | None
) -> tuple[Array, Array]:
    """Return the loss of each token, and minus its derivative by the log-probability `found`; all of one shape."""
    losses, pushes = weights * -found, weights
    if objective.clip is not None:
        assert sampled is not None
        # Floats do not overflow below e^88.
        ratio = np.exp(np.minimum(found - sampled, np.float32(80.0)))
        free, cut = ratio * weights, np.clip(ratio, 1 - objective.clip, 1 + objective.clip) * weights
        losses, pushes = -np.minimum(free, cut), np.where(free <= cut, free, np.float32(0.0))
    if objective.kl:
        assert base is not None
        apart = np.minimum(base - found, np.float32(80.0))
        share = np.float32(objective.kl)
        losses = losses + share * (np.expm1(apart) - apart)
        pushes = pushes + share * np.expm1(apart)
    return losses, pushes


def passes(examples: Sequence[Example], tokens: int) -> Iterator[list[Example]]:
    """Yield batches of examples of similar length, each of at most `tokens` with padding, or of one example."""
    chunk: list[Example] = []
    for example in sorted(examples, key=_width):
        if chunk and (len(chunk) + 1) * _width(example) > tokens:
            yield chunk
            chunk = []
        chunk.append(example)
    yield chunk


def batch_arrays(chunk: Sequence[Example]) -> tuple[np.ndarray, ...]:
    """Return the inputs (sequences, width) and, for each trained token, its index in the flat inputs, token and weight.

    The last two arrays are its log-probabilities at sampling and under the base, 0 if unknown.
    """
    width = max(map(_width, chunk))
    inputs = np.zeros((len(chunk), width), np.int32)
    places, targets, weights, sampled, base = [], [], [], [], []
    for row, example in enumerate(chunk):
        inputs[row, : len(example.tokens) - 1] = example.tokens[:-1]
        # The output at one position predicts the token at the next.
        places.append(row * width + example.start - 1 + example.offsets)
        targets.append(example.targets)
        weights.append(example.weights)
        sampled.append(example.at_trained(example.sampled))
        base.append(example.at_trained(example.base))
    return (
        inputs,
        np.concatenate(places).astype(np.int32),
        np.concatenate(targets).astype(np.int32),
        *(np.concatenate(part).astype(np.float32) for part in (weights, sampled, base)),
    )


def _width(example: Example) -> int:
    """Return the number of input positions: all tokens except the last, rounded up to a bucket."""
    return -(-(len(example.tokens) - 1) // _BUCKET) * _BUCKET
