"""Which blocks are adapted."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.app.settings.values import settings_from, with_recipe
from gce.app.training.dry_run import training_lines
from gce.app.training.preparation import place_adapter
from gce.app.wiring.models import find_learning_model
from gce.domain.layer_selection import Strategy, choose_layers, normalised_activation
from gce.domain.learning import LayerActivation
from gce.domain.tasks import TASKS
from gce.errors import SettingError

STATISTICS = st.floats(0, 1e6)
MODELS = st.lists(st.tuples(STATISTICS, STATISTICS), min_size=1, max_size=12).map(
    lambda rows: [LayerActivation(layer, whole, update) for layer, (whole, update) in enumerate(rows)]
)
MODEL = [
    LayerActivation(layer=0, mean_square=1.0, update_mean_square=0.9),
    LayerActivation(layer=1, mean_square=4.0, update_mean_square=0.4),
    LayerActivation(layer=2, mean_square=9.0, update_mean_square=4.5),
    LayerActivation(layer=3, mean_square=100.0, update_mean_square=10.0),
]
"""The residual stream grows with depth; the blocks write 90, 10, 50 and 10 % of what is there after them."""


@pytest.mark.parametrize(("count", "layers"), [(1, (0,)), (2, (0, 2)), (3, (0, 1, 2)), (4, (0, 1, 2, 3))])
def test_probing_takes_the_blocks_that_change_most_ties_to_the_lower(count: int, layers: tuple[int, ...]) -> None:
    assert choose_layers(MODEL, count) == layers


def test_probing_is_not_misled_by_depth() -> None:
    """The largest outputs are blocks 2 and 3, as they always are; the largest changes are 0 and 2."""
    largest_outputs = sorted(sorted(range(4), key=lambda layer: MODEL[layer].mean_square)[-2:])
    assert largest_outputs == [2, 3]
    assert choose_layers(MODEL, 2, strategy="probe") == (0, 2)


def test_a_block_without_output_changes_nothing() -> None:
    assert normalised_activation(LayerActivation(0, 0.0, 0.0)) == 0.0


def test_the_plain_strategies() -> None:
    assert choose_layers(MODEL, 2, strategy="last") == (2, 3)
    assert choose_layers(MODEL, 99, strategy="all") == (0, 1, 2, 3)
    assert choose_layers(list(reversed(MODEL)), 2, strategy="last") == (2, 3)


@given(MODELS, st.sampled_from(["probe", "last", "random"]), st.integers(0, 2**63 - 1), st.data())
def test_as_many_blocks_as_asked_ascending_whatever_the_order_given(
    model: Any, strategy: Strategy, key: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, len(model)))
    layers = choose_layers(model, count, strategy=strategy, key=key)
    assert len(layers) == count
    assert list(layers) == sorted(set(layers))
    assert set(layers) <= set(range(len(model)))
    assert choose_layers(data.draw(st.permutations(model)), count, strategy=strategy, key=key) == layers


@given(MODELS, st.data())
def test_no_block_left_out_changes_more_than_one_chosen(model: Any, data: st.DataObject) -> None:
    chosen = choose_layers(model, data.draw(st.integers(1, len(model))))
    scores = [normalised_activation(activation) for activation in model]
    left_out = [score for layer, score in enumerate(scores) if layer not in chosen]
    assert min(scores[layer] for layer in chosen) >= max(left_out, default=-1.0)


@given(MODELS, st.integers(-20, 20), st.data())
def test_the_unit_of_activations_does_not_matter(model: Any, exponent: int, data: st.DataObject) -> None:
    scale = 2.0**exponent
    count = data.draw(st.integers(1, len(model)))
    scaled = [
        evolve(one, mean_square=one.mean_square * scale, update_mean_square=one.update_mean_square * scale)
        for one in model
    ]
    tiny = any(0.0 < value < 1e-290 for one in model for value in (one.mean_square, one.update_mean_square))
    assert tiny or choose_layers(scaled, count) == choose_layers(model, count)


def test_random_blocks_depend_on_the_key_and_on_nothing_else() -> None:
    model = [LayerActivation(layer, 1.0, 1.0) for layer in range(8)]
    choices = [choose_layers(model, 3, strategy="random", key=key) for key in range(300)]
    assert choices == [
        choose_layers([evolve(one, mean_square=7.0) for one in model], 3, strategy="random", key=key)
        for key in range(300)
    ]
    counts = [sum(layer in choice for choice in choices) for layer in range(8)]
    assert all(80 <= count <= 145 for count in counts)  # 112.5 expected, 4 standard errors


@pytest.mark.parametrize("count", [0, -1, 5])
@pytest.mark.parametrize("strategy", ["probe", "last", "random"])
def test_a_count_that_the_model_does_not_have_is_refused(count: int, strategy: Strategy) -> None:
    with pytest.raises(ValueError, match=f"expected a count from 1 to the model's 4 blocks, got {count}"):
        choose_layers(MODEL, count, strategy=strategy)


def test_an_unknown_strategy_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="expected strategy probe, last, random or all, got 'first'"):
        choose_layers(MODEL, 1, strategy="first")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize("model", [[], [MODEL[0], MODEL[0]]])
def test_every_block_is_given_once(model: Any) -> None:
    with pytest.raises(ValueError, match="expected statistics of every block once"):
        choose_layers(model, 1, strategy="all")


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
@pytest.mark.parametrize("name", ["mean_square", "update_mean_square"])
def test_statistics_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"block 1: expected a finite {name} from 0, got"):
        choose_layers([MODEL[0], evolve(MODEL[1], **{name: value})], 1)


# More than a model has


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"lora": {"layers": 1000}}, "lora.layers must be at most 5, the transformer blocks of the model, got 1,000"),
        ({"lora": {"layers": 6}}, "lora.layers must be at most 5, the transformer blocks of the model, got 6"),
        ({"lora": {"rank": 129}}, "lora.rank must be at most 128, the width of its widest adapted matrix, got 129"),
        (
            {"rollouts": {"max_tokens": 4097}},
            "rollouts.max_tokens must be at most 4,096, the context of the model, got",
        ),
    ],
)
def test_more_than_the_model_has_is_refused(values: dict[str, Any], said: str) -> None:
    pytest.importorskip("mlx_lm")
    with pytest.raises(SettingError, match=re.escape(said)):
        training_lines(settings_from(values))


@pytest.mark.slow
def test_a_recipe_takes_all_blocks_of_a_smaller_model() -> None:
    """The reference adapts the last 8; the shipped model has 5."""
    pytest.importorskip("mlx_lm")
    settings = with_recipe("isopro", {"preset": "paper"})
    task = TASKS[settings.task]
    assert place_adapter(settings, task, find_learning_model(settings, task)) == (0, 1, 2, 3, 4)
