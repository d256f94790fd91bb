"""A sampler whose completions the workers of an executor make, each a whole share with the adapter of the moment."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Protocol, TypeVar

from attrs import frozen

from gce.adapters.models.taking import taken
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.domain.models import ModelInfo
from gce.errors import ModelError
from gce.ports.executor import Executor
from gce.ports.model import Adaptable, Dealing, Sampler

__all__ = ["AdaptableDealer", "OnWorkers", "SampleShare", "in_a_thread"]

Result = TypeVar("Result")
SampleShare = Callable[[str, ModelState | None, Sequence[SampleRequest]], Iterable[Completion]]
"""A module's function of a worker: (identity, adapter or None, share) -> completions by the model of this identity."""


class AdaptableDealer(Dealing, Adaptable, Protocol):
    """What `OnWorkers` needs of the model that deals the requests."""


class OnWorkers:
    """The sampler `model`, computed elsewhere. Has `Adaptable` and `Freezable` of `gce.ports.model`.

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
        self._frozen: _Frozen | None = None
        self._state: ModelState | None = None

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        return self._model.info()

    def restore(self, state: ModelState) -> None:
        """See `gce.ports.model.Adaptable`. Workers take the adapter with the next share."""
        if not self._learns:
            self._model.restore(state)
        self._state = state
        self._frozen = None

    def frozen(self) -> Sampler:
        """See `gce.ports.model.Freezable`."""
        if self._frozen is None:
            info = self._model.info()
            # One object for all calls with these weights, which an executor may send once.
            work = partial(self._sample_share, info.identity, self._state)
            self._frozen = _Frozen(info, self._model.deal, work, self._executor)
        return self._frozen

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `gce.ports.model.Sampler`.

        Raises:
            ModelError: a worker had other weights.
        """
        return self.frozen().sample(requests)


@frozen(eq=False)
class _Frozen:
    """The sampler with the weights of a moment. Has `Sampler` of `gce.ports.model`."""

    _info: ModelInfo
    _deal: Callable[[Sequence[SampleRequest]], list[list[SampleRequest]]]
    _work: Callable[[Sequence[SampleRequest]], Iterable[Completion]]
    _executor: Executor

    def info(self) -> ModelInfo:
        """See `gce.ports.model.Model`."""
        return self._info

    def sample(self, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """See `OnWorkers.sample`."""
        return self._completions(self._deal(requests))

    def _completions(self, shares: Sequence[Sequence[SampleRequest]]) -> Iterator[Completion]:
        identity = self._info.identity
        for completion in in_a_thread(self._executor.map(self._work, shares)):
            if completion.policy != identity:
                raise ModelError(
                    f"expected an answer by the weights {identity[:12]}, got one by {completion.policy[:12]}: do all "
                    "machines have the same files and the same version of gce?"
                )
            yield completion


def in_a_thread(results: Iterator[Result]) -> Iterator[Result]:
    """Yield results that a thread takes as they come.

    So an idle worker gets the next share at once, even while the caller waits, as for verdicts on answers that it got:
    they may wait behind the share of a busy worker.
    """
    found: SimpleQueue[Any] = SimpleQueue()
    end, closed = object(), Event()

    def take() -> None:
        last: object = end
        try:
            for result in results:
                found.put(result)
                if closed.is_set():
                    break
        except BaseException as error:
            last = error
        if isinstance(results, Generator):
            results.close()
        found.put(last)

    # A thread that waits for a cluster must not keep the process from ending.
    Thread(target=take, name="shares", daemon=True).start()
    try:
        yield from taken(found, end)
    finally:
        closed.set()
