"""The replay buffer as an immutable value: the traces that may be trained on, and how a batch is drawn from them.

A buffer identifies traces by content digest, problem, tier and iteration. It does not know why a trace was admitted
(see `gce.domain.admission`), how it is trained on or where it is stored. Admitting the traces in order rebuilds the
buffer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np
from attrs import Factory, define, field, frozen

from gce.domain.learning import Trace

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["Buffer", "BufferSettings", "Weighting", "admit", "composition", "draw", "empty", "epoch", "only", "tiers"]

Weighting = Literal["equal", "uniform-tier", "failure-rate", "surprise"]


@frozen
class BufferSettings:
    """Limits on what a buffer admits."""

    per_problem: int | None = field(default=4)
    """Maximum number of traces per problem; the first ones are kept. None: no limit. ReST-EM keeps 10."""
    deduplicate: bool = True
    """Whether to reject a trace whose digest is already in the buffer."""

    @per_problem.validator
    def _at_least_one(self, _attribute: object, value: int | None) -> None:
        if value is not None and value < 1:
            raise ValueError(f"expected at least 1 trace per problem, or None for no limit, got {value!r}")


@define
class _Storage:
    """Append-only storage, shared by all buffers that grew from the same start."""

    traces: list[Trace] = Factory(list)
    by_tier: dict[str, list[Trace]] = Factory(dict)
    digests: set[str] = Factory(set)
    problems: dict[str, int] = Factory(dict)

    def add(self, trace: Trace, settings: BufferSettings) -> bool:
        if settings.deduplicate and trace.content_digest in self.digests:
            return False
        if settings.per_problem is not None:
            held = self.problems.get(trace.problem, 0)
            if held >= settings.per_problem:
                return False
            self.problems[trace.problem] = held + 1
        if settings.deduplicate:
            self.digests.add(trace.content_digest)
        self.traces.append(trace)
        self.by_tier.setdefault(trace.tier, []).append(trace)
        return True


@frozen(eq=False)
class Buffer:
    """Traces in order of admission, made by `empty` and `admit`.

    Immutable: each buffer records how much of the shared storage belongs to it, so older values stay valid while newer
    ones grow. Concurrent calls of `admit` from several threads are not safe.
    """

    settings: BufferSettings
    _storage: _Storage = field(repr=False)
    _length: int
    _tiers: Mapping[str, int]
    """Number of traces by tier, in the order in which the tiers first appeared."""

    def __len__(self) -> int:
        """Number of traces."""
        return self._length

    def __iter__(self) -> Iterator[Trace]:
        """Iterate over the traces, oldest first."""
        return islice(self._storage.traces, self._length)

    def __eq__(self, other: object) -> bool:
        """True if the settings are equal and the traces are equal in the same order."""
        if not isinstance(other, Buffer):
            return NotImplemented
        same_kind = self.settings == other.settings and self._length == other._length
        return same_kind and all(mine == theirs for mine, theirs in zip(self, other, strict=True))


def empty(settings: BufferSettings | None = None) -> Buffer:
    """Return an empty buffer."""
    return Buffer(settings=settings or BufferSettings(), storage=_Storage(), length=0, tiers={})


def admit(buffer: Buffer, traces: Iterable[Trace]) -> Buffer:
    """Return a buffer with `traces` appended, except those that the settings reject.

    The given buffer stays valid. The call takes time linear in the number of new traces. If `buffer` is not the newest
    value that shares its storage, the whole buffer is copied first.
    """
    storage = buffer._storage
    if len(storage.traces) != len(buffer):
        storage = _Storage()
        for trace in buffer:
            storage.add(trace, buffer.settings)
    held = dict(buffer._tiers)
    for trace in traces:
        if storage.add(trace, buffer.settings):
            held[trace.tier] = held.get(trace.tier, 0) + 1
    return Buffer(settings=buffer.settings, storage=storage, length=len(storage.traces), tiers=held)


def only(buffer: Buffer, iteration: int) -> Buffer:
    """Return a buffer with the traces of one iteration only.

    To train without accumulation, call `only(buffer, iteration)` before you admit that iteration's traces. Called
    afterwards, it lacks the traces that duplicate those of earlier iterations.
    """
    return admit(empty(buffer.settings), (trace for trace in buffer if trace.iteration == iteration))


def tiers(buffer: Buffer) -> tuple[str, ...]:
    """Return the tiers that have traces, in the order in which they first appeared."""
    return tuple(buffer._tiers)


def composition(buffer: Buffer) -> dict[str, int]:
    """Return the number of traces by tier; empty tiers are left out."""
    return dict(buffer._tiers)


def draw(
    buffer: Buffer,
    generator: Generator,
    size: int,
    *,
    weighting: Weighting = "uniform-tier",
    failure: Mapping[str, float] | None = None,
    floor: float = 0.05,
) -> tuple[Trace, ...]:
    """Draw a training batch of `size` traces in random order; the time does not depend on the size of the buffer.

    Weightings:

    - `uniform-tier` gives every tier the same share of the batch, so that easy tiers do not crowd out hard ones.
    - `equal` gives every trace the same weight.
    - `failure-rate` weights a tier by max(floor, failure[tier]), where `failure` is its rate of wrong
      rollouts, in [0, 1].
    - `surprise` weights a trace by max(floor, its surprise), in time linear in the size of the buffer; traces may
      repeat.

    A fractional share of a batch is rounded up or down at random, so that it is exact in expectation. Within a tier all
    traces are equally likely, and none is repeated before each has been drawn once.

    Raises:
        ValueError: an empty buffer, a negative size, an unknown weighting, or a failure rate missing or out of range.
    """
    if size < 0:
        raise ValueError(f"expected a batch size from 0, got {size!r}")
    if not len(buffer):
        raise ValueError("expected a buffer with traces to draw from, got an empty one")
    storage, held = buffer._storage, buffer._tiers
    if weighting == "equal":
        drawn = _pick(storage.traces, len(buffer), generator, size)
    elif weighting == "surprise":
        weights = np.array([max(floor, 1.0 if each.surprise is None else each.surprise) for each in buffer])
        chosen = generator.choice(len(buffer), size, p=weights / weights.sum())
        drawn = [storage.traces[index] for index in chosen.tolist()]
    else:
        places = _places(_tier_weights(held, weighting, failure, floor), generator, size)
        drawn = [
            trace
            for tier, count in places.items()
            for trace in _pick(storage.by_tier[tier], held[tier], generator, count)
        ]
    return tuple(drawn[index] for index in generator.permutation(len(drawn)).tolist())


def epoch(buffer: Buffer, generator: Generator, size: int) -> Iterator[tuple[Trace, ...]]:
    """Return every trace once, in random order, in batches of `size`.

    The last batch holds the remainder. An empty buffer gives no batches.

    Raises:
        ValueError: a size below 1.
    """
    if size < 1:
        raise ValueError(f"expected a batch size from 1, got {size!r}")
    # Drawn at the call, not at the first batch: other uses of the generator in between must not change the order.
    order = generator.permutation(len(buffer))
    return (_batch(buffer, order[start : start + size].tolist()) for start in range(0, len(order), size))


def _batch(buffer: Buffer, positions: list[int]) -> tuple[Trace, ...]:
    traces = buffer._storage.traces
    return tuple(traces[position] for position in positions)


def _tier_weights(
    held: Mapping[str, int], weighting: Weighting, failure: Mapping[str, float] | None, floor: float
) -> dict[str, float]:
    if weighting == "uniform-tier":
        return dict.fromkeys(held, 1.0)
    if weighting != "failure-rate":
        raise ValueError(f"expected weighting equal, uniform-tier, failure-rate or surprise, got {weighting!r}")
    if not 0.0 < floor <= 1.0:
        raise ValueError(f"expected a floor in (0, 1], got {floor!r}")
    rates = failure or {}
    for tier in held:
        if not 0.0 <= rates.get(tier, -1.0) <= 1.0:
            raise ValueError(f"expected a failure rate in [0, 1] for tier {tier}, got {rates.get(tier)!r}")
    return {tier: max(floor, rates[tier]) for tier in held}


def _places(weights: Mapping[str, float], generator: Generator, size: int) -> dict[str, int]:
    """Allocate `size` places to tiers by systematic sampling.

    The places are whole numbers whose expectation is each tier's exact share. The tiers are shuffled first: in a fixed
    order, neighbouring tiers would never share a small batch.
    """
    names = list(weights)
    shuffled = [names[index] for index in generator.permutation(len(names)).tolist()]
    scale = size / math.fsum(weights.values())
    offset = float(generator.random())
    places: dict[str, int] = {}
    reached, taken = 0.0, 0
    for name in shuffled[:-1]:
        reached += weights[name] * scale
        edge = min(size, math.floor(reached + offset))
        places[name] = edge - taken
        taken = edge
    places[shuffled[-1]] = size - taken
    return places


def _pick(traces: Sequence[Trace], available: int, generator: Generator, count: int) -> list[Trace]:
    """Pick `count` of the first `available` traces: each as often as it fits, and a random subset for the rest."""
    whole, rest = divmod(count, available)
    chosen = generator.choice(available, rest, replace=False, shuffle=False).tolist()
    return [traces[index] for _ in range(whole) for index in range(available)] + [traces[index] for index in chosen]
