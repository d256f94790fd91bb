"""Where the time of sampling goes, and what the machine allows: `python -m benchmarks.decoding --sequences 32`.

SmolLM2 in float32 samples T5 problems, eight sequences each, as a run does: in threads, each with its share of the
sequences. Times are the threads' processor time. The limits are tokens a second if all products ran at the rate of
large square ones, or at that of as many rows as a thread decodes at once; and if each step read the weights from memory
as fast as one thread copies memory, and did nothing else.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import evolve

from benchmarks.machine import gigabytes_a_second, gigaflops, gigaflops_of_few_rows
from benchmarks.peers import problems, turns
from gce.adapters.models.backends.mlx.blas import one_numpy_blas_thread
from gce.adapters.models.backends.mlx.files import load_base
from gce.adapters.models.backends.numpy.decoder import NumpyDecoder
from gce.adapters.models.backends.numpy.llama import LlamaWeights
from gce.adapters.models.backends.numpy.shared_prefixes import Openings
from gce.adapters.models.local.continuous_batching import Job
from gce.adapters.models.local.threads import roll_out_in_threads
from gce.adapters.models.local.token_sampling import draw
from gce.adapters.system.process import usable_cores
from gce.app.wiring.models import model_directory
from gce.domain.scaling import shares_of

SAMPLES = 8
MOST_ROWS = 64
"""Maximum rows of a thread, which are fewer than the tokens of a prompt."""
LEAST, MOST = 2 * SAMPLES, 2 * MOST_ROWS
"""Sequences that two shares hold, all of them at once."""
PROMPTS, HEAD = "products with prompts", "products with the head"
MATRICES = ("queries_keys_values", "output", "gate_up", "down")


class Clock:
    """Processor time by part, over all threads; a part inside another one is not counted there."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._inside = threading.local()

    @contextmanager
    def part(self, name: str, operations: int = 0) -> Iterator[None]:
        """Count the time within as that of `name`."""
        outer, self._inside.seconds = getattr(self._inside, "seconds", 0.0), 0.0
        begun = time.thread_time()
        try:
            yield
        finally:
            whole = time.thread_time() - begun
            with self._lock:
                self.seconds[name] += whole - self._inside.seconds
                self.operations[name] += operations
            self._inside.seconds = outer + whole


class Matrix:
    """A matrix whose products are timed."""

    __array_ufunc__ = None

    def __init__(self, array: np.ndarray, clock: Clock) -> None:
        self.array, self.clock = array, clock

    def __rmatmul__(self, rows: np.ndarray) -> Any:
        """Multiply."""
        name = PROMPTS if len(rows) > MOST_ROWS else HEAD if self.head else "products"
        with self.clock.part(name, 2 * len(rows) * self.array.size):
            return rows @ self.array

    @property
    def head(self) -> bool:
        """Whether it leads to the vocabulary."""
        inputs, outputs = self.array.shape
        return bool(outputs > 20 * inputs)


class Timed(NumpyDecoder):
    """A decoder whose parts are timed."""

    def __init__(self, clock: Clock, openings: Openings, rows: int, prompts: Sequence[Sequence[int]]) -> None:
        super().__init__(openings, rows, prompts)
        self.clock = clock

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Any:
        """See `NumpyDecoder`."""
        with self.clock.part("rest of prompts"):
            return super().prefill(prompts)

    def step(self, tokens: np.ndarray, uniforms: np.ndarray, temperatures: np.ndarray) -> Any:
        """See `NumpyDecoder`."""
        with self.clock.part("rest of a step: norms, RoPE, activations"):
            logits = self.logits(tokens)
        with self.clock.part("drawing tokens"):
            return draw(logits, uniforms, temperatures)

    def _attend(self, *arguments: Any) -> Any:
        with self.clock.part("attention"):
            return super()._attend(*arguments)


def timed(weights: LlamaWeights, clock: Clock) -> LlamaWeights:
    """The same weights, with matrices whose products are timed."""

    def wrapped(matrix: Any) -> Any:
        return Matrix(matrix, clock)

    blocks = tuple(
        evolve(block, **{name: wrapped(getattr(block, name)) for name in MATRICES}) for block in weights.blocks
    )
    return evolve(weights, blocks=blocks, head=wrapped(weights.head))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.decoding", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=32, help=f"a multiple of {SAMPLES}, from {LEAST} to {MOST}")
    parser.add_argument("--tokens", type=int, default=100)
    options = parser.parse_args()
    if options.sequences % SAMPLES or not LEAST <= options.sequences <= MOST:
        parser.error(f"--sequences: expected a multiple of {SAMPLES} from {LEAST} to {MOST}, got {options.sequences}")
    base = load_base(model_directory("smollm2"), single_precision=True)
    weights = base.weights.plain
    assert weights is not None
    prompts = [
        tuple(base.tokenizer.apply_chat_template(turns(problem), add_generation_prompt=True, return_dict=False))
        for problem in problems(options.sequences // SAMPLES, "T5")
    ]
    cores = usable_cores()
    shares = shares_of(options.sequences)
    threads = min(cores, shares)

    def sample(clock: Clock, tokens: int) -> tuple[int, float]:
        openings = Openings(timed(weights, clock))
        jobs = [
            Job(prompt, 1_009 * place + sample, 0.8, tokens)
            for place, prompt in enumerate(prompts)
            for sample in range(SAMPLES)
        ]
        begun = time.perf_counter()
        found = roll_out_in_threads(
            jobs,
            lambda rows, some: Timed(clock, openings, rows, some),
            stop=set(map(int, base.tokenizer.eos_token_ids)),
            max_rows=MOST_ROWS,
            threads=threads,
        )
        return sum(len(rollout.tokens) for rollout in found), time.perf_counter() - begun

    sample(Clock(), 4)
    clock = Clock()
    tokens, seconds = sample(clock, options.tokens)
    rate = tokens / seconds
    whole = sum(clock.seconds.values())
    print(f"{options.sequences} sequences, {tokens} tokens, {threads} threads: {rate:.0f} tokens/s\n")
    print("| part | share of processor time, % | GFLOP/s a thread |\n|---|---|---|")
    for name, spent in clock.seconds.most_common():
        speed = f"{clock.operations[name] / spent / 1e9:.0f}" if clock.operations[name] else ""
        print(f"| {name} | {100 * spent / whole:.1f} | {speed} |")
    rows = options.sequences // shares
    matrices = [weights.head, *(getattr(block, name) for block in weights.blocks for name in MATRICES)]
    read = sum(matrix.nbytes for matrix in matrices)
    prompt_operations = clock.operations[PROMPTS] / 1e9
    step_operations = sum(clock.operations.values()) / 1e9 - prompt_operations
    best = gigaflops()
    with one_numpy_blas_thread():
        few = min(best, threads * gigaflops_of_few_rows(rows))
    limits = {
        "all products like large square ones": tokens / ((prompt_operations + step_operations) / best),
        f"those of steps like products of {rows} rows": tokens / (prompt_operations / best + step_operations / few),
        "each thread only reads the weights once a step": rows * gigabytes_a_second() * 1e9 / read,
    }
    print("\n| limit | tokens/s | reached, % |\n|---|---|---|")
    for name, most in limits.items():
        print(f"| {name} | {most:.0f} | {100 * rate / most:.0f} |")


if __name__ == "__main__":
    main()
