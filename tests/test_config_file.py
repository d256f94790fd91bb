"""Settings from a TOML file and from --set: what is written reads back, what stands above what, and what is refused."""

from __future__ import annotations

import argparse
import json
import string
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gce.app.commands import train as command
from gce.app.options import (
    DAY,
    ByName,
    Choice,
    ChoiceOrOwn,
    ChoiceOrShare,
    Count,
    Listed,
    Name,
    Number,
    Readable,
    Weighted,
)
from gce.app.parser import Parser
from gce.app.settings.config_file import ASSIGNMENT, read_config, settings_of, settings_toml
from gce.app.settings.fields import Setting
from gce.app.settings.records import TrainSettings, all_settings
from gce.app.settings.values import RECIPES, changed, flat_values, settings_from, with_recipe
from gce.errors import BadInput, SettingError

NAMES = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=20).filter(str.strip)
"""Names that a file of UTF-8 can hold."""


def values_of(setting: Setting) -> st.SearchStrategy[Any]:
    """Values that the setting takes, None where it may be."""
    kind: Any = setting.kind
    match kind:
        case Count(low, high):
            found: st.SearchStrategy[Any] = st.integers(low, min(high, 50))
        case Number():
            least = kind.low if not kind.above else kind.low + 1e-9 * (kind.high - kind.low)
            found = st.floats(least, kind.high).filter(kind.takes)
        case Choice(names):
            found = st.sampled_from(list(names))
        case ChoiceOrOwn(names) | ChoiceOrShare(names):
            found = st.sampled_from(list(names))
        case Listed():
            found = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(tuple)
        case Weighted():
            found = st.floats(0.001, 1000.0).map(lambda weight: {"verifier": 1.0, "steps": weight})
        case ByName(Count()):
            found = st.dictionaries(st.sampled_from(["T0", "a b", "é"]), st.integers(1, 9), min_size=1)
        case ByName():
            found = st.dictionaries(st.sampled_from(["T0", "a b", "é"]), st.floats(0.0, 1.0), min_size=1)
        case Name():
            found = NAMES
        case Readable():
            arguments = st.dictionaries(st.sampled_from(["enable_thinking", "é"]), st.booleans() | st.integers())
            found = st.dates().map(date.isoformat) if kind is DAY else arguments.map(json.dumps)
        case _:
            found = st.booleans()
    return st.none() | found if setting.may_be_none else found


@st.composite
def any_settings(draw: st.DrawFn) -> TrainSettings:
    """Over a recipe, any values of any settings."""
    known = {name: each for name, each in all_settings().items() if name != "recipe"}
    names = draw(st.sets(st.sampled_from(sorted(known)), max_size=12))
    values = {name: draw(values_of(known[name])) for name in sorted(names)}
    if values.get("stopping.iterations") == 0 and not values.get("demonstrations.warm_up"):
        values["demonstrations.warm_up"] = 1
    return changed(with_recipe(draw(st.sampled_from(sorted(RECIPES))), {}), values)


def parsed(*arguments: str | Path) -> argparse.Namespace:
    parser = Parser(prog="gce train")
    command.add_arguments(parser)
    return parser.parse_args([str(each) for each in arguments])


@pytest.mark.slow
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(any_settings())
def test_what_is_printed_reads_back_to_the_same_settings(tmp_path: Path, found: TrainSettings) -> None:
    file = tmp_path / "run.toml"
    lines = settings_toml(found)
    assert all(line.isascii() and "\n" not in line for line in lines)
    file.write_text("\n".join(lines), "ascii")
    assert settings_from(read_config(file)) == found
    assert settings_of(parsed("--config", file))[0] == found


@pytest.mark.parametrize("name", [name for name, each in all_settings().items() if each.may_be_none])
def test_where_none_is_a_value_its_name_is_no_other_one(name: str) -> None:
    assert not all_settings()[name].kind.takes("none")
    assert ASSIGNMENT(f"{name}=none") == (name, None)


def test_options_stand_above_set_above_the_file_above_the_recipe_above_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'recipe = "isopro"\nseed = 1\n[lora]\nrank = 4\nlayers = 2\n[optimizer]\nlearning_rate = 1\n', encoding="utf-8"
    )
    chosen = ("--config", file, "--set", "lora.rank=5", "--set", "optimizer.batch=3", "--seed", "7", "--layers", "3")
    found, sources = settings_of(parsed(*chosen))
    assert (found.seed, found.lora.rank, found.lora.layers, found.optimizer.batch) == (7, 5, 3, 3)
    assert found.optimizer.learning_rate == 1.0 and type(found.optimizer.learning_rate) is float
    assert found.rollouts.samples == 4, "the recipe's"
    assert sources["seed"] == sources["lora.layers"] == "option"
    assert sources["lora.rank"] == sources["optimizer.batch"] == "--set"
    assert sources["recipe"] == sources["optimizer.learning_rate"] == "--config"
    assert sources["rollouts.samples"] == "recipe"
    default = flat_values(TrainSettings())
    assert set(sources) == {name for name, value in flat_values(found).items() if value != default[name]}


def test_a_number_of_problems_goes_above_the_file_s_numbers_by_tier(tmp_path: Path) -> None:
    """Which would win in the loop."""
    file = tmp_path / "run.toml"
    file.write_text("\n".join(settings_toml(with_recipe("isopro", {}))), encoding="utf-8")
    found, _ = settings_of(parsed("--config", file, "--problems", "10"))
    assert (found.rollouts.problems, found.rollouts.problems_by_tier) == (10, None)
    assert settings_of(parsed("--config", file, "--set", "optimizer.updates=2"))[0].optimizer.epochs is None


def test_set_takes_what_the_option_takes() -> None:
    chosen = ("rollouts.problems_by_tier=T0=3,T1=4", "demonstrations.warm_up_also=a,b", "curriculum.ladder=true")
    found, _ = settings_of(parsed(*(part for each in chosen for part in ("--set", each))))
    assert found.rollouts.problems_by_tier == {"T0": 3, "T1": 4}
    assert (found.demonstrations.warm_up_also, found.curriculum.ladder) == (("a", "b"), True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "is not TOML"),
        ("\xff", "is not TOML"),
        ("a" * 2**20 + "=1", "expected at most 1,048,576"),
        ("[" * 5000, "is not TOML"),
        ("rank = 3", "there is no setting 'rank'; did you mean lora.rank?"),
        ("[lora]\nrnk = 3", "there is no setting 'lora.rnk'; did you mean lora.rank?"),
        ("[lorra]\nrank = 3", "there is no setting 'lorra'"),
        ("lora = 3", "expected a section [lora], got lora = 3"),
        ("[lora]\nrank = 0", "lora.rank must be a whole number from 1 to 4,096, got 0"),
        ('[lora]\nrank = "4"', "lora.rank must be a whole number from 1 to 4,096, got '4'"),
        ("[lora]\nrank = true", "lora.rank must be a whole number"),
        ("[lora]\nscale = nan", "lora.scale must be a finite number"),
        ('[optimizer]\nbatch = "none"', "optimizer.batch must be a whole number"),
        ("[curriculum]\nladder = 1", "curriculum.ladder must be true or false, got 1"),
        ("[model.name]\na = 1", "model.name must be a name"),
        ('recipe = "isoppo"', "no recipe 'isoppo'"),
        ("task = ''", "task must be a name"),
        (string.printable, "is not TOML"),
    ],
    ids=lambda each: repr(each[:30]),
)
def test_a_file_that_cannot_be_used_is_one_line_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text, "latin-1")
    with pytest.raises(BadInput) as caught:
        settings_of(parsed("--config", file))
    assert said in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500
    assert str(file) in str(caught.value) or "recipe" in said


def test_an_option_s_error_names_the_option_where_a_file_has_the_setting_too(tmp_path: Path) -> None:
    """Each is right alone, not both together with `admission`."""
    file = tmp_path / "run.toml"
    file.write_text("[rollouts]\nproblems = 10000\n", encoding="utf-8")
    with pytest.raises(SettingError, match=r"must be at most 1,000,000 answers"):
        settings_of(parsed("--config", file, "--problems", "9999", "--rollouts", "9999"))


def test_a_changed_copy_differs() -> None:
    assert settings_toml(TrainSettings()) != settings_toml(evolve(TrainSettings(), seed=1))
