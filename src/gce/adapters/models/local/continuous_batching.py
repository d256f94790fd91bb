"""Continuous batching: requests in, completions out, rows refilled as sequences end.

A prompt that several requests share is computed once. Everything that decides which sequence runs where follows from
the requests and the tokens drawn, so the same call gives the same completions. Each request draws from a generator of
its own, seeded by the request. Knows token ids and decoders; it knows neither text nor weights.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from gce.adapters.models.local.token_sampling import Array

__all__ = ["Decoder", "DecoderMaker", "Job", "Rollout", "roll_out"]

_PREFILL_TOKENS = 4096
"""Prompt tokens at most that are computed in one pass, unless one prompt alone is longer."""


class Decoder(Protocol):
    """Rows that each hold a sequence and take one token a step."""

    @property
    def rows(self) -> int:
        """How many there are, idle ones included."""
        ...

    def prefill(self, prompts: Sequence[Sequence[int]]) -> list[Any]:
        """A prefix for each prompt, opaque, to be placed in any number of rows."""
        ...

    def place(self, row: int, prefix: Any) -> None:
        """Start `row` anew right after `prefix`."""
        ...

    def release(self, row: int) -> None:
        """Leave `row` idle; what it draws from now on means nothing."""
        ...

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with these rows alone, as rows 0, 1, ...; nothing may be placed after it."""
        ...

    def step(self, tokens: Array, uniforms: Array, temperatures: Array) -> tuple[Array, Array, Array]:
        """Append one token to each row and draw the next, as `gce.adapters.models.local.token_sampling.draw` says."""
        ...


DecoderMaker = Callable[[int, Sequence[tuple[int, ...]]], Decoder]
"""A decoder of so many rows at most, for these prompts, each once."""


@frozen
class Job:
    """One sequence to sample."""

    prompt: tuple[int, ...]
    seed: int
    temperature: float
    limit: int
    """New tokens at most, at least 1."""
    ends: Callable[[Sequence[int]], bool] | None = None
    """Whether the tokens written so far end the sequence; asked after each. End tokens do in any case."""


@frozen
class Rollout:
    """What was sampled for one job."""

    job: int
    """Its place in the sequence of jobs."""
    stopped: bool
    """Whether it ended by itself, and not for its length."""
    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]
    sampling_log_probabilities: tuple[float, ...]


def roll_out(
    jobs: Sequence[Job],
    make_decoder: DecoderMaker,
    *,
    stop: Container[int],
    max_rows: int,
    left: Callable[[], bool] = lambda: False,
) -> Iterator[Rollout]:
    """Sample every job; each rollout comes as soon as it is finished. Ends early once `left()`.

    Long prompts go first, since what they ask for tends to take longest, and jobs with the same prompt go together.
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
            _prefill(decoder, prefixes, [jobs[i].prompt for _, i in chosen])
            for row, i in chosen:
                prompt = jobs[i].prompt
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


def _prefill(decoder: Decoder, prefixes: dict[tuple[int, ...], object], prompts: Sequence[tuple[int, ...]]) -> None:
    """Compute the prefixes that are missing, each prompt without its last token: that one is the first step's input."""
    missing = deque(prompt for prompt in dict.fromkeys(prompts) if prompt not in prefixes)
    while missing:
        together = [missing.popleft()]
        while missing and (len(together) + 1) * len(together[0]) <= _PREFILL_TOKENS:
            together.append(missing.popleft())
        prefixes.update(zip(together, decoder.prefill([prompt[:-1] for prompt in together]), strict=True))


class _Table:
    """What each row of the decoder is busy with, as arrays."""

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
