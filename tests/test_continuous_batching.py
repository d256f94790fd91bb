"""Continuous batching changes nothing but the time: each rollout is what the model alone would write."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from mlx_lm.generate import generate_step  # noqa: E402
from present import present  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx import model as mlx_model  # noqa: E402
from gce.adapters.models.backends.mlx.decoder import BatchDecoder, SequenceDecoder, decoder_maker  # noqa: E402
from gce.adapters.models.backends.mlx.llama import llama_weights  # noqa: E402
from gce.adapters.models.backends.numpy import decoder as decoder_module  # noqa: E402
from gce.adapters.models.backends.numpy import row_buffer  # noqa: E402
from gce.adapters.models.backends.numpy import shared_prefixes as numpy_openings  # noqa: E402
from gce.adapters.models.backends.numpy.decoder import NumpyDecoder  # noqa: E402
from gce.adapters.models.backends.numpy.shared_prefixes import Openings, opening_lengths  # noqa: E402
from gce.adapters.models.local import continuous_batching  # noqa: E402
from gce.adapters.models.local.continuous_batching import Decoder, Job, Rollout, roll_out  # noqa: E402
from gce.domain.completions import SampleRequest  # noqa: E402
from gce.domain.problems import Message  # noqa: E402

DECODERS: dict[str, Callable[..., Decoder]] = {
    "numpy": lambda model, rows, prompts: NumpyDecoder(Openings(present(llama_weights(model))), rows, prompts),
    "batch": lambda model, rows, prompts: BatchDecoder(model, rows),
    "sequence": lambda model, rows, prompts: SequenceDecoder(model),
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=2)


@pytest.fixture(scope="module")
def loaded(directory: Path) -> Any:
    return mlx_model.load_mlx_model(directory, device="cpu", threads=2)


@pytest.fixture(scope="module")
def model(loaded: Any) -> Any:
    return loaded.engine.model


def jobs_of(*, prompts: int = 4, each: int = 2, temperature: float = 0.8, limit: int = 12) -> list[Job]:
    """Prompts of different lengths, the samples of one prompt apart from each other."""
    rng = np.random.Generator(np.random.Philox(5))
    texts = [tuple(rng.integers(5, 45, size=2 + 3 * place).tolist()) for place in range(prompts)]
    return [
        Job(texts[place], seed=100 * turn + place, temperature=temperature, limit=limit - turn)
        for turn in range(each)
        for place in range(prompts)
    ]


def rolled(
    model: Any, jobs: Sequence[Job], *, decoder: str = "numpy", stop: frozenset[int] = frozenset({1}), max_rows: int = 8
) -> list[Rollout]:
    found = list(roll_out(jobs, lambda r, n: DECODERS[decoder](model, r, n), stop=stop, max_rows=max_rows))
    assert sorted(rollout.job for rollout in found) == list(range(len(jobs)))
    return sorted(found, key=lambda rollout: rollout.job)


def full_forward(model: Any, prompt: Sequence[int], tokens: Sequence[int], temperature: float = 1.0) -> Any:
    """Log-probabilities of `tokens` after `prompt` in one pass without any cache."""
    logits = np.array(model(mx.array([[*prompt, *tokens]]))[0]).astype(np.float64)[len(prompt) - 1 : -1] / temperature
    logits -= logits.max(axis=-1, keepdims=True)
    return (logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True)))[np.arange(len(tokens)), list(tokens)]


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_greedy_rows_write_what_mlx_lm_writes_one_at_a_time(model: Any, decoder: str) -> None:
    jobs = jobs_of(temperature=0.0)
    for job, rollout in zip(jobs, rolled(model, jobs, decoder=decoder), strict=True):
        expected = []
        for token, _ in generate_step(mx.array(job.prompt), model, max_tokens=job.limit):
            expected.append(int(token))
            if token == 1:
                break
        assert rollout.tokens == tuple(expected)
        assert rollout.stopped == (expected[-1] == 1)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS)
def test_log_probabilities_are_those_of_a_full_forward_pass(model: Any, decoder: str) -> None:
    """Shared prefixes, refilled rows and compacted buffers hold the keys and values that a pass without them has."""
    jobs = jobs_of(prompts=5, each=3)
    for job, rollout in zip(jobs, rolled(model, jobs, decoder=decoder, max_rows=4), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=2e-4)
        expected = full_forward(model, job.prompt, rollout.tokens, temperature=0.8)
        assert rollout.sampling_log_probabilities == pytest.approx(expected, abs=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", ["numpy", "batch"])
def test_buffers_grow_past_their_first_room(tmp_path: Path, decoder: str) -> None:
    """300 new tokens, where there is room for 256 at first; the longest prompt has 280 tokens, over a query block."""
    engine: Any = mlx_model.load_mlx_model(write_tiny_llama(tmp_path, layers=2, context=1024), device="cpu").engine
    model = engine.model
    rng = np.random.Generator(np.random.Philox(9))
    prompts = [tuple(rng.integers(5, 45, size=size).tolist()) for size in (4, 280)]
    jobs = [Job(prompt, seed, 0.8, 300) for seed, prompt in enumerate(prompts)]
    for job, rollout in zip(jobs, rolled(model, jobs, decoder=decoder, stop=frozenset()), strict=True):
        assert len(rollout.tokens) == 300
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("decoder", ["numpy", "batch"])
def test_refilled_rows_write_what_rows_without_refill_write(model: Any, decoder: str) -> None:
    jobs = jobs_of(prompts=4, each=4)
    many = rolled(model, jobs, decoder=decoder, max_rows=len(jobs))
    for few in (rolled(model, jobs, decoder=decoder, max_rows=rows) for rows in (1, 6)):
        assert [rollout.tokens for rollout in few] == [rollout.tokens for rollout in many]
        for one, other in zip(few, many, strict=True):
            assert one.log_probabilities == pytest.approx(other.log_probabilities, abs=2e-4)


def test_more_samples_of_one_prompt_than_share_its_keys(model: Any) -> None:
    """20 samples of one prompt take three copies of its keys and values, beside one of another prompt."""
    jobs = [Job((3, 7, 8, 9), seed, 0.9, 12) for seed in range(20)] + [Job((4, 5, 6, 7, 8), 1, 0.9, 12)]
    for job, rollout in zip(jobs, rolled(model, jobs, max_rows=21), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_prompt_of_one_token_has_no_prefix(model: Any, decoder: str) -> None:
    jobs = [Job((7,), 1, 0.8, 6), Job((7,), 2, 0.8, 6), Job((8,), 3, 0.8, 6)]
    for job, rollout in zip(jobs, rolled(model, jobs, decoder=decoder), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=2e-4)


def test_a_rollout_depends_on_its_own_seed_alone(model: Any) -> None:
    jobs = jobs_of()
    together = rolled(model, jobs)
    for job, rollout in zip(jobs, together, strict=True):
        (alone,) = rolled(model, [job])
        assert alone.tokens == rollout.tokens
    reseeded = rolled(model, [Job(job.prompt, job.seed + 7_777, job.temperature, job.limit) for job in jobs])
    assert sum(a.tokens != b.tokens for a, b in zip(reseeded, together, strict=True)) > len(jobs) // 2


def test_tokens_come_in_the_shares_that_the_model_gives_them(model: Any) -> None:
    """First tokens of 2,000 rollouts against the model's own distribution, within five standard errors."""
    count, prompt = 2_000, (3, 7, 8, 9)
    first = Counter(rollout.tokens[0] for rollout in rolled(model, [Job(prompt, s, 1.0, 1) for s in range(count)]))
    shares = np.exp([full_forward(model, prompt, (token,))[0] for token in range(45)])
    for token, share in enumerate(shares):
        assert abs(first[token] - count * share) <= 5 * np.sqrt(count * share * (1 - share)) + 1


def test_a_rollout_ends_with_the_end_token_or_at_its_limit(model: Any) -> None:
    jobs = jobs_of(prompts=6, each=6, limit=25)
    found = rolled(model, jobs)
    assert {rollout.stopped for rollout in found} == {True, False}
    for job, rollout in zip(jobs, found, strict=True):
        assert 1 not in rollout.tokens[:-1]
        assert rollout.stopped == (rollout.tokens[-1] == 1)
        assert rollout.stopped or len(rollout.tokens) == job.limit
        assert len(rollout.tokens) == len(rollout.log_probabilities) == len(rollout.sampling_log_probabilities)


def test_each_rollout_comes_as_soon_as_it_is_finished(model: Any) -> None:
    jobs = [Job((3, 7, 8), 0, 0.8, 30), Job((3, 7, 8), 1, 0.8, 2), Job((3, 7, 9), 2, 0.8, 1)]

    def make(rows: int, prompts: Sequence[tuple[int, ...]]) -> Decoder:
        return DECODERS["numpy"](model, rows, prompts)

    assert [rollout.job for rollout in roll_out(jobs, make, stop=(), max_rows=8)] == [2, 1, 0]


def test_a_prompt_is_computed_once_for_all_its_samples(model: Any) -> None:
    """And prompts of near-equal length go through the model together."""
    seen = []

    class Counting(NumpyDecoder):
        def prefill(self, prompts: Any) -> Any:
            seen.append([tuple(prompt) for prompt in prompts])
            return super().prefill(prompts)

    jobs = jobs_of(prompts=4, each=6)
    list(roll_out(jobs, lambda r, n: Counting(Openings(present(llama_weights(model))), r, n), stop={1}, max_rows=12))
    computed = [prompt for prompts in seen for prompt in prompts]
    assert sorted(computed) == sorted({job.prompt[:-1] for job in jobs})
    assert len(seen) < len(computed)
    assert len(computed[0]) == max(len(job.prompt) - 1 for job in jobs), "the longest first"


def test_few_prefixes_wait_for_their_rows_and_none_lives_on_beside_its_copy(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24 prompts of 2 to 71 tokens for 24 rows, in prefill passes of at most 150 tokens."""
    monkeypatch.setattr(continuous_batching, "_PREFILL_TOKENS", 150)
    alive: list[int] = []
    made: list[ref[Any]] = []

    class Counting(NumpyDecoder):
        def prefill(self, prompts: Any) -> Any:
            found = super().prefill(prompts)
            made.extend(map(ref, found))
            alive.append(sum(len(prompt) for prompt in prompts) if len(prompts) > 1 else 0)
            return found

        def step(self, *inputs: Any) -> Any:
            assert not any(prefix() for prefix in made)
            return super().step(*inputs)

        def place(self, row: int, prefix: Any) -> None:
            assert sum(alive.length for prefix in made if (alive := prefix())) <= 150
            super().place(row, prefix)

    jobs = jobs_of(prompts=24, each=1)
    list(roll_out(jobs, lambda r, n: Counting(Openings(present(llama_weights(model))), r, n), stop={1}, max_rows=24))
    assert len(made) == 24 and len(alive) > 5 and max(alive) > 75


def test_memory_that_is_given_back_changes_no_bit(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are refilled, grow past their first room and are dropped, with and without small pages."""
    jobs = jobs_of(prompts=6, each=4, limit=150)
    monkeypatch.setattr(decoder_module, "_ROOM", 64)
    found = []
    for most in (0, 2**40):
        monkeypatch.setattr(row_buffer, "_HUGE_PAGES", most)
        found.append(rolled(model, jobs, max_rows=8, stop=frozenset({1, 2})))
    assert found[0] == found[1]
    assert max(len(rollout.tokens) for rollout in found[0]) > 64


def with_openings(*, first: Any = (300, 520), each: int = 3) -> list[Job]:
    """Prompts that begin alike in groups, one that begins like no other, and one that is a group's opening alone."""
    rng = np.random.Generator(np.random.Philox(6))
    openings = [tuple(rng.integers(5, 45, size=length).tolist()) for length in first]
    prompts = [
        (*opening, *rng.integers(5, 45, size=4 + 5 * place).tolist()) for opening in openings for place in range(each)
    ]
    prompts += [openings[0], tuple(rng.integers(5, 45, size=9).tolist())]
    return [Job(prompt, 10 * place + turn, 0.8, 7 + turn) for turn in range(2) for place, prompt in enumerate(prompts)]


@pytest.mark.slow
@pytest.mark.parametrize("max_rows", [3, 40])
def test_what_prompts_begin_with_is_read_by_all_rows_and_changes_nothing(tmp_path: Path, max_rows: int) -> None:
    model = load(tmp_path, layers=2, context=1024).engine.model
    jobs = with_openings()
    assert len(set(opening_lengths([job.prompt[:-1] for job in jobs]).values())) == 2
    for job, rollout in zip(jobs, rolled(model, jobs, max_rows=max_rows), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=5e-4)


def test_an_opening_is_computed_once_for_all_shares_and_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load(tmp_path, layers=2, context=1024)
    computed: list[tuple[int, ...]] = []
    plain = numpy_openings.prefill

    def counting(weights: Any, prompts: Any, openings: Any = None) -> Any:
        computed.extend(map(tuple, prompts))
        return plain(weights, prompts, openings)

    monkeypatch.setattr(numpy_openings, "prefill", counting)
    sample = loaded.engine.sampler(frozenset())
    for _ in range(2):
        assert len(list(sample(with_openings()))) == 16
    assert sorted(map(len, computed)) == [256, 512]


def test_openings_that_are_too_large_to_keep_are_let_go(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_openings, "_KEPT_BYTES", 1)
    openings = Openings(present(llama_weights(model)))
    one, other = openings.find((5, 6, 7)), openings.find((8, 9))
    assert openings.find((8, 9)) is other
    assert openings.find((5, 6, 7)) is not one


def test_openings_by_hand() -> None:
    shared = tuple(range(400))
    longer = (*shared, *range(500, 900))
    assert opening_lengths([]) == opening_lengths([shared, shared]) == {}
    assert opening_lengths([shared, (*shared, 1)]) == {shared: 384, (*shared, 1): 384}
    assert opening_lengths([(*shared[:256], 1), (*shared[:256], 2)]) == dict.fromkeys(
        [(*shared[:256], 1), (*shared[:256], 2)], 256
    )
    assert opening_lengths([(*shared[:255], 1), (*shared[:255], 2)]) == {}
    # At least one token is left after the opening.
    assert opening_lengths([shared[:320], (*shared[:320], 7)]) == {shared[:320]: 256, (*shared[:320], 7): 256}
    # Two long groups that share their first words stay two groups.
    groups = [(1, *longer, 1), (1, *longer, 2), (1, *shared[:300], *range(900, 1700), 1)]
    groups.append((*groups[-1][:-1], 2))
    assert list(opening_lengths(groups).values()) == [768, 768, 1088, 1088]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700), st.integers(0, 9)), max_size=8))
def test_an_opening_is_the_same_in_its_whole_group(parts: list[Any]) -> None:
    base = [tuple((7 * kind + place * place) % 50 for place in range(700)) for kind in range(3)]
    prompts = [(*base[kind][:cut], *[60 + tail] * tail) for kind, cut, tail in parts]
    found = opening_lengths(prompts)
    openings = Counter(prompt[:length] for prompt, length in found.items())
    assert all(count > 1 for count in openings.values())
    assert all(256 <= length < len(prompt) and length % 64 == 0 for prompt, length in found.items())


def load(tmp_path: Path, **config: Any) -> Any:
    return mlx_model.load_mlx_model(write_tiny_llama(tmp_path, **config), device="cpu", threads=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere mlx's own kernels are fast")
def test_a_plain_llama_on_a_linux_cpu_is_decoded_by_numpy(loaded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlx_model, "roll_out_in_threads", lambda jobs, make, **_: [make(3, [(4, 5)])])
    (decoder,) = loaded.engine.sampler(frozenset())([])
    assert isinstance(decoder, NumpyDecoder)


@pytest.mark.parametrize(
    ("family", "config"),
    [
        ("llama", {"attention_bias": True}),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
        ("seed_oss", {"head_dim": 8, "attention_bias": True, "attention_out_bias": False, "mlp_bias": False}),
        ("qwen3", {"head_dim": 8}),
        ("olmo2", {}),
    ],
)
def test_other_models_with_plain_caches_are_decoded_in_one_batch(
    tmp_path: Path, family: str, config: dict[str, Any]
) -> None:
    model = load(tmp_path, layers=2, family=family, **config).engine.model
    assert llama_weights(model) is None
    assert isinstance(decoder_maker(model)(4, [(4, 5)]), BatchDecoder)
    jobs = jobs_of(prompts=3, each=2, limit=8)
    for job, rollout in zip(jobs, rolled(model, jobs, decoder="batch", max_rows=4), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=5e-4)


def test_a_model_with_other_caches_is_decoded_one_sequence_at_a_time(tmp_path: Path) -> None:
    model = load(tmp_path, layers=4, family="cohere2", sliding_window=4, head_dim=8).engine.model
    decoder = decoder_maker(model)(4, [(4, 5)])
    assert isinstance(decoder, SequenceDecoder)
    jobs = jobs_of(prompts=3, each=2, limit=8)
    found = sorted(roll_out(jobs, lambda rows, prompts: decoder, stop={1}, max_rows=8), key=lambda r: r.job)
    for job, rollout in zip(jobs, found, strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize("config", [{"tied": False}, {"kv_heads": 4}, {"kv_heads": 1}, {"head_dim": 16}])
def test_numpy_decodes_every_shape_of_plain_llama(tmp_path: Path, config: dict[str, bool] | dict[str, int]) -> None:
    model = load(tmp_path, layers=2, **config).engine.model
    assert llama_weights(model) is not None
    jobs = jobs_of(prompts=3, each=2, limit=8)
    for job, rollout in zip(jobs, rolled(model, jobs, max_rows=4), strict=True):
        expected = full_forward(model, job.prompt, rollout.tokens)
        assert rollout.log_probabilities == pytest.approx(expected, abs=5e-4)


def test_a_conversation_that_fills_the_context_is_cut_there(tmp_path: Path) -> None:
    """`<user> w1 w2 <end> <assistant>` is 5 tokens; a context of 9 leaves 4."""
    model = load(tmp_path, context=9, seed=3)
    messages = (Message("user", "w1 w2"),)
    assert len(model.prompt_tokens(messages)) == 5
    found = list(model.sample([SampleRequest(f"{seed}", messages, seed, 1.0, 100) for seed in range(30)]))
    assert max(len(completion.token_ids) for completion in found) == 4
    assert {c.finish_reason for c in found if c.token_ids[-1] != 1} == {"length"}


def test_text_is_what_was_written_without_the_end_token(loaded: Any) -> None:
    requests = [SampleRequest(f"{seed}", (Message("user", "w1 w2"),), seed, 1.0, 30) for seed in range(20)]
    found = list(loaded.sample(requests))
    assert {completion.finish_reason for completion in found} == {"stop", "length"}
    vocabulary = loaded._tokenizer.get_vocab()
    for completion in found:
        written = completion.token_ids[:-1] if completion.finish_reason == "stop" else completion.token_ids
        assert tuple(vocabulary[word] for word in completion.text.split()) == written
