"""The replay buffer as a value: which traces may be trained on, and which of them the next batch holds.

Knows traces by their digest, problem, tier and iteration. Does not know why a trace was let in (`gce.domain.admission`
says that), what is learned from it, or where it is stored: a buffer is rebuilt by admitting its traces in order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from attrs import Factory, define, field, frozen

from gce.domain.learning import Trace

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["Buffer", "BufferSettings", "Weighting", "admit", "composition", "draw", "empty", "epoch", "only", "tiers"]

Weighting = Literal["equal", "uniform-tier", "failure-rate"]


@frozen
class BufferSettings:
    """What a buffer refuses."""

    per_problem: int | None = field(default=4)
    """Traces kept for one problem at most, the first ones; None for no limit. ReST-EM keeps 10."""
    deduplicate: bool = True
    """Whether a trace is refused whose digest is there already."""

    @per_problem.validator
    def _at_least_one(self, _attribute: object, value: int | None) -> None:
        if value is not None and value < 1:
            raise ValueError(f"expected at least 1 trace per problem, or None for no limit, got {value!r}")


@define
class _Storage:
    """Append-only; shared by every buffer that grew from the same start."""

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
    """Traces in the order of admission; made by `empty` and `admit`, never changed.

    It remembers how much of its storage is its own, so a value kept from earlier stays what it was while newer ones
    grow. Not for two threads that admit at once.
    """

    settings: BufferSettings
    _storage: _Storage = field(repr=False)
    _length: int
    _tiers: Mapping[str, int]
    """Traces held, by tier, in the order in which the tiers first came."""

    def __len__(self) -> int:
        """How many traces it holds."""
        return self._length

    def __iter__(self) -> Iterator[Trace]:
        """The traces, oldest first."""
        return islice(self._storage.traces, self._length)

    def __eq__(self, other: object) -> bool:
        """Same settings and equal traces in the same order."""
        if not isinstance(other, Buffer):
            return NotImplemented
        same_kind = self.settings == other.settings and self._length == other._length
        return same_kind and all(mine == theirs for mine, theirs in zip(self, other, strict=True))


def empty(settings: BufferSettings | None = None) -> Buffer:
    """A buffer without traces."""
    return Buffer(settings=settings or BufferSettings(), storage=_Storage(), length=0, tiers={})


def admit(buffer: Buffer, traces: Iterable[Trace]) -> Buffer:
    """The buffer with those of `traces` at its end that its settings do not refuse.

    The given buffer stays valid. Costs what the new traces cost, and the whole buffer once where `buffer` is not the
    newest of its line: then it is copied first.
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
    """A buffer of the traces of one iteration.

    To train without accumulation, take `only(buffer, iteration)` before that iteration's traces are admitted: taken
    after, it lacks those that earlier iterations had found already.
    """
    return admit(empty(buffer.settings), (trace for trace in buffer if trace.iteration == iteration))


def tiers(buffer: Buffer) -> tuple[str, ...]:
    """The tiers that have traces, in the order in which they first came."""
    return tuple(buffer._tiers)


def composition(buffer: Buffer) -> dict[str, int]:
    """How many traces each tier has; tiers without any are left out."""
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
    """One training batch of `size` traces, in random order; time does not grow with the buffer.

    `uniform-tier` gives every tier the same share of the batch, so that no tier is forgotten where another is easier
    to fill; `equal` treats every trace alike; `failure-rate` weighs a tier by max(floor, failure[tier]), with
    `failure` the share of wrong rollouts in [0, 1]. A tier whose share is no whole number of places gets the next lower
    or higher one, right on average. Inside a tier each trace is as likely as another, and none comes twice before all
    have come once.

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
    else:
        places = _places(_tier_weights(held, weighting, failure, floor), generator, size)
        drawn = [
            trace
            for tier, count in places.items()
            for trace in _pick(storage.by_tier[tier], held[tier], generator, count)
        ]
    return tuple(drawn[index] for index in generator.permutation(len(drawn)).tolist())


def epoch(buffer: Buffer, generator: Generator, size: int) -> Iterator[tuple[Trace, ...]]:
    """Every trace once in random order, in batches of `size`; the last one holds what is left. None when empty.

    Raises:
        ValueError: a size below 1.
    """
    if size < 1:
        raise ValueError(f"expected a batch size from 1, got {size!r}")
    # Drawn at the call, not at the first batch: what else uses the generator meanwhile must not matter.
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
        raise ValueError(f"expected weighting equal, uniform-tier or failure-rate, got {weighting!r}")
    if not 0.0 < floor <= 1.0:
        raise ValueError(f"expected a floor in (0, 1], got {floor!r}")
    rates = failure or {}
    for tier in held:
        if not 0.0 <= rates.get(tier, -1.0) <= 1.0:
            raise ValueError(f"expected a failure rate in [0, 1] for tier {tier}, got {rates.get(tier)!r}")
    return {tier: max(floor, rates[tier]) for tier in held}


def _places(weights: Mapping[str, float], generator: Generator, size: int) -> dict[str, int]:
    """Systematic sampling: whole numbers that add up to `size`, each tier's exact share on average.

    The tiers are shuffled first: in a fixed order neighbours would never be in a small batch together.
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
    """`count` of the first `available` traces: all of them as often as they fit, and a random choice for the rest."""
    whole, rest = divmod(count, available)
    chosen = generator.choice(available, rest, replace=False, shuffle=False).tolist()
    return [traces[index] for _ in range(whole) for index in range(available)] + [traces[index] for index in chosen]
