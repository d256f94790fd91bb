"""What a language model can do for the loop, as four small capabilities.

An adapter implements those it has; the app asks with `isinstance` (the Protocols are runtime-checkable) and says
clearly what is missing. Vendor types never cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from gce.domain.types import (
    Completion,
    LayerActivation,
    Message,
    ModelState,
    SampleRequest,
    TrainingBatch,
    UpdateReport,
)

__all__ = ["Learner", "Probe", "Sampler", "Scorer"]


@runtime_checkable
class Sampler(Protocol):
    """Writes completions."""

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Yield exactly one completion for each request, in any order, each as soon as it is finished.

        The same call (same requests in the same order, same weights) yields the same completions. Sampling leaves
        weights, optimizer and later calls untouched. An empty sequence yields nothing. Two requests with one key:
        ValueError. A prompt that leaves no room in the context: a completion with finish reason `context` and empty
        text; the others go on. A request that the backend failed to answer, its own tries included: one with finish
        reason `error`, which counts as failed and is asked again.
        """
        ...


@runtime_checkable
class Scorer(Protocol):
    """Tells how likely the model finds a given continuation."""

    def log_probabilities(
        self, messages: Sequence[Message], continuation: str, *, adapter: bool = True
    ) -> tuple[float, ...]:
        """Natural log-probability of each token of `continuation` (end token included) after `messages`.

        With `adapter=False` the frozen base alone is asked, without a second model in memory.
        """
        ...


@runtime_checkable
class Learner(Protocol):
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
        """Continue from `state`, to the same bytes. A state of other shapes: ValueError, and nothing changes."""
        ...


@runtime_checkable
class Probe(Protocol):
    """Shows what the blocks do with prompts."""

    def activation_statistics(self, prompts: Iterable[Sequence[Message]]) -> tuple[LayerActivation, ...]:
        """One record for each block, input to output, over all positions of all prompts, adapter off."""
        ...
