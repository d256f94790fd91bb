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
from attrs import evolve, field, frozen

from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.requests import reply_after
from gce.domain.completions import Completion
from gce.domain.learning import Objective, Trace, Turn
from gce.domain.problems import Message
from gce.ports.model import Opening

__all__ = [
    "Example",
    "Scored",
    "Tokenizer",
    "batch_arrays",
    "examples_of",
    "normalized",
    "passes",
    "pooled",
    "scored",
    "step_metrics",
    "template_messages",
    "token_arrays",
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
    """Log-probabilities at sampling of the tokens from `start` on, arbitrary for untrained tokens, nan if unknown;
    empty if all are unknown."""
    base: tuple[float, ...] = ()
    """Log-probabilities of these tokens under the base; empty if the objective has no KL term."""
    factors: tuple[float, ...] = field(default=(), kw_only=True)
    """Factors on the weight of each token from `start` on; a token with factor 0 is not trained on. Empty: 1 each."""
    scale: float = field(default=1.0, kw_only=True)
    """Factor on the loss of each token, its KL term included, before the mean over all trained tokens of the batch."""

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
        """Return the values of `sampled` or `base` at the trained tokens; nan if there are none."""
        found: Array = np.asarray(values)[self.offsets] if values else np.full(self.trained, np.nan)
        return found


Scored = list[tuple[Example, Array]]
"""Examples with the log-probabilities of their trained tokens before a step."""


def scored(examples: Sequence[Example], found: Array) -> Scored:
    """Return the examples, each with its part of `found`, which has the trained tokens of all of them in order."""
    ends = np.cumsum([example.trained for example in examples])
    return list(zip(examples, np.split(found, ends[:-1]), strict=True))


def normalized(examples: Sequence[Example], objective: Objective) -> list[Example]:
    """Return the examples with the `scale` that turns the mean over all tokens into the objective's normalization."""
    if objective.normalization == "token":
        return list(examples)
    each = sum(example.trained for example in examples) / len(examples)
    by_sequence = objective.normalization == "sequence"
    return [evolve(one, scale=each / (one.trained if by_sequence else objective.length)) for one in examples]


def step_metrics(objective: Objective, scores: Scored) -> dict[str, float]:
    """Return what a step's `UpdateReport` says of ratios and divergences, by field; what is unknown is left out."""
    metrics = {}
    if objective.kl:
        apart = np.concatenate([example.at_trained(example.base) - found for example, found in scores])
        metrics["kl"] = float(np.mean(np.expm1(np.minimum(apart, 80.0)) - apart))
    moved = [found.astype(np.float64) - example.at_trained(example.sampled) for example, found in scores]
    known = np.concatenate(moved)
    known = known[~np.isnan(known)]
    if known.size:
        difference = np.abs(known)
        metrics["approx_kl"] = float(np.mean(np.expm1(np.minimum(known, 80.0)) - known))
        metrics |= {"logp_difference": float(difference.mean()), "max_logp_difference": float(difference.max())}
    if objective.clip is not None:
        members = np.repeat(np.eye(len(moved)), [len(each) for each in moved], axis=0)
        ratios = np.exp(np.minimum(pooled(objective, np.concatenate(moved), members), 80.0))
        weights = np.concatenate([example.weights for example, _ in scores])
        # Sequences count once, however long they are.
        shares = np.ones(len(ratios)) if objective.ratio == "token" else (members / members.sum(0)).sum(1)
        low, high = objective.bounds
        metrics["clipped_low"] = float(np.average((ratios < low) & (weights < 0), weights=shares))
        metrics["clipped_high"] = float(np.average((ratios > high) & (weights > 0), weights=shares))
    return metrics


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
        # What was known of the sampled tokens may not fit those of the text.
        tokens, sampled = _from_text(messages, completion, trace, tokenizer), None
    return _Written(prompt, tokens, turn.weights, sampled or ())


def _from_text(
    messages: Sequence[Message], completion: Completion, trace: Trace, tokenizer: Tokenizer
) -> tuple[int, ...]:
    if messages[-1].tool_calls:  # Only the template knows how to write a call.
        return tokenizer.turn_tokens(messages, trace.tools)
    opening = tokenizer.opening_of(messages[:-1], trace.tools) if isinstance(tokenizer, Opening) else ""
    return tokenizer.text_tokens(reply_after(opening, completion.text), end=completion.finish_reason == "stop")


def _example(sequence: Sequence[_Written], weight: float) -> Example:
    first, last = sequence[0], sequence[-1]
    start, tokens = len(first.prompt), (*last.prompt, *last.tokens)
    if len(sequence) == 1:
        return Example(tokens, start, weight, sampled=first.sampled, factors=first.factors)
    factors, sampled = np.zeros(len(tokens) - start), np.zeros(len(tokens) - start)
    for written in sequence:
        own = slice(len(written.prompt) - start, len(written.prompt) - start + len(written.tokens))
        factors[own] = written.factors or 1.0
        sampled[own] = written.sampled or np.nan
    return Example(tokens, start, weight, sampled=tuple(sampled.tolist()), factors=tuple(factors.tolist()))


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


def pooled(objective: Objective, values: Any, members: Any) -> Any:
    """Return, for each token, what `values` is of what the objective's ratio is of: the token, or its whole sequence.

    `values` are log-ratios, or the derivatives of a loss by them; `members` (tokens, sequences) is 1 where a token
    belongs to a sequence, else 0. The arrays may be those of numpy, mlx or torch.
    """
    if objective.ratio == "token":
        return values
    sums = members @ (values @ members)
    return sums if objective.ratio == "product" else sums / (members @ members.sum(0))


def token_losses(
    objective: Objective, found: Array, weights: Array, sampled: Array, base: Array, scales: Array, members: Array
) -> tuple[Array, Array]:
    """Return the loss of each token, and minus the derivative of their sum by the log-probability `found`.

    All arrays have one entry for each token except `members`, which `pooled` describes: the tokens of a sequence must
    all be among them, unless ratios are of tokens.
    """
    losses, pushes = weights * -found, weights
    if objective.clip is not None:
        # Floats do not overflow below e^88.
        ratio = np.exp(np.minimum(pooled(objective, found - sampled, members), np.float32(80.0)))
        free, cut = ratio * weights, np.clip(ratio, *objective.bounds) * weights
        losses, pushes = -np.minimum(free, cut), np.where(free <= cut, free, np.float32(0.0)) * scales
        losses, pushes = losses * scales, pooled(objective, pushes, members)
    else:
        losses, pushes = losses * scales, pushes * scales
    if objective.kl:
        apart = np.minimum(base - found, np.float32(80.0))
        share = np.float32(objective.kl) * scales
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
    """Return the inputs (sequences, width) and, for each trained token, its index in the flat inputs, and the token.

    The other arrays are those of `token_losses`: weight, log-probabilities at sampling and under the base (nan if
    unknown), scale, and membership in the sequences.
    """
    width = max(map(_width, chunk))
    inputs = np.zeros((len(chunk), width), np.int32)
    places, targets = [], []
    for row, example in enumerate(chunk):
        inputs[row, : len(example.tokens) - 1] = example.tokens[:-1]
        # The output at one position predicts the token at the next.
        places.append(row * width + example.start - 1 + example.offsets)
        targets.append(example.targets)
    return (
        inputs,
        np.concatenate(places).astype(np.int32),
        np.concatenate(targets).astype(np.int32),
        *token_arrays(chunk),
    )


def token_arrays(examples: Sequence[Example], kind: type[np.floating[Any]] = np.float32) -> tuple[Array, ...]:
    """Return what `token_losses` takes of the examples' trained tokens."""
    counts = [example.trained for example in examples]
    parts = (
        [example.weights for example in examples],
        [example.at_trained(example.sampled) for example in examples],
        [example.at_trained(example.base) for example in examples],
    )
    return (
        *(np.concatenate(part).astype(kind) for part in parts),
        np.repeat(np.array([example.scale for example in examples], kind), counts),
        np.repeat(np.eye(len(examples), dtype=kind), counts, axis=0),
    )


def _width(example: Example) -> int:
    """Return the number of input positions: all tokens except the last, rounded up to a bucket."""
    return -(-(len(example.tokens) - 1) // _BUCKET) * _BUCKET
