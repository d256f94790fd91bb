"""What the machine can do at most: float32 matrix products and copies of memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

__all__ = ["gigabytes_a_second", "gigaflops", "gigaflops_of_few_rows", "median_seconds"]


def gigaflops(size: int = 2048, rounds: int = 7) -> float:
    """Median rate of square matrix products in numpy's BLAS with all of its threads, in 10^9 operations a second."""
    rng = np.random.default_rng(0)
    a, b = (rng.random((size, size), np.float32) for _ in range(2))
    out = np.empty_like(a)
    return 2 * size**3 / median_seconds(lambda: np.matmul(a, b, out=out), rounds) / 1e9


def gigaflops_of_few_rows(rows: int = 16, size: int = 1024, matrices: int = 128, rounds: int = 5) -> float:
    """The same for a few rows with one matrix after another, too many for the caches: what decoding does."""
    rng = np.random.default_rng(0)
    x = rng.random((rows, size), np.float32)
    weights = [rng.random((size, size), np.float32) for _ in range(matrices)]
    out = np.empty_like(x)

    def work() -> None:
        for weight in weights:
            np.matmul(x, weight, out=out)

    return 2 * rows * size**2 * matrices / median_seconds(work, rounds) / 1e9


def gigabytes_a_second(megabytes: int = 256, rounds: int = 7) -> float:
    """Median rate of one thread's copy, bytes read and bytes written counted, in 10^9 a second."""
    source = np.ones(megabytes * 2**18, np.float32)
    target = np.empty_like(source)
    return 2 * source.nbytes / median_seconds(lambda: np.copyto(target, source), rounds) / 1e9


def median_seconds(work: Callable[[], object], rounds: int) -> float:
    """Of `rounds` calls, after one that does not count."""
    work()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return float(np.median(times))
