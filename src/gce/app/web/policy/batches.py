"""Requests that are sampled together: what arrives while the model is busy, or what a client says belongs together.

A client that names its batch gets the completions of one call of the model, whatever else is asked and however its
requests are scheduled; so they are those of the same call in its own process, to the last bit. If a part of the batch
does not come, the rest gets no completions: they could have other last bits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from attrs import define, evolve, field, frozen

from gce.app.web.policy.adapters import Policy
from gce.domain.completions import Completion, SampleRequest

__all__ = ["Asked", "Batches", "IncompleteBatch"]

T = TypeVar("T")
COLLECT = 0.005
"""Seconds that a request waits for others, unless its client names its batch."""
MISSING = 10.0
"""Seconds that a batch waits for its next request."""


class IncompleteBatch(Exception):
    """Some requests of a batch did not come."""


@frozen(eq=False)
class Asked:
    """A request for some completions of one prompt."""

    model: str
    requests: tuple[SampleRequest, ...]
    """Their keys mean nothing."""
    batch: str = ""
    size: int = 0
    """Completions in the batch; 0 for a request without one."""
    places: tuple[int, ...] = ()
    """Those of the requests in the batch."""


@define(eq=False)
class _Batch:
    due: float
    size: int
    asked: list[tuple[Asked, asyncio.Future[list[Completion]]]] = field(factory=list)

    @property
    def whole(self) -> bool:
        return 0 < self.size <= sum(len(each.requests) for each, _ in self.asked)

    def drop(self, places: Sequence[int]) -> None:
        """Give up requests for places that are asked for again, as by a client that lost its connection."""
        again = [pair for pair in self.asked if not set(places).isdisjoint(pair[0].places)]
        self.asked = [pair for pair in self.asked if pair not in again]
        for _, answer in again:
            _fail(answer, IncompleteBatch())


class Batches:
    """Calls a model from a thread of its own, with one batch after another."""

    def __init__(self, make: Callable[[], Policy]) -> None:
        """`make` loads the model, in the thread that will sample."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gce-policy")
        self._waiting: dict[tuple[str, str], _Batch] = {}
        self._arrived = asyncio.Event()
        self.policy = self._thread.submit(make).result()

    async def call(self, work: Callable[[], T]) -> T:
        """Return what `work` returns between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def ask(self, asked: Asked) -> list[Completion]:
        """Return the completions of a request in order.

        Raises:
            IncompleteBatch: other requests of its batch have not come.
            Exception: what sampling raised.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        batch = self._waiting.setdefault((asked.model, asked.batch), _Batch(now + COLLECT, asked.size))
        if asked.size:
            batch.due = now + MISSING
            batch.drop(asked.places)
        answer: asyncio.Future[list[Completion]] = loop.create_future()
        batch.asked.append((asked, answer))
        self._arrived.set()
        return await answer

    async def run(self) -> None:
        """Sample whatever is asked, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._arrived.clear()
            now = loop.time()
            due = {key: now if batch.whole else batch.due for key, batch in self._waiting.items()}
            key = min(due, key=due.__getitem__, default=None)
            if key is not None and due[key] <= now:
                batch = self._waiting.pop(key)
                if batch.size and not batch.whole:
                    for _, answer in batch.asked:
                        _fail(answer, IncompleteBatch())
                else:
                    await self.call(lambda asked=batch.asked: self._sample(asked, loop))  # type: ignore[misc]
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(None if key is None else due[key] - now):
                    await self._arrived.wait()

    def close(self) -> None:
        """End the thread, without waiting for it."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _sample(
        self, asked: Sequence[tuple[Asked, asyncio.Future[list[Completion]]]], loop: asyncio.AbstractEventLoop
    ) -> None:
        """Sample a batch, and answer each request as soon as all of its completions are there."""
        found: list[dict[int, Completion]] = [{} for _ in asked]
        try:
            numbered = [
                (each.places[choice] if each.places else 0, number, choice, request)
                for number, (each, _) in enumerate(asked)
                for choice, request in enumerate(each.requests)
            ]
            requests = {
                f"{number} {choice}": evolve(request, key=f"{number} {choice}")
                for _, number, choice, request in sorted(numbered, key=lambda each: each[:3])
            }
            for completion in self.policy.sample(asked[0][0].model, list(requests.values())):
                number, choice = map(int, completion.key.split())
                found[number][choice] = completion
                if len(found[number]) == len(asked[number][0].requests):
                    ordered = [found[number][place] for place in range(len(found[number]))]
                    loop.call_soon_threadsafe(_answer, asked[number][1], ordered)
        except Exception as error:
            for _, answer in asked:
                loop.call_soon_threadsafe(_fail, answer, error)


def _answer(answer: asyncio.Future[list[Completion]], found: list[Completion]) -> None:
    if not answer.done():
        answer.set_result(found)


def _fail(answer: asyncio.Future[list[Completion]], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
