"""Shares of jobs side by side: every job once, the same bits on any number of threads, and nobody left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

from hypothesis import given
from hypothesis import strategies as st
from mlx_lm.utils import load_model
from present import present
from tiny_llama import write_tiny_llama

from gce.adapters.models.backends.mlx.llama import llama_weights
from gce.adapters.models.backends.numpy.decoder import NumpyDecoder
from gce.adapters.models.backends.numpy.shared_prefixes import Openings
from gce.adapters.models.local.continuous_batching import Job, Rollout, roll_out
from gce.adapters.models.local.threads import deal, roll_out_in_threads
from gce.domain import scaling


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Any:
    weights = present(llama_weights(load_model(write_tiny_llama(tmp_path_factory.mktemp("model"), layers=2))[0]))
    return lambda rows, prompts: NumpyDecoder(Openings(weights), rows, prompts)


def jobs_of(prompts: int, each: int) -> list[Job]:
    rng = np.random.Generator(np.random.Philox(5))
    texts = [tuple(rng.integers(5, 45, size=2 + 3 * place).tolist()) for place in range(prompts)]
    return [Job(text, 100 * turn + place, 0.8, 9) for turn in range(each) for place, text in enumerate(texts)]


def rolled(jobs: Sequence[Job], make: Any, *, threads: int = 2) -> list[Rollout]:
    found = list(roll_out_in_threads(jobs, make, stop={1}, max_rows=8, threads=threads))
    return sorted(found, key=lambda rollout: rollout.job)


def test_the_number_of_threads_changes_no_bit(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight shares of ten jobs."""
    monkeypatch.setattr(scaling, "_PER_SHARE", 10)
    jobs = jobs_of(prompts=20, each=4)
    assert len(deal(jobs)) == 8
    one, two, five = (rolled(jobs, make, threads=threads) for threads in (1, 2, 5))
    assert [rollout.job for rollout in one] == list(range(80))
    assert one == two == five


def test_shares_write_what_one_batch_writes(make: Any) -> None:
    jobs = jobs_of(prompts=10, each=4)
    together = sorted(roll_out(jobs, make, stop={1}, max_rows=40), key=lambda rollout: rollout.job)
    for one, other in zip(rolled(jobs, make), together, strict=True):
        assert one.tokens == other.tokens
        assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=2e-4)


def test_no_jobs_no_rollouts(make: Any) -> None:
    assert rolled([], make) == []


def test_an_error_in_a_thread_reaches_whoever_asked(make: Any) -> None:
    class Broken(NumpyDecoder):
        def step(self, *_: Any) -> Any:
            raise ArithmeticError("broken")

    weights = make(1, [(4, 5)])._weights
    with pytest.raises(ArithmeticError, match="broken"):
        rolled(jobs_of(10, 4), lambda rows, prompts: Broken(Openings(weights), rows, prompts))


def test_threads_end_when_nobody_asks_any_more(make: Any) -> None:
    before = threading.active_count()
    soon, late = Job((3, 4), 0, 0.8, 1), [Job((3, 4), seed, 0.8, 5_000) for seed in range(31)]
    rollouts = roll_out_in_threads([soon, *late], make, stop=(), max_rows=16, threads=2)
    assert next(rollouts).job == 0
    assert threading.active_count() > before
    began = time.perf_counter()
    assert isinstance(rollouts, Generator)
    rollouts.close()
    assert threading.active_count() == before
    assert time.perf_counter() - began < 1, "they do not sample to the end"


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 90)), max_size=30))
def test_every_job_is_dealt_once(shapes: list[Any]) -> None:
    """Prompts of so many tokens with so many samples; two prompts of one length differ."""
    jobs = [
        Job((number, *range(length)), sample, 0.8, 5)
        for number, (length, samples) in enumerate(shapes)
        for sample in range(samples)
    ]
    shares = deal(jobs)
    assert sorted(place for share in shares for place in share) == list(range(len(jobs)))
    assert all(shares)


@pytest.mark.parametrize(
    ("jobs", "shares"), [(1, 1), (15, 1), (16, 2), (240, 2), (399, 2), (400, 4), (512, 4), (1200, 8)]
)
def test_shares_grow_with_the_jobs_in_powers_of_two(jobs: int, shares: int) -> None:
    dealt = deal([Job((i, 3, 4), i, 0.8, 5) for i in range(jobs)])
    assert len(dealt) == shares
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_samples_of_a_prompt_stay_together_unless_they_are_most() -> None:
    together = deal([Job((prompt, 1, 2), sample, 0.8, 5) for prompt in range(8) for sample in range(8)])
    assert [len({place // 8 for place in share}) for share in together] == [4, 4]
    assert [len(share) for share in deal([Job((1, 2), sample, 0.8, 5) for sample in range(50)])] == [25, 25]
