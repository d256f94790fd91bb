"""What a language model can do for the loop: four small capabilities, and a record of what the model is.

An adapter implements the capabilities that it has and names them in `info()`. The app asks with `isinstance` (the
Protocols are runtime-checkable) and says clearly what is missing. Vendor types never cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import LayerActivation, ModelState, TrainingBatch, UpdateReport
from gce.domain.models import ModelInfo
from gce.domain.problems import Message

__all__ = ["Learner", "LearningModel", "Model", "Probe", "Sampler", "Scorer"]


@runtime_checkable
class Model(Protocol):
    """Says what it is."""

    def info(self) -> ModelInfo:
        """What the model is now.

        `identity` follows from the weights alone: sampling, scoring and probing leave it; `update`, `restore` and
        `attach` change it with the weights. A wrapper derives its own from that of the model inside. `capabilities` are
        exactly the Protocols that the model implements.
        """
        ...


@runtime_checkable
class Sampler(Model, Protocol):
    """Writes completions."""

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield exactly one completion for each request, in any order, each as soon as it is finished.

        The same call (same requests in the same order, same weights) yields the same completions, and their `policy` is
        the model's identity at the call. Sampling leaves weights, optimizer and later calls untouched. An empty
        sequence yields nothing. Two requests with one key: ValueError. A prompt that leaves no room in the context: a
        completion with finish reason `context` and empty text; the others go on. A request that the backend failed to
        answer, its own tries included: one with finish reason `error`, which counts as failed and is asked again.
        """
        ...


@runtime_checkable
class Scorer(Model, Protocol):
    """Tells how likely the model finds a given continuation."""

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """Natural log-probability of each token of `continuation` (end token included) after `messages`.

        With `adapter=False` the frozen base alone is asked, without a second model in memory.
        """
        ...


@runtime_checkable
class Learner(Model, Protocol):
    """Learns from traces: a LoRA adapter over a frozen base."""

    def update(self, batch: TrainingBatch) -> UpdateReport:
        """One optimizer step on the batch: the loss that it names, on the generated tokens only, at the rate it names.

        A batch whose traces all exceed the context changes nothing and reports zero tokens. One with `clip` and a trace
        without log-probabilities: ValueError, and nothing changes.
        """
        ...

    def state(self) -> ModelState:
        """A copy of adapter and optimizer; later updates do not change it."""
        ...

    def restore(self, state: ModelState) -> None:
        """Continue from `state`, to the same bytes. A state of other shapes: ValueError, and nothing changes.

        Where no block is adapted yet, those of the state are.
        """
        ...


@runtime_checkable
class Probe(Model, Protocol):
    """Shows what the blocks do with prompts, and adapts those that are chosen.

    A learner without blocks to choose from is no probe: its adapter is where it is.
    """

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """One record for each block, input to output, over all positions of all prompts, adapter off."""
        ...

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks alone, from fresh initial values and with a fresh optimizer, whatever was learned before.

        A block that does not exist, or one given twice: ModelError, and nothing changes.
        """
        ...


class LearningModel(Sampler, Learner, Protocol):
    """What training needs of a model."""
