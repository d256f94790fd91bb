"""A model wrapper that samples with another engine than the one that learns. Independent of both.

The engine must hold the same base; its quantization and its arithmetic may differ. Completions have log-probabilities
under the weights that generated them, which is what an importance ratio with `clip` divides by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from attrs import evolve, frozen

from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import LayerActivation, ModelState, TrainingBatch, UpdateReport
from gce.domain.models import ModelInfo
from gce.domain.problems import Message
from gce.domain.tasks.task import THINK_START
from gce.ports.model import Adaptable, Freezable, Learner, Opening, Probe, Sampler, Scorer

__all__ = ["AdaptableSampler", "FullModel", "WithSampler"]


class FullModel(Scorer, Learner, Probe, Protocol):
    """What `WithSampler` needs of the model that learns."""


class AdaptableSampler(Sampler, Adaptable, Protocol):
    """What it needs of the one that samples."""


class WithSampler:
    """`learner` with `sampler` in place of its own sampling. Has all four capabilities.

    Before it samples, `sampler` takes the adapter that `learner` has then.
    """

    def __init__(self, learner: FullModel, sampler: AdaptableSampler, *, same: bool = False) -> None:
        """`same`: `sampler` is the learner's own sampling, computed elsewhere, so the identity is the learner's."""
        self._learner = learner
        self._same = same
        self._sampler = sampler
        self._base = sampler.info().identity
        self._current = False

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`. The identity is a SHA-256 of the learner's and that of the sampler's base."""
        learner = self._learner.info()
        if self._same:
            return learner
        identity = hashlib.sha256(f"{learner.identity} sampled by {self._base}".encode()).hexdigest()
        return evolve(
            learner,
            identity=identity,
            capabilities=learner.capabilities | {"sample"},
            precision=self._sampler.info().precision,
        )

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`."""
        self._take_adapter()
        return _Labelled(self.info(), self._sampler, self._opening_of()).sample(requests)

    def frozen(self) -> Sampler:
        """See `gce.ports.model.Freezable`.

        Raises:
            TypeError: the sampler cannot be frozen.
        """
        self._take_adapter()
        if not isinstance(self._sampler, Freezable):
            raise TypeError(f"{type(self._sampler).__name__} samples with the weights of the moment alone")
        return _Labelled(self.info(), self._sampler.frozen(), self._opening_of())

    def _opening_of(self) -> Callable[[Sequence[Message]], str]:
        return self._learner.opening_of if isinstance(self._learner, Opening) else lambda _messages: ""

    def _take_adapter(self) -> None:
        if not self._current and self._learner.info().adapted_layers:
            self._sampler.restore(self._learner.state())
        self._current = True

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """See `gce.ports.model.Scorer`. Under the learner's weights."""
        return self._learner.log_probabilities(messages, continuation, adapter=adapter)

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """See `gce.ports.model.Learner`."""
        self._current = False
        return self._learner.update(batch)

    def state(self) -> ModelState:
        """See `gce.ports.model.Learner`."""
        return self._learner.state()

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Adaptable`."""
        self._current = False
        self._learner.restore(state)

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """See `gce.ports.model.Probe`."""
        return self._learner.activation_statistics(prompts)

    def attach(self, layers: Sequence[int]) -> None:
        """See `gce.ports.model.Probe`."""
        self._current = False
        self._learner.attach(layers)


@frozen(eq=False)
class _Labelled:
    """A sampler whose completions tell another identity. Has `Sampler` of `gce.ports.model`.

    A server may leave out what the prompt begins of an answer, so that a thought would pass for the answer.
    """

    _info: ModelInfo
    _sampler: Sampler
    _opening_of: Callable[[Sequence[Message]], str]

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`."""
        prompts = {request.key: request.messages for request in requests}
        for completion in self._sampler.sample(requests):
            answered = completion.finish_reason in ("stop", "length") and not completion.reasoning
            begun = not answered or completion.text.lstrip().startswith(THINK_START)
            opening = "" if begun else self._opening_of(prompts[completion.key])
            yield evolve(completion, policy=self._info.identity, text=opening + completion.text)
