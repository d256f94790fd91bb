"""What decides a run: defaults, recipes, what is refused, and the way through JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import fields

from gce.app.cli import command_parser
from gce.app.options import LEARNING_RATE
from gce.app.settings.checks import check_variants
from gce.app.settings.fields import sections_in
from gce.app.settings.records import OptimizerSettings, TrainSettings, all_settings
from gce.app.settings.stored import from_stored
from gce.app.settings.table import settings_table
from gce.app.settings.values import RECIPES, flat_values, with_recipe
from gce.domain.algorithms import ALGORITHMS, Algorithm, centered
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS
from gce.errors import BadInput, SettingError


def test_the_default_recipe_is_the_defaults() -> None:
    assert with_recipe("gce", {}) == TrainSettings()


def test_isopro_samples_84_rollouts_an_iteration_and_takes_the_whole_buffer() -> None:
    """The reference: 3 problems of each of the seven kinds (T4 has three), 4 samples each, last 8 blocks."""
    config = with_recipe("isopro", {})
    assert config.rollouts.problems_by_tier is not None
    assert sum(config.rollouts.problems_by_tier.values()) * config.rollouts.samples == 84
    assert set(config.rollouts.problems_by_tier) == set(TASKS["scheduling"].training_tiers("paper"))
    assert (config.optimizer.epochs, config.stopping.iterations) == (1, 6)
    assert (config.lora.layers, config.lora.targeting) == (8, "last")
    assert (config.buffer.per_problem, config.buffer.deduplicate, config.buffer.weighting) == (None, False, "equal")
    assert config.recipe == "isopro"


def test_what_was_given_stands_above_the_recipe() -> None:
    config = with_recipe("isopro", {"rollouts.samples": 2, "seed": 7})
    assert (config.rollouts.samples, config.seed, config.lora.layers) == (2, 7, 8)


def test_problems_and_updates_that_were_given_are_not_silently_overruled_by_the_recipe() -> None:
    """`problems_by_tier` and `epochs` would win over them in the loop."""
    config = with_recipe("isopro", {"rollouts.problems": 10, "optimizer.updates": 5})
    assert (config.rollouts.problems, config.rollouts.problems_by_tier) == (10, None)
    assert (config.optimizer.updates, config.optimizer.epochs) == (5, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stopping.iterations", 0),
        ("stopping.until", 1.1),
        ("stopping.minutes", 0.0),
        ("stopping.patience", 0),
        ("buffer.admission", "none"),
        ("rollouts.problems", 0),
        ("rollouts.samples", 0),
        ("rollouts.temperature", -0.1),
        ("rollouts.temperature", float("nan")),
        ("rollouts.max_tokens", 0),
        ("rollouts.max_tokens", -1),
        ("curriculum.pool", 0),
        ("curriculum.sampling", "greedy"),
        ("curriculum.floor", 1.1),
        ("rollouts.second_wave", -1),
        ("buffer.per_problem", 0),
        ("buffer.weighting", "by-tier"),
        ("optimizer.updates", -1),
        ("optimizer.epochs", 0),
        ("optimizer.batch", 0),
        ("optimizer.learning_rate", 0.0),
        ("optimizer.max_gradient_norm", 0.0),
        ("lora.rank", 0),
        ("lora.scale", 0.0),
        ("lora.dropout", 1.0),
        ("lora.layers", 0),
        ("lora.targeting", "first"),
        ("evaluation.dev", -1),
        ("evaluation.dev_every", 0),
        ("evaluation.test", -1),
        ("seed", -1),
        ("model.threads", 0),
        ("model.device", "tpu"),
        ("model.precision", "float16"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name_in_one_line(name: str, value: object) -> None:
    with pytest.raises(BadInput, match=f"^{name} must be") as caught:
        with_recipe("gce", {name: value})
    assert "\n" not in str(caught.value)


def test_a_value_at_the_edge_of_its_range_is_taken() -> None:
    edges = {
        "rollouts.temperature": 0.0,
        "optimizer.updates": 0,
        "evaluation.dev": 0,
        "evaluation.test": 0,
        "curriculum.floor": 1.0,
        "model.device": "cpu",
        "model.threads": 1,
    }
    assert flat_values(with_recipe("gce", edges)) | edges == flat_values(with_recipe("gce", edges))


def test_an_unknown_recipe_names_the_known_ones() -> None:
    with pytest.raises(BadInput, match="no recipe 'best': choose one of gce, isopro"):
        with_recipe("best", {})


def test_an_unknown_setting_is_bad_input() -> None:
    with pytest.raises(BadInput, match="speed"):
        with_recipe("gce", {"speed": 11})


@pytest.mark.parametrize("recipe", RECIPES)
def test_settings_come_back_from_json_as_they_were(recipe: str) -> None:
    config = with_recipe(recipe, {"seed": 3, "rollouts.max_tokens": 12})
    assert from_stored(json.loads(json.dumps(to_plain(config)))) == config


def test_stored_settings_of_another_version_are_refused_by_name() -> None:
    stored = to_plain(TrainSettings())
    stored["optimizer"]["warmth"] = 1
    with pytest.raises(BadInput, match=r"another version: unknown settings colour, optimizer\.warmth"):
        from_stored({**stored, "colour": 2})


def test_stored_settings_out_of_range_are_refused() -> None:
    stored = to_plain(TrainSettings())
    stored["stopping"]["iterations"] = -1
    with pytest.raises(BadInput, match=r"stopping\.iterations must be a whole number from 0 to 1,000,000, got -1"):
        from_stored(stored)


def test_a_refused_value_is_told_as_data() -> None:
    with pytest.raises(SettingError) as caught:
        OptimizerSettings(learning_rate=-1)
    error = caught.value
    assert (error.setting, error.got) == ("optimizer.learning_rate", -1)
    assert error.expected == LEARNING_RATE.expected
    assert error.said(command_parser("train").option).startswith("--learning-rate must be a finite number")


def test_settings_that_contradict_are_told_as_data_and_the_command_line_names_options() -> None:
    settings = with_recipe("gce", {"buffer.admission": "all", "objective.algorithm": "grpo"})
    with pytest.raises(SettingError) as caught:
        check_variants(settings, ALGORITHMS["grpo"])
    error = caught.value
    assert (error.setting, error.got) == ("buffer.admission", "all")
    assert error.expected == "it needs objective.algorithm raft, without buffer.drop_solved"
    assert "--" not in str(error)
    assert error.said(command_parser("train").option) == (
        "--admission all admits every rollout: it needs --algorithm raft, without --drop-solved"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rollouts.second_wave_by": "critic"}, "it needs --second-wave, and another --admission than all"),
        ({"buffer.weighting": "surprise", "buffer.admission": "all"}, "another --admission than all"),
        ({"buffer.weighting": "surprise", "objective.algorithm": "grpo"}, "it needs --algorithm raft"),
    ],
    ids=str,
)
def test_a_critic_without_use_is_refused(change: dict[str, str], said: str) -> None:
    settings = with_recipe("gce", change)
    with pytest.raises(SettingError) as caught:
        check_variants(settings, ALGORITHMS[settings.objective.algorithm])
    assert said in caught.value.said(command_parser("train").option)


GROUPS = ("grpo", "rloo", "dr-grpo", "dapo", "gspo", "reinforce-rej")


@pytest.mark.parametrize("algorithm", GROUPS)
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("rollouts.samples", 1, "and --rollouts is 1: give --rollouts 2 or more"),
        ("rollouts.temperature", 0.0, "and --temperature is 0: give --temperature above 0"),
    ],
)
def test_an_algorithm_that_compares_rollouts_without_different_ones_is_refused(
    algorithm: str, name: str, value: float, said: str
) -> None:
    settings = with_recipe("gce", {"objective.algorithm": algorithm, name: value})
    with pytest.raises(SettingError) as caught:
        check_variants(settings, ALGORITHMS[algorithm])
    expected = f"--algorithm {algorithm} compares different rollouts of a problem, {said}"
    assert caught.value.said(command_parser("train").option) == expected
    assert caught.value.setting == name


@pytest.mark.parametrize("algorithm", [*GROUPS, "raft", "raft++", "sft-top", "weighted"])
def test_two_rollouts_or_an_algorithm_that_compares_none_are_taken(algorithm: str) -> None:
    samples = 2 if algorithm in GROUPS else 1
    settings = with_recipe("gce", {"objective.algorithm": algorithm, "rollouts.samples": samples})
    check_variants(settings, ALGORITHMS[algorithm])


def test_credit_for_parts_needs_two_rollouts_too() -> None:
    changes = {"objective.algorithm": "raft++", "objective.credit": "prefix-value", "rollouts.samples": 1}
    with pytest.raises(SettingError, match=r"credit prefix-value compares .* give rollouts\.samples 2 or more"):
        check_variants(with_recipe("gce", changes), ALGORITHMS["raft++"])


def test_an_own_algorithm_is_asked_whether_equal_rewards_teach() -> None:
    settings = with_recipe("gce", {"rollouts.samples": 1})
    check_variants(settings, Algorithm("baseline", lambda rewards: tuple(reward - 0.5 for reward in rewards)))
    with pytest.raises(SettingError, match="algorithm centred compares"):
        check_variants(settings, Algorithm("centred", centered, graded=True))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("q_proj,v_proj", ("q_proj", "v_proj")),
        ("q_proj, self_attn.v_proj", ("q_proj", "self_attn.v_proj")),
        (["q_proj"], ("q_proj",)),
        ("all-linear", ("all-linear",)),
    ],
)
def test_target_modules_are_a_list_or_a_text_with_commas(given: Any, expected: tuple[str, ...]) -> None:
    assert with_recipe("gce", {"lora.target_modules": given}).lora.target_modules == expected


@pytest.mark.parametrize("given", ["", "q_proj,,v_proj", "q_proj,q_proj", [], [3], 3])
def test_target_modules_that_are_no_names_are_refused(given: Any) -> None:
    with pytest.raises(SettingError, match=r"^lora\.target_modules must be"):
        with_recipe("gce", {"lora.target_modules": given})


def test_target_modules_by_default_are_not_stored() -> None:
    assert "target_modules" not in to_plain(TrainSettings())["lora"]


def test_importance_ratios_need_rollouts_without_few_shot_examples() -> None:
    settings = with_recipe("gce", {"objective.importance_cap": 2.0, "demonstrations.bootstrap": "few-shot"})
    with pytest.raises(SettingError) as caught:
        check_variants(settings, ALGORITHMS["raft"])
    assert caught.value.said(command_parser("train").option).endswith(
        "sampled from another prompt: leave out --bootstrap"
    )


def test_a_section_is_a_record_of_its_class() -> None:
    with pytest.raises(SettingError, match=r"^lora must be a LoraSettings, got 3"):
        TrainSettings(lora=3)  # type: ignore[arg-type]


def test_every_setting_is_said_to_be_something_and_no_two_have_one_flag() -> None:
    settings = all_settings()
    assert len(settings) == 95
    assert all(each.help and each.kind.expected for each in settings.values())
    flags = [each.flag for each in settings.values() if each.flag]
    assert len(flags) == len(set(flags)) == 83
    sections = sections_in(TrainSettings)
    assert len(sections) == 12 and all(
        len(fields(kind)) <= 25 and vars(kind)["section"] == name for name, kind in sections.items()
    )
    assert all(recipe in settings["recipe"].help for recipe in RECIPES)


def test_the_table_of_settings_in_docs_is_current() -> None:
    """`python -m gce.app.settings.table > docs/SETTINGS.md` makes it."""
    kept = Path(__file__).parents[1] / "docs" / "SETTINGS.md"
    assert kept.read_text(encoding="utf-8") == settings_table() + "\n"
