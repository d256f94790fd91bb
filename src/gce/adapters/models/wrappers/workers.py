"""A sampler whose completions the workers of an executor make, each a whole share with the adapter of the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.models import ModelInfo
from gce.errors import ModelError
from gce.ports.executor import Executor
from gce.ports.model import Adaptable, Dealing

__all__ = ["AdaptableDealer", "OnWorkers", "SampleShare"]

SampleShare = Callable[[str, ModelState | None, Sequence[SampleRequest]], Iterable[Completion]]
"""A module's function of a worker: (identity, adapter or None, share) -> completions by the model of this identity."""


class AdaptableDealer(Dealing, Adaptable, Protocol):
    """What `OnWorkers` needs of the model that deals the requests."""


class OnWorkers:
    """The sampler `model`, computed elsewhere. Has `Sampler` and `Adaptable` of `gce.ports.model`.

    The completions are those of `model`, because it deals the shares from the requests alone.
    """

    def __init__(
        self, model: AdaptableDealer, executor: Executor, sample_share: SampleShare, *, learns: bool = False
    ) -> None:
        """`learns`: `model` is the learner itself, so it has each adapter before it is restored here."""
        self._model = model
        self._learns = learns
        self._executor = executor
        self._sample_share = sample_share
        self._bound: tuple[str, Callable[[Sequence[SampleRequest]], Iterable[Completion]]] | None = None
        self._state: ModelState | None = None

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        return self._model.info()

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Adaptable`. Workers take the adapter with the next share."""
        if not self._learns:
            self._model.restore(state)
        self._state = state
        self._bound = None

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`.

        Raises:
            ModelError: a worker had other weights.
        """
        if self._bound is None:
            identity = self._model.info().identity
            # One object for all calls with these weights, which an executor may send once.
            self._bound = identity, partial(self._sample_share, identity, self._state)
        return self._completions(*self._bound, self._model.deal(requests))

    def _completions(
        self,
        identity: str,
        work: Callable[[Sequence[SampleRequest]], Iterable[Completion]],
        shares: Sequence[Sequence[SampleRequest]],
    ) -> Iterator[Completion]:
        for completion in self._executor.map(work, shares):
            if completion.policy != identity:
                raise ModelError(
                    f"expected an answer by the weights {identity[:12]}, got one by {completion.policy[:12]}: do all "
                    "machines have the same files and the same version of gce?"
                )
            yield completion
