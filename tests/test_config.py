"""What decides a run: defaults, recipes, what is refused, and the way through JSON."""

from __future__ import annotations

import json

import pytest

from gce.app.config import RECIPES, RunConfig, from_plain, with_recipe
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS
from gce.errors import BadInput


def test_the_default_recipe_is_the_defaults() -> None:
    assert with_recipe("gce", {}) == RunConfig()


def test_isopro_samples_84_rollouts_an_iteration_and_takes_the_whole_buffer() -> None:
    """The reference: 3 problems of each of the seven kinds (T4 has three), 4 samples each, last 8 blocks."""
    config = with_recipe("isopro", {})
    assert config.problems_by_tier is not None
    assert sum(config.problems_by_tier.values()) * config.rollouts == 84
    assert set(config.problems_by_tier) == set(TASKS["scheduling"].training_tiers("paper"))
    assert (config.epochs, config.layers, config.targeting, config.iterations) == (1, 8, "last", 6)
    assert (config.per_problem, config.deduplicate, config.weighting) == (None, False, "equal")
    assert config.recipe == "isopro"


def test_what_was_given_stands_above_the_recipe() -> None:
    config = with_recipe("isopro", {"rollouts": 2, "seed": 7})
    assert (config.rollouts, config.seed, config.layers) == (2, 7, 8)


def test_problems_and_updates_that_were_given_are_not_silently_overruled_by_the_recipe() -> None:
    """`problems_by_tier` and `epochs` would win over them in the loop."""
    config = with_recipe("isopro", {"problems": 10, "updates": 5})
    assert (config.problems, config.problems_by_tier, config.updates, config.epochs) == (10, None, 5, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iterations", 0),
        ("until", 1.1),
        ("minutes", 0.0),
        ("patience", 0),
        ("admission", "none"),
        ("problems", 0),
        ("rollouts", 0),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("pool", 0),
        ("sampling", "greedy"),
        ("floor", 1.1),
        ("second_wave", -1),
        ("per_problem", 0),
        ("weighting", "by-tier"),
        ("updates", -1),
        ("epochs", 0),
        ("batch", 0),
        ("learning_rate", 0.0),
        ("max_gradient_norm", 0.0),
        ("rank", 0),
        ("scale", 0.0),
        ("dropout", 1.0),
        ("layers", 0),
        ("targeting", "first"),
        ("dev", -1),
        ("dev_every", 0),
        ("test", -1),
        ("seed", -1),
        ("threads", 0),
        ("device", "tpu"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name_in_one_line(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"'{name}' must be") as caught:
        with_recipe("gce", {name: value})
    assert "\n" not in str(caught.value)


def test_a_value_at_the_edge_of_its_range_is_taken() -> None:
    edges = {"temperature": 0.0, "updates": 0, "dev": 0, "test": 0, "floor": 1.0, "device": "cpu", "threads": 1}
    assert all(getattr(with_recipe("gce", edges), name) == value for name, value in edges.items())


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match="no recipe 'best': choose one of gce, isopro"):
        with_recipe("best", {})


def test_an_unknown_setting_is_bad_input() -> None:
    with pytest.raises(BadInput, match="speed"):
        with_recipe("gce", {"speed": 11})


@pytest.mark.parametrize("recipe", RECIPES)
def test_settings_come_back_from_json_as_they_were(recipe: str) -> None:
    config = with_recipe(recipe, {"seed": 3, "max_tokens": 12})
    assert from_plain(json.loads(json.dumps(to_plain(config)))) == config


def test_stored_settings_of_another_version_are_refused_by_name() -> None:
    stored = {**to_plain(RunConfig()), "warmth": 1, "colour": 2}
    with pytest.raises(BadInput, match="another version: unknown settings colour, warmth"):
        from_plain(stored)


def test_stored_settings_out_of_range_are_refused() -> None:
    with pytest.raises(BadInput, match="'iterations' must be a whole number from 1 to 1,000,000, got 0"):
        from_plain({**to_plain(RunConfig()), "iterations": 0})
