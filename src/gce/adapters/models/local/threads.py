"""Sample jobs in threads, each with its own share of the jobs.

The shares depend on the jobs alone, so the number of threads does not change any result. Threads pay off if the decoder
releases the interpreter's lock, as numpy does.
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
from gce.domain.scaling import shares_of

__all__ = ["deal", "roll_out_in_threads"]


def roll_out_in_threads(
    jobs: Sequence[Job],
    make_decoder: DecoderMaker,
    *,
    stop: Container[int],
    max_rows: int,
    threads: int,
    whole: bool = False,
) -> Iterator[Rollout]:
    """Sample as `roll_out`, with at most `max_rows` rows in each of `threads` threads; two for fewer than 400 jobs.

    `whole`: the jobs are one share that was dealt before.
    """
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

    # Threads inside the BLAS would compete with these for the same cores.
    with one_numpy_blas_thread(), ThreadPoolExecutor(threads) as pool:
        shares = [list(range(len(jobs)))] if whole else deal(jobs)
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


def deal(jobs: Sequence[Job]) -> list[list[int]]:
    """Deal jobs into shares of about equal work, keeping the jobs of one prompt together if they are not too many."""
    count = shares_of(len(jobs))
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
        # Completions tend to be longer for longer prompts.
        work[lightest] += len(group) * len(jobs[group[0]].prompt)
    return [share for share in shares if share]
