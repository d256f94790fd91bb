"""What an iteration of training takes on more workers, in seconds, bytes and money, and which stage bounds it.

A wave of rollouts is dealt into shares, which workers compute whole, so a stage lasts as long as the worker with most
of them. The process of the run deals, judges the order of admission and writes while workers sample; it learns alone.
Nothing is fitted: each parameter is measured, or stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import evolve, frozen

__all__ = ["Cluster", "Forecast", "Iteration", "forecast", "largest_part", "resized", "shares_of"]

_FEWEST = 16
"""Fewer rollouts are not divided: small batches take longer per row."""
_PER_SHARE = 100
"""Approximate rollouts per share if there are many: jobs take over the rows of finished ones, so a batch stays full."""

LEARNER, DRIVER, NETWORK, SAMPLING, SHARES = "learner", "driver", "network", "sampling", "shares"


@frozen
class Iteration:
    """One iteration with one worker and one learner, as measured."""

    rollouts: int
    shares: int
    """Parts of a wave that a worker computes whole."""
    sampling: float
    """Seconds that one worker takes for all rollouts, judging included."""
    learning: float
    """Seconds of the optimizer steps."""
    dev_shares: int = 1
    evaluating: float = 0.0
    """Seconds that one worker takes for the answers to dev problems."""
    tokens: float = 0.0
    """Tokens of a rollout: prompt and completion, mean."""
    parameters: float = 1.0
    """Of the whole model."""
    adapter_bytes: float = 0.0
    """Sent to each worker after an iteration."""
    record_bytes: float = 0.0
    """What a rollout takes in the records."""


@frozen
class Cluster:
    """Workers and what connects them."""

    workers: int
    speed: float = 1.0
    """Of a worker and of a learner, relative to those that were measured."""
    learners: int = 1
    """Learner processes, one device each."""
    driver: float = 0.0
    """Seconds of the process of the run per rollout: dealing, receiving, admission and writing."""
    bandwidth: float = 1.25e9
    """Bytes per second into each worker."""
    price: float = 0.0
    """Of a worker, and of a learner, per hour."""


@frozen
class Forecast:
    """An iteration on a cluster."""

    cluster: Cluster
    seconds: Mapping[str, float]
    """By stage; they follow each other, but the driver works while workers sample."""
    total: float
    """Seconds of the iteration."""
    bound: str
    """What adding to would shorten the iteration most: sampling (workers), shares (more rollouts per iteration, as
    some workers have nothing to do), driver, learner, or network."""
    speedup: float
    """Over one worker and one learner."""
    tokens: float
    """Per second, of prompts and completions."""
    busy: float
    """Share of the workers' time in which they work, in [0, 1]."""
    sent: float
    """Bytes per iteration: the adapter to each worker, and the rollouts back."""
    price: float
    """Of an iteration."""


def shares_of(rollouts: int) -> int:
    """Return into how many shares so many rollouts are dealt: a power of two, which divides evenly among most cores."""
    if rollouts < _FEWEST:
        return 1
    count = 2
    while 2 * count * _PER_SHARE <= rollouts:
        count *= 2
    return count


def resized(iteration: Iteration, *, parameters: float = 0.0, rollouts: int = 0, tokens: float = 0.0) -> Iteration:
    """The same iteration with another model, number of rollouts or mean length of a rollout.

    Work is in proportion to tokens times parameters (2 floating-point operations per parameter and token forward, and
    twice as many backward; Kaplan et al. 2020, arXiv 2001.08361, section 2.1), which neglects attention. A LoRA adapter
    of the same rank and share of blocks has a row and a column where a weight matrix has all: its size grows with the
    power 2/3 of the parameters, if depth grows with width.
    """
    bigger = parameters / iteration.parameters if parameters else 1.0
    more = rollouts / iteration.rollouts if rollouts else 1.0
    longer = tokens / iteration.tokens if tokens else 1.0
    work = bigger * more * longer
    return evolve(
        iteration,
        rollouts=rollouts or iteration.rollouts,
        sampling=iteration.sampling * work,
        learning=iteration.learning * work,
        evaluating=iteration.evaluating * bigger * longer,
        tokens=iteration.tokens * longer,
        parameters=iteration.parameters * bigger,
        adapter_bytes=iteration.adapter_bytes * bigger ** (2 / 3),
        record_bytes=iteration.record_bytes * longer,
    )


def forecast(iteration: Iteration, cluster: Cluster) -> Forecast:
    """Seconds, bytes and money of an iteration on a cluster."""
    sampled = iteration.sampling / cluster.speed * largest_part(iteration.shares, cluster.workers)
    driven = cluster.driver * iteration.rollouts
    evaluated = iteration.evaluating / cluster.speed * largest_part(iteration.dev_shares, cluster.workers)
    # Whoever has the adapter passes it on, so those who have it double in each round.
    sends = math.ceil(math.log2(cluster.workers + 1)) * iteration.adapter_bytes / cluster.bandwidth
    learned = iteration.learning / (cluster.speed * cluster.learners)
    seconds = {"sample": sampled, "driver": driven, "learn": learned, "evaluate": evaluated, "send": sends}
    total = max(sampled, driven) + learned + evaluated + sends
    worked = (iteration.sampling + iteration.evaluating) / cluster.speed
    alone = iteration.sampling + iteration.learning + iteration.evaluating
    rollouts = iteration.rollouts
    return Forecast(
        cluster=cluster,
        seconds=seconds,
        total=total,
        bound=_bound(iteration, cluster, sampled + evaluated, driven, learned, sends),
        speedup=alone / total,
        tokens=rollouts * iteration.tokens / total,
        busy=worked / (cluster.workers * total),
        sent=cluster.workers * iteration.adapter_bytes + rollouts * iteration.record_bytes,
        price=cluster.price * (cluster.workers + cluster.learners) * total / 3600,
    )


def largest_part(shares: int, workers: int) -> float:
    """Return what the worker with most shares has of all, in (0, 1]."""
    return math.ceil(shares / workers) / shares


def _bound(iteration: Iteration, cluster: Cluster, sampled: float, driven: float, learned: float, sends: float) -> str:
    stages = {SAMPLING: sampled, LEARNER: learned, NETWORK: sends}
    if driven > sampled:
        stages[DRIVER] = driven
    longest = max(stages, key=lambda name: stages[name])
    return SHARES if longest == SAMPLING and cluster.workers >= iteration.shares else longest
