"""The fake of the Model port: a model that says what a function returns, with all four capabilities.

Tokens are code points, with 0x110000 for the end. Log-probabilities are those of a unigram model whose counts are the
adapter (code points equal modulo 256 share a count): learning adds counts, so trained tokens become likelier. The
completions do not depend on them, but the function can look at `steps` to change its answers after training.
Independent of vendors and tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from gce.adapters.models.local.lora import check_layers
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import (
    examples_of,
    normalized,
    step_metrics,
    token_arrays,
    token_losses,
)
from gce.adapters.models.requests import all_different, cut_before, no_room
from gce.adapters.system.input_files import read_input
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import LayerActivation, ModelState, TrainingBatch, UpdateReport
from gce.domain.models import CAPABILITIES, ModelInfo
from gce.domain.problems import Message
from gce.errors import ModelError

__all__ = ["ScriptedModel", "scripted_by_file"]

_END = 0x110000
_COUNTS = 257
MOST_BYTES = 256 * 2**20
"""Maximum size of a file of answers."""
_SHARE = 8
"""Requests in a share."""


def scripted_by_file(path: Path) -> ScriptedModel:
    """Load a model whose answers are in a file, one JSON object per line: `{"when": "jobs", "text": "Answer: A 0"}`.

    The answer is the first line whose `when` occurs in the last message; a line without `when` always matches. If
    `text` is a list, `"text": ["...", "..."]`, the request's seed selects one. If no line matches, the answer is empty.

    Raises:
        BadInput: the file cannot be read.
        ModelError: it is not UTF-8, or a line is not such an object.
    """
    try:
        lines = read_input(path, MOST_BYTES).decode().splitlines()
    except UnicodeDecodeError as error:
        raise ModelError(f"cannot read the scripted answers {path}: {error}") from error
    script = [_script_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def answer(request: SampleRequest) -> str:
        asked = request.messages[-1].content
        fitting = (texts for when, texts in script if when in asked)
        texts = next(fitting, [""])
        return texts[request.seed % len(texts)]

    return ScriptedModel(answer, name=f"scripted {hashlib.sha256(repr(script).encode()).hexdigest()}")


def _script_line(path: Path, number: int, line: str) -> tuple[str, list[str]]:
    try:
        found = json.loads(line)
        when, texts = found.get("when", ""), found["text"]
        texts = [texts] if isinstance(texts, str) else texts
        if texts and all(isinstance(text, str) for text in (when, *texts)):
            return when, list(texts)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ModelError(
        f'{path}, line {number}: expected {{"when": TEXT, "text": TEXT or [TEXT, ...]}}, got {line[:80]!r}'
    )


class ScriptedModel:
    """Answers each request with `answer(request)`. Has `Sampler`, `Scorer`, `Learner`, `Probe` and `Dealing`."""

    def __init__(
        self, answer: Callable[[SampleRequest], str], *, context: int = 1 << 20, blocks: int = 4, name: str = "scripted"
    ) -> None:
        """Make a model with `context` tokens for prompt and completion together, which reports `blocks` blocks."""
        self._context = context
        self._blocks = blocks
        self._layers: tuple[int, ...] = tuple(range(blocks))
        self._answer = answer
        self._name = name
        self._counts = np.zeros(_COUNTS)
        self._steps = np.zeros((), np.int64)

    @property
    def steps(self) -> int:
        """Number of updates so far."""
        return int(self._steps)

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The parameters are the counts, and the uniform base that they are added to."""
        return ModelInfo(
            identity=hashlib.sha256(self._name.encode() + self._counts.tobytes()).hexdigest(),
            capabilities=CAPABILITIES,
            parameters=2 * self._counts.size,
            trainable_parameters=self._counts.size,
            layers=self._blocks,
            adapted_layers=self._layers,
            adapted_modules=tuple(f"blocks.{layer}.counts" for layer in self._layers),
            context=self._context,
        )

    def attach(self, layers: Sequence[int]) -> None:
        """See `gce.ports.model.Probe`. The blocks are only recorded and have no effect."""
        check_layers(layers, self._blocks)
        self._layers = tuple(sorted(layers))
        self._counts = np.zeros_like(self._counts)
        self._steps = np.zeros_like(self._steps)

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`. Completions come in the order of the requests."""
        return self._completions(all_different(requests), self._log_shares(), self.info().identity)

    def deal(self, requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
        """See `gce.ports.model.Dealing`."""
        asked = list(all_different(requests))
        return [asked[first : first + _SHARE] for first in range(0, len(asked), _SHARE)]

    def sample_share(self, share: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Dealing`."""
        return self.sample(share)

    def continued(
        self, requests: Sequence[SampleRequest], begun: Mapping[str, tuple[int, ...]]
    ) -> Iterator[Completion]:
        """See `gce.ports.model.Continuing`. The function is shown what has begun as a last message of the assistant."""
        asked = [
            evolve(each, messages=(*each.messages, Message("assistant", self.text_of(begun.get(each.key, ())))))
            for each in all_different(requests)
        ]
        return self.sample(asked)

    def text_of(self, tokens: Sequence[int]) -> str:
        """See `gce.ports.model.Continuing`."""
        return "".join(map(chr, tokens[:-1] if tokens and tokens[-1] == _END else tokens))

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """See `gce.ports.model.Scorer`."""
        shares = self._log_shares() if adapter else np.full(_COUNTS, -np.log(_COUNTS))
        return _looked_up(shares, (*map(ord, continuation), _END))

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """See `gce.ports.model.Learner`.

        Adds minus the loss gradient to each trained token's count, which stays at least 0.
        """
        shares, change, loss = self._log_shares(), np.zeros_like(self._counts), 0.0
        examples = [
            example
            for trace, weight in zip(batch.traces, batch.weights, strict=True)
            for example in examples_of(trace, weight, self, clip=batch.clip is not None)
        ]
        fitting = [example for example in examples if len(example.tokens) <= self._context]
        tokens, dropped = sum(example.trained for example in fitting), len(examples) - len(fitting)
        if not tokens:
            return UpdateReport(loss=0.0, tokens=0, gradient_norm=0.0, dropped=dropped, rate=batch.rate)
        scores = []
        for fresh in normalized([example for example in fitting if example.trained], batch):
            example = evolve(fresh, base=(-np.log(_COUNTS),) * (len(fresh.tokens) - fresh.start))
            places = _places(example.targets.tolist())
            scores.append((example, shares[places]))
            losses, pushes = token_losses(batch, shares[places], *token_arrays([example], np.float64))
            loss += float(losses.sum())
            np.add.at(change, places, pushes)
        self._counts = np.maximum(self._counts + batch.rate * change, 0)
        self._steps = np.array(self._steps + 1)
        norm = float(np.linalg.norm(change)) / tokens
        return UpdateReport(loss / tokens, tokens, norm, dropped, batch.rate, **step_metrics(batch, scores))

    def state(self) -> ModelState:
        """See `gce.ports.model.Learner`."""
        arrays = {"adapter.counts": self._counts.copy(), "optimizer.step": np.array(self._steps)}
        return ModelState(arrays=arrays, settings={"layers": list(self._layers)})

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Learner`."""
        expected = self.state().arrays
        got = state.arrays
        if {name: (a.shape, a.dtype) for name, a in expected.items()} != {
            n: (a.shape, a.dtype) for n, a in got.items()
        }:
            shapes = {name: array.shape for name, array in got.items()}
            raise ValueError(
                f"expected arrays { ({name: array.shape for name, array in expected.items()}) }, got {shapes}"
            )
        self._counts, self._steps = got["adapter.counts"].copy(), got["optimizer.step"].copy()
        self._layers = tuple(state.settings.get("layers", self._layers))

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """See `gce.ports.model.Probe`. Block i adds 1 / (i + 1) of the mean square of the scaled tokens so far."""
        tokens = [token for messages in prompts for token in self.prompt_tokens(messages)]
        size = float(np.mean(np.square(np.array(tokens) / _END))) if tokens else 0.0
        found = []
        for layer in range(self._blocks):
            added = size / (layer + 1)
            size += added
            found.append(LayerActivation(layer=layer, mean_square=size, update_mean_square=added))
        return tuple(found)

    def hidden_states(self, messages: Sequence[Message], continuation: str, *, adapter: bool = True) -> Array:
        """See `gce.ports.model.Embedder`. A state is the token, scaled, its probability and its logarithm."""
        tokens = (*map(ord, continuation), _END)
        scores = self.log_probabilities(messages, continuation, adapter=adapter)
        return np.array([np.array(tokens) / _END, np.exp(scores), scores], np.float32).T

    def prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the tokens of the conversation, with an end token after each message. Tools are not shown."""
        return tuple(t for message in messages for t in (*map(ord, f"{message.role}: {message.content}"), _END))

    def turn_tokens(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> tuple[int, ...]:
        """Return the tokens of the last message's text. Tool calls are not shown."""
        return self.text_tokens(messages[-1].content, end=True)

    def text_tokens(self, text: str, *, end: bool) -> tuple[int, ...]:
        """Return the code points, with the end token if `end`."""
        return (*map(ord, text), *([_END] if end else []))

    def _log_shares(self) -> Array:
        shares: Array = np.log((1 + self._counts) / (len(self._counts) + self._counts.sum()))
        return shares

    def _completions(self, requests: Sequence[SampleRequest], shares: Array, policy: str) -> Iterator[Completion]:
        for request in requests:
            prompt = self.prompt_tokens(request.messages)
            limit = min(request.max_tokens, self._context - len(prompt))
            if limit < 1:
                yield no_room(request, prompt, self._context, policy)
                continue
            answer = cut_before(self._answer(request), request.stop)
            written = (*map(ord, answer), _END)[:limit]
            stopped = written[-1] == _END
            found = _looked_up(shares, written)
            yield Completion(
                key=request.key,
                text=self.text_of(written),
                finish_reason="stop" if stopped else "length",
                policy=policy,
                prompt_token_ids=prompt,
                token_ids=written,
                log_probabilities=found,
                sampling_log_probabilities=found,
            )


def _places(tokens: Sequence[int]) -> list[int]:
    """Return the index of each token's count."""
    return [_COUNTS - 1 if token == _END else token % (_COUNTS - 1) for token in tokens]


def _looked_up(shares: Array, tokens: Sequence[int]) -> tuple[float, ...]:
    return tuple(shares[_places(tokens)].tolist())
