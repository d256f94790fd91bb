"""Runs that live in memory: the fake of the Runs port, with the meaning of the real one and no files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from attrs import evolve, field, frozen

from gce.adapters.runs.values import check_iteration, check_state, check_stream, copied, encode, summary_at_end
from gce.domain.learning import ModelState
from gce.domain.verified_runs import Verified
from gce.errors import BadInput, RunInUse

__all__ = ["MemoryReader", "MemoryRun", "MemoryRuns"]

_SUMMARY, _CARD = "summary", "card"


@frozen(eq=False)
class _Kept:
    """A run as JSON text and copied arrays: later changes to what was given or read do not reach it."""

    config: str = "{}"
    streams: Mapping[str, tuple[tuple[int, str], ...]] = field(factory=dict)
    """Iteration and body of each record."""
    held: tuple[str, ...] = ()
    loops: Mapping[int, str] = field(factory=dict)
    """Of each commit."""
    states: Mapping[int, ModelState | None] = field(factory=dict)
    """Of the newest commits and the pinned ones."""
    pinned: frozenset[int] = frozenset()
    written: Mapping[str, tuple[int, str]] = field(factory=dict)
    """Summary, card and answers by name: the last iteration that was committed then, and the text."""

    @property
    def last(self) -> int | None:
        return max(self.loops, default=None)

    def records(self, stream: str) -> Iterator[dict[str, Any]]:
        return (json.loads(body) for _, body in self.streams.get(stream, ()))

    def text(self, name: str) -> str | None:
        return self.written[name][1] if name in self.written else None


class MemoryRun:
    """The writer of a run in memory."""

    def __init__(self, runs: dict[str, _Kept] | None = None, name: str = "memory") -> None:
        """Go on with the run of this name in `runs`; without them, a new run of its own."""
        self.name = name
        self._runs = {name: _Kept()} if runs is None else runs
        self._pending: list[tuple[str, str]] = []

    @property
    def _kept(self) -> _Kept:
        return self._runs[self.name]

    def _keep(self, **changes: Any) -> None:
        self._runs[self.name] = evolve(self._kept, **changes)

    def append(self, stream: str, record: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.append`."""
        check_stream(stream)
        self._pending.append((stream, encode(record)))

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunWriter.read`; what is committed while one reads is not among what is read."""
        return self._kept.records(stream)

    def commit(self, iteration: int, state: ModelState | None, loop: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.commit`."""
        check_iteration(iteration, self._kept.last)
        if state is not None:
            check_state(state)
            state = _copy(state)
        body = encode(loop, "loop")
        streams = dict(self._kept.streams)
        for stream in dict(self._pending):
            added = ((iteration, record) for name, record in self._pending if name == stream)
            streams[stream] = (*streams.get(stream, ()), *added)
        having = [each for each, kept in self._kept.states.items() if kept is not None]
        known = {each: self._kept.states[each] for each in having if each in (*self._kept.pinned, having[-1])}
        self._keep(
            streams=streams,
            held=(),
            loops={**self._kept.loops, iteration: body},
            states={**known, iteration: state},
        )
        self._pending = []

    def hold(self, record: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.hold`."""
        self._keep(held=(*self._kept.held, encode(record)))

    def held(self) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunWriter.held`."""
        return (json.loads(body) for body in self._kept.held)

    def last(self) -> tuple[int, ModelState | None, dict[str, Any]] | None:
        """See `gce.ports.runs.RunWriter.last`."""
        iteration = self._kept.last
        if iteration is None:
            return None
        state = self._kept.states[iteration]
        return iteration, None if state is None else _copy(state), json.loads(self._kept.loops[iteration])

    def pin(self, *iterations: int) -> None:
        """See `gce.ports.runs.RunWriter.pin`."""
        if kept := frozenset(each for each in iterations if self._kept.states.get(each) is not None):
            self._keep(pinned=kept)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """See `gce.ports.runs.RunWriter.write_summary`."""
        self._write(_SUMMARY, encode(summary, "summary"))

    def write_answers(self, name: str, answers: Iterable[Mapping[str, Any]]) -> None:
        """See `gce.ports.runs.RunWriter.write_answers`."""
        self._write(f"{name}.jsonl", "\n".join(encode(answer, "answer") for answer in answers))

    def _write(self, name: str, text: str) -> None:
        self._keep(written={**self._kept.written, name: (self._kept.last or 0, text)})


class MemoryReader:
    """The reader of a run in memory."""

    def __init__(self, name: str, kept: _Kept) -> None:
        """Read what was kept."""
        self.name = name
        self._kept = kept

    @property
    def config(self) -> dict[str, Any]:
        """See `gce.ports.runs.RunReader.config`."""
        found: dict[str, Any] = json.loads(self._kept.config)
        return found

    def read(self, stream: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.read`."""
        return self._kept.records(stream)

    def summary(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.summary`."""
        found = self._kept.text(_SUMMARY)
        return None if found is None else summary_at_end(json.loads(found), self.read("iterations"))

    def answers(self, name: str) -> list[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.answers`."""
        return list(self.each_answer(name))

    def each_answer(self, name: str) -> Iterator[dict[str, Any]]:
        """See `gce.ports.runs.RunReader.each_answer`."""
        return (json.loads(line) for line in (self._kept.text(f"{name}.jsonl") or "").split("\n") if line)

    def card(self) -> dict[str, Any] | None:
        """See `gce.ports.runs.RunReader.card`."""
        found = self._kept.text(_CARD)
        return None if found is None else json.loads(found)

    def checkpoint(self, iteration: int | None = None) -> tuple[int, ModelState]:
        """See `gce.ports.runs.RunReader.checkpoint`."""
        having = {each: state for each, state in self._kept.states.items() if state is not None}
        chosen = max(having, default=None) if iteration is None else iteration
        if chosen is None or chosen not in having:
            raise BadInput(f"{self.name} has no checkpoint of iteration {iteration} (any more)")
        return chosen, _copy(having[chosen])


class MemoryRuns:
    """The port `Runs` in memory."""

    def __init__(self) -> None:
        """No runs."""
        self._kept: dict[str, _Kept] = {}
        self._written: set[str] = set()

    def check_free(self, name: str) -> None:
        """See `gce.ports.runs.Runs.check_free`."""
        if name in self._kept:
            raise BadInput(f"{name} is a run already")

    def create(self, name: str, config: Mapping[str, Any]) -> AbstractContextManager[MemoryRun]:
        """See `gce.ports.runs.Runs.create`."""
        body = encode(config, "config")
        self.check_free(name)
        self._kept[name] = _Kept(body)
        return self._writer(name)

    def open(self, name: str, *, discard_after: int | None = None) -> AbstractContextManager[MemoryRun]:
        """See `gce.ports.runs.Runs.open`."""
        kept = self._found(name)
        if name in self._written:
            raise RunInUse(f"the run {name} is in use")
        if discard_after is not None:
            self._kept[name] = _until(kept, discard_after)
        return self._writer(name)

    def read(self, name: str, *, verify: bool = True) -> AbstractContextManager[MemoryReader]:
        """See `gce.ports.runs.Runs.read`; nothing is damaged here, so nothing is verified."""
        return nullcontext(MemoryReader(name, self._found(name)))

    def find(self, within: str) -> dict[str, bool]:
        """See `gce.ports.runs.Runs.find`."""
        below = f"{within}/"
        names = [name for name in sorted(self._kept) if name == within or name.startswith(below)]
        return {name: _SUMMARY in self._kept[name].written for name in names if name.count("/") < below.count("/") + 2}

    def write_card(self, name: str, card: Mapping[str, Any]) -> dict[str, Any]:
        """See `gce.ports.runs.Runs.write_card`."""
        kept, body = self._found(name), encode(card, "card")
        self._kept[name] = evolve(kept, written={**kept.written, _CARD: (0, body)})
        found: dict[str, Any] = json.loads(body)
        return found

    def verify(self, name: str) -> Verified:
        """See `gce.ports.runs.Runs.verify`; nothing is damaged here."""
        kept = self._found(name)
        having = tuple(each for each, state in kept.states.items() if state is not None)
        committed = repr((kept.config, sorted(kept.streams.items()), kept.loops))
        return Verified(kept.last, hashlib.sha256(committed.encode()).hexdigest(), having, ())

    @contextmanager
    def _writer(self, name: str) -> Iterator[MemoryRun]:
        self._written.add(name)
        try:
            yield MemoryRun(self._kept, name)
        finally:
            self._written.discard(name)

    def _found(self, name: str) -> _Kept:
        if name not in self._kept:
            raise BadInput(f"expected a run, found none called {name}")
        return self._kept[name]


def _until(kept: _Kept, iteration: int) -> _Kept:
    """The run as it was after this iteration."""
    if iteration not in kept.states:
        raise BadInput(f"expected an iteration whose state is kept, got {iteration!r}")
    streams = {
        stream: tuple(record for record in records if record[0] <= iteration)
        for stream, records in kept.streams.items()
    }
    return evolve(
        kept,
        streams=streams,
        held=(),
        loops={each: loop for each, loop in kept.loops.items() if each <= iteration},
        states={each: state for each, state in kept.states.items() if each <= iteration},
        written={name: found for name, found in kept.written.items() if found[0] <= iteration},
    )


def _copy(state: ModelState) -> ModelState:
    arrays = {name: copied(state.arrays[name]) for name in sorted(state.arrays)}
    return ModelState(arrays=arrays, settings=json.loads(encode(state.settings, "settings")))
