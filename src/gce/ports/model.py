"""The ports for language models: sampling, scoring, learning and probing, and a record that describes the model.

An adapter implements the capabilities that it has and names them in `info()`. The app checks them with `isinstance`
(the Protocols are runtime-checkable) and reports a missing one. Vendor types never cross a port.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import LayerActivation, ModelState, TrainingBatch, UpdateReport
from gce.domain.models import ModelInfo
from gce.domain.problems import Message

__all__ = [
    "Adaptable",
    "Caching",
    "Continuing",
    "Dealing",
    "Embedder",
    "Learner",
    "LearningModel",
    "Model",
    "Opening",
    "Probe",
    "Sampler",
    "Scorer",
]


@runtime_checkable
class Model(Protocol):
    """A model that describes itself."""

    def info(self) -> ModelInfo:
        """Describe the model in its current state.

        `identity` depends on the weights alone: sampling, scoring and probing do not change it; `update`, `restore` and
        `attach` change it with the weights. A wrapper derives its identity from that of the inner model. `capabilities`
        are exactly the Protocols that the model implements.
        """
        ...


@runtime_checkable
class Sampler(Model, Protocol):
    """A model that generates completions."""

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield exactly one completion for each request, in any order, each as soon as it is finished.

        The same call (equal requests in the same order, equal weights) yields the same completions. Their `policy` is
        the model's identity at the time of the call. Sampling does not affect weights, optimizer or later calls. No
        requests yield no completions.

        A prompt that leaves no room in the context yields a completion with finish reason `context` and empty text. A
        request that the backend failed to answer, after its own retries, yields finish reason `error`; it counts as
        failed and is asked again. Neither affects other requests.

        Raises:
            ValueError: two requests with the same key.
        """
        ...


@runtime_checkable
class Scorer(Model, Protocol):
    """A model that computes log-probabilities of given continuations."""

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """Return the natural log-probability of each token of `continuation` (end token included) after `messages`.

        With `adapter=False`, the frozen base model alone is scored; no second model is loaded.
        """
        ...


@runtime_checkable
class Adaptable(Model, Protocol):
    """A model that takes the LoRA adapter of a checkpoint: every learner, and models that sample or score with one.

    It is no capability of its own.
    """

    def restore(self, state: ModelState) -> None:
        """Continue from `state`, to the same bytes; if no block is adapted yet, adapt those of the state.

        Raises:
            ValueError: a state with other shapes; nothing changes.
        """
        ...


@runtime_checkable
class Learner(Adaptable, Protocol):
    """A model that learns from traces: a LoRA adapter on a frozen base model."""

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """Take one optimizer step with the loss and learning rate that the batch specifies, on generated tokens only.

        A batch whose traces all exceed the context changes nothing and reports zero tokens.

        Raises:
            ValueError: a batch with `clip` holds a trace without log-probabilities; nothing changes.
        """
        ...

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer, which later updates do not change."""
        ...


@runtime_checkable
class Probe(Model, Protocol):
    """A model that reports activation statistics of its blocks, and adapts the blocks chosen from them.

    A learner whose adapted blocks are fixed is not a probe.
    """

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """Return one record per block, input to output, over all positions of all prompts, with the adapter off."""
        ...

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer, whatever was learned before.

        Raises:
            ModelError: a block that does not exist, or a duplicate block; nothing changes.
        """
        ...


@runtime_checkable
class Dealing(Sampler, Protocol):
    """A sampler that computes the requests of a call in shares, so that others can compute some. It is no capability.

    The completions of `sample` are those of `sample_share` for each share of `deal`, to the last bit.
    """

    def deal(self, requests: Sequence[SampleRequest]) -> list[list[SampleRequest]]:
        """Return the shares: each request once, and the same shares for the same requests, wherever they are dealt.

        Raises:
            ValueError: two requests with the same key.
        """
        ...

    def sample_share(self, share: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield exactly one completion for each request of a share that `deal` returned, in any order."""
        ...


@runtime_checkable
class Freezable(Sampler, Protocol):
    """A sampler whose weights of a moment can be sampled from later. It is no capability of its own."""

    def frozen(self) -> Sampler:
        """Return a sampler with the weights of now, which no update changes, and which another thread may use."""
        ...


@runtime_checkable
class Caching(Protocol):
    """A model that keeps intermediate results between calls, to save time."""

    def clear_caches(self) -> None:
        """Free the memory of what can be computed again; no later result changes."""
        ...


@runtime_checkable
class Continuing(Protocol):
    """A sampler that continues answers which have begun. It is no capability of its own."""

    def continued(
        self, requests: Sequence[SampleRequest], begun: Mapping[str, tuple[int, ...]]
    ) -> Iterator[Completion]:
        """Yield a completion for each request as `Sampler.sample` does, of the answer that begins with these tokens.

        `begun` has token ids of earlier completions by the keys of requests. Text and tokens of a completion are what
        follows them.
        """
        ...

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of generated tokens, without an end token.

        Of the ids of a completion it is the completion's text, without what its prompt began of it; see `Opening`.
        """
        ...


@runtime_checkable
class Opening(Protocol):
    """A model whose prompts may begin its answers. It is no capability of its own."""

    def opening_of(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """Return the end of the prompt from `<think>` on, if it opens a thought; otherwise an empty text.

        Texts of completions begin with it, although it was not generated.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """A model that returns its hidden states. It is no capability of its own."""

    def hidden_states(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> NDArray[np.float32]:
        """Return (tokens, width): what the head reads at each token of `continuation` (end token included).

        Tokens are those of `Scorer.log_probabilities`. With `adapter=False`, they are states of the frozen base model.
        """
        ...


class LearningModel(Sampler, Learner, Protocol):
    """The capabilities that training requires of a model."""
