"""Rollouts of coming iterations, sampled while the learner works: `--schedule async`.

With staleness K the rollouts of iteration n are planned by the state after iteration n - 1 - K, and written with its
weights; the first K + 1 iterations have those of the start. That depends on K alone and not on how long anything takes,
so a run that nothing interrupts always gives the same bytes. One that is resumed samples anew, with the weights of its
last commit, what it had not learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, cast

from attrs import define, evolve, field, frozen

from gce.app.settings.records import ASYNC
from gce.app.training.sampling import Sampled, sample
from gce.app.training.state import Run, RunState
from gce.app.training.time_limit import stage
from gce.domain.measurements import IterationRecord
from gce.ports.model import Freezable, LearningModel
from gce.ports.runs import RunWriter

__all__ = ["Sampling", "sampling"]

Sampling = Callable[[RunState, int], Sampled]
"""From the state before an iteration, and its number, to what was sampled for it."""

SECONDS_BETWEEN_LOOKS = 0.2


@contextmanager
def sampling(run: Run) -> Iterator[Sampling]:
    """Yield the sampling of the run's schedule; what is still being sampled at the end is dropped."""
    if run.settings.executor.schedule != ASYNC:
        yield partial(sample, run)
        return
    ahead = _Ahead(run)
    try:
        yield ahead.sample
    finally:
        ahead.stop()


class _Stopped(Exception):
    """Nobody waits for what is being sampled."""


@define
class _Behind:
    """Watches what is sampled in the other thread, for the run's own thread to show."""

    total: int = 0
    done: int = 0
    stopped: bool = False
    said: list[str] = field(factory=list)

    def stage(self, _name: str, total: int) -> Callable[[], None]:
        """See `Watcher`; a further wave adds to the total."""
        self.total += total

        def advance() -> None:
            if self.stopped:
                raise _Stopped
            self.done += 1

        return advance

    def iteration(self, _record: IterationRecord) -> None:
        """See `Watcher`."""

    def say(self, *lines: str) -> None:
        """See `Watcher`."""
        self.said += lines


class _NothingHeld:
    """Stands for the store, which one thread alone may use: a wave that was not learned from is not kept."""

    def hold(self, record: Mapping[str, Any]) -> None:
        """See `RunWriter`."""

    def held(self) -> Iterable[dict[str, Any]]:
        """See `RunWriter`."""
        return ()


@frozen
class _Wave:
    """An iteration's rollouts while they are sampled."""

    watcher: _Behind
    future: Future[Sampled]


class _Ahead:
    """Samples in another thread, one iteration after another."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waves: dict[int, _Wave] = {}
        self._asked = SimpleQueue[Callable[[], None] | None]()
        self._drawn: Mapping[str, int] | None = None
        """After the last wave; used by the other thread alone."""
        # A thread that waits for a cluster must not keep the process from ending.
        Thread(target=self._work, name="sampling", daemon=True).start()

    def sample(self, state: RunState, number: int) -> Sampled:
        """Return what was sampled for an iteration, after further ones were begun with the weights of now."""
        settings = self._run.settings
        last = min(number + settings.executor.staleness, state.warm_ups + settings.stopping.iterations)
        for each in range(number, last + 1):
            if each not in self._waves:
                self._begin(state, each)
        return self._finished(self._waves.pop(number))

    def stop(self) -> None:
        """Drop what is being sampled."""
        for wave in self._waves.values():
            wave.watcher.stopped = True
        self._asked.put(None)

    def _begin(self, state: RunState, number: int) -> None:
        model = self._run.model
        assert isinstance(model, Freezable), "checked with the settings"
        wave = _Wave(_Behind(), Future())
        run = evolve(
            self._run,
            model=cast(LearningModel, model.frozen()),  # Sampling needs no more of it.
            store=cast(RunWriter, _NothingHeld()),
            watcher=wave.watcher,
            deadline=None,
        )
        self._waves[number] = wave
        self._asked.put(partial(self._sample, run, state, number, wave))

    def _sample(self, run: Run, state: RunState, number: int, wave: _Wave) -> None:
        try:
            if wave.watcher.stopped:
                raise _Stopped
            drawn = state.drawn if self._drawn is None else self._drawn
            found = sample(run, evolve(state, drawn=drawn), number)
        except BaseException as error:  # Raised where it is waited for.
            wave.future.set_exception(error)
        else:
            self._drawn = found.drawn
            wave.future.set_result(evolve(found, staleness=number - 1 - state.iteration))

    def _work(self) -> None:
        while (task := self._asked.get()) is not None:
            task()

    def _finished(self, wave: _Wave) -> Sampled:
        """Wait for a wave, and show how far it is.

        Raises:
            TimeIsUp: the run's time is over before it is complete.
        """
        total = shown = 0
        ended = False
        while not ended:
            ended = bool(wait([wave.future], SECONDS_BETWEEN_LOOKS).done)
            if wave.watcher.total != total:
                total = wave.watcher.total
                advance = stage(self._run, "sample", total - shown)
            while shown < wave.watcher.done:
                advance()
                shown += 1
        if wave.watcher.said:
            self._run.watcher.say(*wave.watcher.said)
        return wave.future.result()
