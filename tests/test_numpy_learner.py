"""numpy's loss and gradients are mlx's, whatever is shared, kept or split on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

from mlx.utils import tree_unflatten  # noqa: E402
from mlx_lm.utils import load_model  # noqa: E402
from present import present  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.learner import loss_and_gradients, split_head  # noqa: E402
from gce.adapters.models.backends.mlx.llama import llama_adapter, llama_weights  # noqa: E402
from gce.adapters.models.backends.mlx.lora import Adapter  # noqa: E402
from gce.adapters.models.backends.numpy import learner as numpy_learner  # noqa: E402
from gce.adapters.models.backends.numpy import llama as numpy_llama  # noqa: E402
from gce.adapters.models.backends.numpy.learner import NumpyLearner  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.adapters.models.local.token_sequences import Example, normalized  # noqa: E402
from gce.domain.learning import Objective  # noqa: E402

WORDS = 45
PLAIN = Objective()


@pytest.fixture(scope="module", autouse=True)
def on_the_cpu() -> None:
    mx.set_default_device(mx.cpu)
    mx.disable_compile()


ALL = ("all-linear",)
Adapted = Callable[..., tuple[Any, NumpyLearner]]


@pytest.fixture
def adapted(tmp_path: Path) -> Adapted:
    """A model with an adapter whose second factors are drawn, and the learner of its base."""

    def make(
        layers: tuple[int, ...], *, threads: int = 2, tokens_per_pass: int = 60, names: Any = ALL, **shape: Any
    ) -> tuple[Any, NumpyLearner]:
        model = load_model(write_tiny_llama(tmp_path, layers=4, **shape))[0]
        base = present(llama_weights(model))
        settings = LoraSettings(rank=3, layers=layers, target_modules=names)
        adapter = Adapter(model, settings, OptimizerSettings(), seed=0)
        rng = np.random.Generator(np.random.Philox(3))
        drawn = {p: rng.normal(size=a.shape) * 0.1 for p, a in adapter.parameters().items() if p.endswith("b")}
        model.update(tree_unflatten([(path, mx.array(a.astype(np.float32))) for path, a in drawn.items()]))
        return model, NumpyLearner(base, tokens_per_pass=tokens_per_pass, threads=threads)

    return make


def tokens(seed: int, count: int) -> tuple[int, ...]:
    return tuple(np.random.Generator(np.random.Philox(seed)).integers(1, WORDS, size=count).tolist())


PROMPT = tokens(0, 9)
ALONE = [
    Example(tokens(1, 30), 12, 1.0),
    Example(tokens(2, 7), 6, -0.3),
    Example(tokens(3, 33), 1, 2.0),
    Example(tokens(4, 2), 1, 1.0),
]
FAMILY = [
    Example(PROMPT + tokens(5, 12), 9, 0.5),
    Example(PROMPT + tokens(6, 1), 9, 1.0),
    Example(PROMPT + tokens(7, 20), 9, -0.2),
    Example(PROMPT + tokens(8, 20), 7, 0.7),
]
BATCH = [FAMILY[0], *ALONE[:2], *FAMILY[1:], *ALONE[2:]]
"""A prompt with three continuations, one of which is read by nobody; the fourth shares less of it."""


def masked(example: Example, seed: int) -> Example:
    """With factors of which a third are 0, the first one not."""
    rng = np.random.Generator(np.random.Philox(seed))
    factors = rng.choice([0.0, 1.0, 0.4], size=len(example.tokens) - example.start)
    return evolve(example, factors=(0.7, *factors[1:].tolist()))


SEVERAL_TURNS = [masked(example, place) if place % 3 else example for place, example in enumerate(BATCH)]


Found = tuple[float, dict[str, "np.ndarray[Any, Any]"]]
"""Loss and gradients."""


def by_mlx(model: Any, examples: Sequence[Example], objective: Objective = PLAIN) -> Found:
    streams = [mx.default_stream(mx.cpu)]
    loss, found, _ = loss_and_gradients(
        model, split_head(model), examples, objective, tokens_per_pass=10_000, streams=streams
    )
    return loss, {path: np.array(array) for path, array in found.items()}


def by_numpy(model: Any, learner: NumpyLearner, examples: Sequence[Example], objective: Objective = PLAIN) -> Found:
    loss, found, _ = learner.loss_and_gradients(llama_adapter(model), examples, objective)
    sides = ("lora_a", "lora_b")
    flat = {f"{path}.{s}": array for path, pair in found.items() for s, array in zip(sides, pair, strict=True)}
    return loss, flat


def assert_close(found: Found, expected: Found) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5, abs=1e-6)
    assert found[1].keys() == expected[1].keys()
    for path, gradient in expected[1].items():
        assert np.abs(found[1][path] - gradient).max() <= 2e-5 * max(np.abs(gradient).max(), 1e-2), path


def assert_same(found: Found, expected: Found) -> None:
    assert found[0] == expected[0]
    assert found[1].keys() == expected[1].keys()
    assert all(np.array_equal(found[1][path], gradient) for path, gradient in expected[1].items())


@pytest.mark.parametrize("layers", [(0,), (3,), (0, 3), (1, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize(
    "examples", [ALONE, FAMILY, BATCH, SEVERAL_TURNS], ids=["alone", "family", "both", "several turns"]
)
def test_loss_and_gradients_are_those_of_mlx(
    adapted: Adapted, layers: tuple[int, ...], examples: list[Example]
) -> None:
    model, learner = adapted(layers)
    assert_close(by_numpy(model, learner, examples), by_mlx(model, examples))


@pytest.mark.parametrize(
    "shape",
    [{"tied": False}, {"kv_heads": 4}, {"kv_heads": 1}, {"head_dim": 16}, {"names": ("self_attn.v_proj",)}],
    ids=str,
)
def test_every_shape_of_plain_llama_learns(adapted: Adapted, shape: dict[str, Any]) -> None:
    model, learner = adapted((1, 3), **shape)
    assert_close(by_numpy(model, learner, BATCH), by_mlx(model, BATCH))


OBJECTIVES = [
    Objective(clip=0.2),
    Objective(kl=0.3),
    Objective(clip=0.1, kl=0.2),
    Objective(clip=0.2, clip_high=0.3, normalization="constant", length=9),
    Objective(clip=0.05, clip_high=0.1, ratio="sequence", normalization="sequence", kl=0.2),
    Objective(clip=0.3, clip_high=0.9, ratio="product", normalization="sequence"),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@pytest.mark.parametrize("rows", [4, 512])
@pytest.mark.parametrize("batch", [BATCH, SEVERAL_TURNS], ids=["one turn", "several turns"])
def test_ratios_and_divergence_are_those_of_mlx(
    adapted: Adapted, objective: Objective, rows: int, batch: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Log-probabilities when sampled and of the base around what the model says, so that some ratios are clipped."""
    monkeypatch.setattr(numpy_learner, "_LOGIT_ROWS", rows)
    rng = np.random.Generator(np.random.Philox(4))

    def near(example: Example) -> tuple[float, ...]:
        return tuple((-math.log(WORDS) + rng.normal(0, 0.4, len(example.tokens) - example.start)).tolist())

    examples = [evolve(example, sampled=near(example), base=near(example)) for example in batch]
    examples = normalized(examples, objective)
    model, learner = adapted((1, 3))
    found = by_numpy(model, learner, examples, objective)
    assert_close(found, by_mlx(model, examples, objective))
    plain = by_numpy(model, learner, examples)
    assert any(not np.allclose(found[1][path], gradient) for path, gradient in plain[1].items())


def test_long_sequences_attend_and_are_predicted_in_parts(adapted: Adapted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_llama, "_QUERY_BLOCK", 7)
    monkeypatch.setattr(numpy_learner, "_LOGIT_ROWS", 5)
    model, learner = adapted((0, 2))
    assert_close(by_numpy(model, learner, BATCH), by_mlx(model, BATCH))


@pytest.mark.parametrize("size", [1, 40, 10_000])
def test_passes_of_any_size_add_up_to_the_same(adapted: Adapted, size: int) -> None:
    model, learner = adapted((1, 3), tokens_per_pass=size)
    assert_close(by_numpy(model, learner, BATCH), by_mlx(model, BATCH))


def test_the_number_of_threads_changes_no_bit(adapted: Adapted) -> None:
    found = [by_numpy(*adapted((1, 3), threads=threads), examples=BATCH) for threads in (1, 2, 5)]
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])


def test_kept_hidden_states_change_no_bit(adapted: Adapted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time nothing below the lowest adapted block is computed, and it does not matter with whom it was."""
    model, learner = adapted((2, 3))
    for example in BATCH:
        by_numpy(model, learner, [example])
    kept = by_numpy(model, learner, BATCH)
    assert_same(kept, by_numpy(*adapted((2, 3)), examples=BATCH))
    monkeypatch.setattr(learner, "_frozen_part", lambda tokens: pytest.fail("computed again"))
    assert_same(by_numpy(model, learner, BATCH), kept)


def test_another_lowest_block_starts_anew(adapted: Adapted) -> None:
    """Hidden states that were kept below block 3 are not taken for those below block 1."""
    model, learner = adapted((3,))
    by_numpy(model, learner, BATCH)
    other, fresh = adapted((1,))
    assert_same(by_numpy(other, learner, BATCH), by_numpy(other, fresh, BATCH))


def test_a_shared_prompt_is_read_once(adapted: Adapted) -> None:
    """Nine tokens of the prompt once, and 11, none and 19 that follow it; the fourth reads 28 and trains 22 alone."""
    layout = numpy_learner._layout(numpy_learner._families(FAMILY))
    assert layout.rows == (9 + 11 + 0 + 19) + 28
    assert layout.predicting == (1 + 11 + 0 + 19) + 22
    assert sum(map(len, layout.places)) == 12 + 1 + 20 + 22
    assert sum(len(example.tokens) - example.start for example in layout.trained) == 12 + 1 + 20 + 22


def test_a_shared_prompt_is_read_once_below_the_adapter_too(adapted: Adapted, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows as above; the fourth example's prompt of 7 tokens and the 21 after it are two passes."""
    rows = []
    run_blocks = numpy_llama.run_blocks

    def counted(weights: Any, hidden: Any, *rest: Any, **named: Any) -> Any:
        rows.append(len(hidden))
        return run_blocks(weights, hidden, *rest, **named)

    monkeypatch.setattr(numpy_learner, "run_blocks", counted)
    model, learner = adapted((2, 3), threads=1)
    by_numpy(model, learner, FAMILY)
    assert sorted(rows) == sorted([9, 11, 19, 7, 21])


def test_a_token_that_is_not_trained_has_no_gradient(adapted: Adapted) -> None:
    """Whatever the last token is that nobody reads: without a factor it counts, with factor 0 no bit of it."""
    model, learner = adapted((1, 3))
    ends = [Example((*PROMPT, 7, 8, end), 9, 1.0, factors=(1.0, 1.0, 0.0)) for end in (11, 12)]
    one, other = (by_numpy(model, learner, [end]) for end in ends)
    assert_same(one, other)
    whole = [by_numpy(model, learner, [evolve(end, factors=())]) for end in ends]
    assert whole[0][0] != whole[1][0]


def test_the_gradient_is_the_mean_of_those_of_the_trained_tokens(adapted: Adapted) -> None:
    """Three trained tokens of eight: each alone, a third of it."""
    model, learner = adapted((1, 3))
    sequence = Example(PROMPT + tokens(9, 8), 9, 2.0)
    places = (0, 3, 7)

    def only(*kept: int) -> Example:
        return evolve(sequence, factors=tuple(float(place in kept) for place in range(8)))

    loss, gradients = by_numpy(model, learner, [only(*places)])
    parts = [by_numpy(model, learner, [only(place)]) for place in places]
    expected = {path: np.sum([part[1][path] for part in parts], axis=0) / 3 for path in gradients}
    assert_close((loss, gradients), (sum(part[0] for part in parts) / 3, expected))
