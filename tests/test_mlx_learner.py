"""The loss is the one in the docstring, by hand, and its gradient is the loss's slope."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

import mlx.nn as nn  # noqa: E402
from mlx.utils import tree_unflatten  # noqa: E402
from mlx_lm.utils import load_model  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.learner import loss_and_gradients, split_head  # noqa: E402
from gce.adapters.models.backends.mlx.lora import Adapter  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.adapters.models.local.token_sequences import Example  # noqa: E402
from gce.domain.learning import Objective  # noqa: E402


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3)


@pytest.fixture
def adapter(directory: Path) -> Adapter:
    """On the middle block, its second factors drawn, so that both factors have gradients."""
    adapter = Adapter(load_model(directory)[0], LoraSettings(rank=3, layers=(1,)), OptimizerSettings(), seed=0)
    rng = np.random.Generator(np.random.Philox(3))
    put(adapter, {p: rng.normal(size=a.shape) * 0.1 for p, a in adapter.parameters().items() if p.endswith("b")})
    return adapter


def put(adapter: Adapter, arrays: Any) -> None:
    adapter.model.update(tree_unflatten([(path, mx.array(a.astype(np.float32))) for path, a in arrays.items()]))


def examples_of(*shapes: tuple[int, int, float]) -> list[Example]:
    """For each (tokens, start, weight) one example of drawn tokens."""
    rng = np.random.Generator(np.random.Philox(8))
    return [Example(tuple(rng.integers(1, 45, size=n).tolist()), start, weight) for n, start, weight in shapes]


BATCH = examples_of((12, 5, 1.0), (40, 8, 0.5), (7, 6, -0.3), (33, 1, 2.0), (2, 1, 1.0))


def learn(
    adapter: Adapter, examples: Sequence[Example], *, tokens_per_pass: int = 10_000, streams: int = 1, head: Any = None
) -> tuple[float, Any]:
    head = head or split_head(adapter.model)
    made = [mx.new_stream(mx.cpu) for _ in range(streams)]
    loss, gradients, _ = loss_and_gradients(
        adapter.model, head, examples, Objective(), tokens_per_pass=tokens_per_pass, streams=made
    )
    return loss, gradients


def by_hand(model: Any, examples: Sequence[Example]) -> float:
    """The loss in numpy, one sequence at a time, from the whole model's logits."""
    total, trained = 0.0, 0
    for example in examples:
        logits = np.array(model(mx.array([example.tokens]))[0]).astype(np.float64)
        for place in range(example.start, len(example.tokens)):
            row = logits[place - 1]
            factor = example.factors[place - example.start] if example.factors else 1.0
            total += example.weight * factor * (np.log(np.exp(row).sum()) - row[example.tokens[place]])
            trained += factor != 0
    return total / trained


def test_the_loss_equals_the_one_by_hand(adapter: Adapter) -> None:
    """Different lengths, starts and weights, negative ones too; padding and prompts count for nothing."""
    loss, _ = learn(adapter, BATCH)
    assert loss == pytest.approx(by_hand(adapter.model, BATCH), abs=1e-5)


def test_prompt_tokens_are_read_but_not_trained(adapter: Adapter) -> None:
    """One trained token after two prompts: the loss is its negative log-likelihood, and depends on the prompt."""
    one, other = Example((7, 8, 9), 2, 1.0), Example((7, 30, 9), 2, 1.0)
    assert learn(adapter, [one])[0] == pytest.approx(by_hand(adapter.model, [one]), abs=1e-5)
    assert learn(adapter, [one])[0] != pytest.approx(learn(adapter, [other])[0], abs=1e-3)


SEVERAL_TURNS = [
    evolve(BATCH[0], factors=(1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0)),
    evolve(BATCH[1], factors=(0.5,) * 10 + (0.0,) * 15 + (1.0,) * 7),
    BATCH[2],
]


def test_the_loss_of_several_turns_equals_the_one_by_hand(adapter: Adapter) -> None:
    """4 + 17 + 1 trained tokens; those between the turns count for nothing."""
    assert sum(example.trained for example in SEVERAL_TURNS) == 4 + 17 + 1
    loss, _ = learn(adapter, SEVERAL_TURNS)
    assert loss == pytest.approx(by_hand(adapter.model, SEVERAL_TURNS), abs=1e-5)


def test_a_token_that_is_not_trained_has_no_gradient(adapter: Adapter) -> None:
    """The last token is read by nobody: with factor 0 it changes no bit, without a factor it does."""
    ends = [Example((7, 8, 9, 10, end), 2, 1.0, factors=(1.0, 1.0, 0.0)) for end in (11, 12)]
    (loss, gradients), (other_loss, others) = (learn(adapter, [end]) for end in ends)
    assert loss == other_loss
    assert all(np.array_equal(gradients[path], others[path]) for path in gradients)
    assert learn(adapter, [evolve(ends[0], factors=())])[0] != learn(adapter, [evolve(ends[1], factors=())])[0]


@pytest.mark.parametrize("batch", [BATCH, SEVERAL_TURNS], ids=["one turn", "several turns"])
def test_gradients_are_slopes_of_the_loss(adapter: Adapter, batch: Any) -> None:
    """Central differences at one place of each array of two linears."""
    _, gradients = learn(adapter, batch)
    parameters = {path: np.array(array) for path, array in adapter.parameters().items()}
    assert gradients.keys() == parameters.keys()
    rng = np.random.Generator(np.random.Philox(1))
    chosen = {p: a for p, a in parameters.items() if "q_proj" in p or "down_proj" in p}
    assert len(chosen) == 4
    for path, array in chosen.items():
        place = tuple(rng.integers(0, array.shape))
        sides = []
        for step in (1e-2, -1e-2):
            nudged = array.copy()
            nudged[place] += step
            put(adapter, {path: nudged})
            sides.append(by_hand(adapter.model, batch))
        put(adapter, {path: array})
        slope = (sides[0] - sides[1]) / 2e-2
        assert np.array(gradients[path])[place] == pytest.approx(slope, rel=0.05, abs=2e-4)


def test_several_passes_add_up_to_one(adapter: Adapter) -> None:
    loss, gradients = learn(adapter, BATCH)
    for tokens in (1, 64, 100):
        split_loss, split = learn(adapter, BATCH, tokens_per_pass=tokens)
        assert split_loss == pytest.approx(loss, abs=1e-5)
        for path, gradient in gradients.items():
            assert np.allclose(split[path], gradient, atol=1e-5)


def test_the_number_of_streams_changes_no_bit(adapter: Adapter) -> None:
    found = [learn(adapter, BATCH, tokens_per_pass=64, streams=streams) for streams in (1, 2, 5)]
    for loss, gradients in found[1:]:
        assert loss == found[0][0]
        assert all(np.array_equal(gradients[path], found[0][1][path]) for path in gradients)


def test_the_order_of_the_examples_does_not_matter_but_for_rounding(adapter: Adapter) -> None:
    loss, gradients = learn(adapter, BATCH)
    other_loss, others = learn(adapter, BATCH[::-1])
    assert other_loss == pytest.approx(loss, abs=1e-5)
    assert all(np.allclose(others[path], gradient, atol=1e-5) for path, gradient in gradients.items())


def test_logits_are_computed_at_trained_places_only(adapter: Adapter) -> None:
    """7 + 32 + 1 + 32 + 1 trained tokens; the head sees that many rows."""
    inner, head = split_head(adapter.model)
    rows = []

    def counting(hidden: Any) -> Any:
        rows.append(hidden.shape[0])
        return head(hidden)

    learn(adapter, BATCH, head=(inner, counting))
    assert sum(rows) == 7 + 32 + 1 + 32 + 1


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_apart_into_body_and_head(tmp_path: Path, tied: bool) -> None:
    model = load_model(write_tiny_llama(tmp_path, layers=1, tied=tied))[0]
    inner, head = split_head(model)
    tokens = mx.array([[3, 4, 5, 6]])
    assert inner is model.model
    assert np.array_equal(head(inner(tokens)), model(tokens))


def test_a_model_that_does_more_than_body_and_head_stays_whole(directory: Path, adapter: Adapter) -> None:
    class Scaled(nn.Module):
        def __init__(self, llama: Any) -> None:
            super().__init__()  # type: ignore[no-untyped-call]  # mlx's is untyped
            self.model = llama.model

        def __call__(self, tokens: Any) -> Any:
            return 0.5 * self.model.embed_tokens.as_linear(self.model(tokens))

    whole = Scaled(adapter.model)
    assert split_head(whole)[0] is whole
    streams = [mx.default_stream(mx.cpu)]
    loss, _, _ = loss_and_gradients(whole, split_head(whole), BATCH, Objective(), tokens_per_pass=500, streams=streams)
    assert loss == pytest.approx(by_hand(whole, BATCH), abs=1e-5)
