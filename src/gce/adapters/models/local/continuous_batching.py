"""Continuous batching: as sequences end, waiting requests take over their rows.

A prompt that several requests share is computed once. The assignment of sequences to rows depends only on the requests
and the drawn tokens, so equal calls give equal completions. Each request draws from its own generator, seeded by the
request. Works on token ids and decoders; independent of text and weights.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from gce.adapters.models.local.token_sampling import Array

__all__ = ["Decoder", "DecoderMaker", "Job", "Rollout", "all_together", "roll_out"]

_PREFILL_TOKENS = 4096
"""Maximum prompt tokens per prefill pass, unless a single prompt is longer."""


class Decoder(Protocol):
    """Rows that each hold a sequence and take one token per step."""

    @property
    def rows(self) -> int:
        """Number of rows, idle ones included."""
        ...

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """Return an opaque prefix for each prompt, which can be placed in any number of rows."""
        ...

    def place(self, row: int, prefix: Any) -> None:
        """Start `row` anew right after `prefix`."""
        ...

    def release(self, row: int) -> None:
        """Mark `row` as idle; its output is meaningless from now on."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, as rows 0, 1, ...; nothing may be placed afterwards."""
        ...

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Append one token to each row and draw the next, as `gce.adapters.models.local.token_sampling.draw`."""
        ...


DecoderMaker = Callable[[int, Sequence[tuple[int, ...]]], Decoder]
"""(maximum rows, distinct prompts) -> a decoder for these prompts."""


@frozen
class Job:
    """One sequence to sample."""

    prompt: tuple[int, ...]
    seed: int
    temperature: float
    limit: int
    """Maximum new tokens, at least 1."""
    ends: Callable[[Sequence[int]], bool] | None = None
    """Tests after each token whether the tokens generated so far end the sequence. End tokens always do."""


@frozen
class Rollout:
    """The sample for one job."""

    job: int
    """The job's index."""
    stopped: bool
    """True if the sequence ended by itself, False if it reached its token limit."""
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    sampling_log_probabilities: tuple[float, ...]


def all_together(jobs: Sequence[Job]) -> list[list[int]]:
    """Return the places of the jobs as the one share that a single batch has."""
    return [list(range(len(jobs)))] if jobs else []


def roll_out(
    jobs: Sequence[Job],
    make_decoder: DecoderMaker,
    *,
    stop: Container[int],
    max_rows: int,
    left: Callable[[], bool] = lambda: False,
) -> Iterator[Rollout]:
    """Sample every job; yield each rollout as soon as it is finished. Stops early once `left()` is true.

    Long prompts go first, because their completions tend to take longest; jobs with the same prompt go together.
    """
    if not jobs:
        return
    first = {prompt: place for place, prompt in reversed(list(enumerate(job.prompt for job in jobs)))}
    order = sorted(range(len(jobs)), key=lambda i: (-len(jobs[i].prompt), first[jobs[i].prompt], i))
    waiting = deque(order)
    asked = Counter(job.prompt for job in jobs)
    decoder = make_decoder(min(max_rows, len(jobs)), [prompt[:-1] for prompt in first])
    table = _Table(decoder.rows, max(job.limit for job in jobs))
    prefixes: dict[tuple[int, ...], object] = {}
    while True:
        free = np.flatnonzero(table.job < 0).tolist()
        if waiting and len(free) >= max(1, decoder.rows // 8):
            chosen = [(row, waiting.popleft()) for row in free[: len(waiting)]]
            groups = _prefill_groups([jobs[i].prompt for _, i in chosen if jobs[i].prompt not in prefixes])
            for row, i in chosen:
                prompt = jobs[i].prompt
                if prompt not in prefixes:  # Only now, so that few prefixes wait for their rows.
                    together = next(groups)
                    prefixes.update(zip(together, decoder.prefill([each[:-1] for each in together]), strict=True))
                decoder.place(row, prefixes[prompt])
                table.start(row, i, jobs[i])
                asked[prompt] -= 1
                if not asked[prompt]:
                    del prefixes[prompt]
        live = np.flatnonzero(table.job >= 0)
        if not len(live) or left():
            return
        if not waiting and 4 * len(live) <= 3 * decoder.rows:
            decoder.keep(live.tolist())
            table.keep(live)
            live = np.arange(len(live))
        table.record(live, *decoder.step(*table.inputs()))
        for row in live.tolist():
            stopped = int(table.next[row]) in stop or table.ends(row)
            if stopped or table.count[row] == table.limit[row]:
                rollout = table.finish(row, stopped=stopped)
                decoder.release(row)
                yield rollout


def _prefill_groups(missing: Sequence[tuple[int, ...]]) -> Iterator[list[tuple[int, ...]]]:
    """Yield the distinct prompts, longest first, in groups for one prefill pass each.

    A prefix is a prompt without its last token, which is the input of the first step.
    """
    waiting = deque(dict.fromkeys(missing))
    while waiting:
        together = [waiting.popleft()]
        while waiting and (len(together) + 1) * len(together[0]) <= _PREFILL_TOKENS:
            together.append(waiting.popleft())
        yield together


class _Table:
    """The state of each decoder row, as arrays."""

    def __init__(self, rows: int, longest: int) -> None:
        self.job = np.full(rows, -1)
        self.next = np.zeros(rows, np.int64)
        self.count = np.zeros(rows, np.int64)
        self.limit = np.zeros(rows, np.int64)
        self.temperature = np.zeros(rows, np.float32)
        self.uniforms = np.zeros((rows, longest), np.float32)
        self.tokens = np.zeros((rows, longest), np.int64)
        self.own = np.zeros((rows, longest), np.float32)
        self.sampling = np.zeros((rows, longest), np.float32)
        self.judge = np.full(rows, None)

    def start(self, row: int, number: int, job: Job) -> None:
        self.job[row], self.next[row], self.count[row] = number, job.prompt[-1], 0
        self.limit[row], self.temperature[row], self.judge[row] = job.limit, job.temperature, job.ends
        self.uniforms[row, : job.limit] = np.random.Generator(np.random.Philox(job.seed)).random(job.limit)

    def inputs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        place = np.minimum(self.count, self.uniforms.shape[1] - 1)
        return self.next, self.uniforms[np.arange(len(place)), place], self.temperature

    def record(self, live: np.ndarray, tokens: np.ndarray, own: np.ndarray, sampling: np.ndarray) -> None:
        place = self.count[live]
        self.tokens[live, place], self.own[live, place] = tokens[live], own[live]
        self.sampling[live, place] = sampling[live]
        self.next[live] = tokens[live]
        self.count[live] += 1

    def ends(self, row: int) -> bool:
        judge = self.judge[row]
        return judge is not None and bool(judge(self.tokens[row, : self.count[row]].tolist()))

    def finish(self, row: int, *, stopped: bool) -> Rollout:
        count, number = self.count[row], int(self.job[row])
        self.job[row], self.next[row], self.temperature[row] = -1, 0, 0
        return Rollout(
            job=number,
            stopped=stopped,
            tokens=tuple(self.tokens[row, :count].tolist()),
            log_probabilities=tuple(self.own[row, :count].tolist()),
            sampling_log_probabilities=tuple(self.sampling[row, :count].tolist()),
        )

    def keep(self, rows: np.ndarray) -> None:
        for name, values in vars(self).items():
            setattr(self, name, values[rows])
