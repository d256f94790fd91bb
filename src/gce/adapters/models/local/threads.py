"""Deals jobs into shares that are sampled side by side in threads, each share for itself.

How the jobs are dealt follows from the jobs alone, so that the number of threads changes no result. It pays where the
decoder's work releases the interpreter's lock, as numpy's does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

from attrs import evolve

from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread
from gce.adapters.models.local.continuous_batching import DecoderMaker, Job, Rollout, roll_out

__all__ = ["roll_out_in_threads"]

_FEWEST = 16
"""Jobs that are not divided: the fewer rows are multiplied together, the longer each takes."""
_JOBS = 100
"""Jobs of a share, about, where there are many: as they end others take their rows, which keeps a batch full."""


def roll_out_in_threads(
    jobs: Sequence[Job],
    make_decoder: DecoderMaker,
    *,
    stop: Container[int],
    max_rows: int,
    threads: int,
) -> Iterator[Rollout]:
    """As `roll_out`, with up to `max_rows` rows in each of up to `threads` threads; fewer than 400 jobs take two."""
    found: SimpleQueue[Rollout | BaseException | None] = SimpleQueue()
    left = Event()

    def sample(share: list[int]) -> None:
        try:
            own = [jobs[i] for i in share]
            for rollout in roll_out(own, make_decoder, stop=stop, max_rows=max_rows, left=left.is_set):
                found.put(evolve(rollout, job=share[rollout.job]))
            found.put(None)
        except BaseException as error:
            found.put(error)

    # Threads inside the BLAS would fight with these for the same cores.
    with one_numpy_blas_thread(), ThreadPoolExecutor(threads) as pool:
        shares = _deal(jobs)
        try:
            for share in shares:
                pool.submit(sample, share)
            running = len(shares)
            while running:
                match found.get():
                    case None:
                        running -= 1
                    case BaseException() as error:
                        raise error
                    case rollout:
                        yield rollout
        finally:
            left.set()
            pool.shutdown(cancel_futures=True)


def _deal(jobs: Sequence[Job]) -> list[list[int]]:
    """Places of jobs in shares of about equal work, jobs of one prompt together where they are not too many."""
    count = _shares(len(jobs))
    by_prompt: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, job in enumerate(jobs):
        by_prompt[job.prompt].append(place)
    most = -(-len(jobs) // count)
    groups = [group[i : i + most] for group in by_prompt.values() for i in range(0, len(group), most)]
    shares: list[list[int]] = [[] for _ in range(count)]
    work = [0] * count
    for group in sorted(groups, key=lambda group: -len(group) * len(jobs[group[0]].prompt)):
        lightest = work.index(min(work))
        shares[lightest] += group
        # What a prompt asks for tends to be as long as itself.
        work[lightest] += len(group) * len(jobs[group[0]].prompt)
    return [share for share in shares if share]


def _shares(jobs: int) -> int:
    """A power of two, which deals evenly to most machines' cores."""
    if jobs < _FEWEST:
        return 1
    count = 2
    while 2 * count * _JOBS <= jobs:
        count *= 2
    return count
