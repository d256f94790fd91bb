"""The path of a run: points worked out by hand, nulls that hold their level, and files that fit the schema."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gce.app import cli
from gce.domain.geometry import Geometry, ScoredProblem, least_window, path_geometry

RNG = np.random.default_rng


def problems(*states: tuple[float, ...], tier: str = "T0", copies: int = 1) -> list[ScoredProblem]:
    """Problems of which each state is the mean: evaluators a, b, c."""
    return [
        ScoredProblem(number, tier, dict(zip("abc", state, strict=False)))
        for number, state in enumerate(states, 1)
        for _ in range(copies)
    ]


def statistics(found: Geometry) -> dict[str, Any]:
    return {each.statistic: each for each in found.nulls}


def test_a_straight_path_by_hand() -> None:
    """Both scores rise in equal steps: standardised, (-1.2247, 0, 1.2247) twice, on one line of slope 1."""
    found = path_geometry(problems((0.1, 0.2), (0.2, 0.4), (0.3, 0.6)), RNG(0), resamples=50)
    assert found.dimensions == ("a/T0", "b/T0") and found.iterations == (1, 2, 3)
    assert np.abs(found.components[0]) == pytest.approx([np.sqrt(0.5)] * 2)
    assert found.explained == pytest.approx((1.0, 0.0))
    along = [step.state[0] for step in found.steps]
    assert np.abs(along) == pytest.approx([np.sqrt(3), 0.0, np.sqrt(3)])
    assert [step.velocity[0] for step in found.steps] == pytest.approx([0.0, along[1] - along[0], along[2] - along[1]])
    assert [step.curvature for step in found.steps] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert [step.effective_dim for step in found.steps] == pytest.approx([0.0, 1.0, 1.0])
    assert found.steps[-1].eigenvalues == pytest.approx((2.0, 0.0), abs=1e-9) and found.steps[-1].anisotropy == 1.0
    named = statistics(found)
    assert named["straightness"].observed.value == pytest.approx(1.0)
    assert named["movement"].observed.value == pytest.approx(0.01 * 2 / 3 + 0.04 * 2 / 3)


def test_a_path_that_turns_back_has_the_curvature_1() -> None:
    found = path_geometry(problems((0.0, 0.0), (1.0, 1.0), (0.0, 0.0)), RNG(0), resamples=20)
    assert [step.curvature for step in found.steps] == pytest.approx([0.0, 0.0, 1.0])
    assert statistics(found)["straightness"].observed.value == pytest.approx(0.0)


def test_a_right_angle_and_two_dimensions() -> None:
    """Two scores that move one after the other: a square's corner, and two equal eigenvalues over the four corners."""
    found = path_geometry(problems((0, 0), (1, 0), (1, 1), (0, 1)), RNG(0), resamples=20)
    assert [step.curvature for step in found.steps] == pytest.approx([0.0, 0.0, 0.5, 0.5])
    assert found.steps[-1].effective_dim == pytest.approx(2.0)


def test_only_whole_tiers_and_evaluators_count_and_what_never_varies_does_not() -> None:
    given = problems((0.1, 0.2, 0.5), (0.2, 0.1, 0.5), (0.3, 0.3, 0.5))
    given += [ScoredProblem(1, "T1", {"a": 0.0, "b": 0.0, "c": 0.0}), ScoredProblem(2, "T0", {"a": 0.2, "c": 0.5})]
    with pytest.raises(ValueError, match="at least 2 scores that vary over iterations, got 1"):
        path_geometry(given, RNG(0), resamples=5)
    assert path_geometry(given[:-1], RNG(0), resamples=5).dimensions == ("a/T0", "b/T0")
    with pytest.raises(ValueError, match="at least 3 iterations with answers, got 2"):
        path_geometry(problems((0.1, 0.2), (0.2, 0.1)), RNG(0))


def test_windows() -> None:
    assert [least_window(each) for each in (3, 100, 250)] == [10, 10, 25]


def drawn(chances: list[float], rng: np.random.Generator) -> list[ScoredProblem]:
    """40 problems an iteration, right with its chance; b is right as often, by itself."""
    return [
        ScoredProblem(number, "T0", {name: float(rng.random() < chance) for name in "ab"})
        for number, chance in enumerate(chances, 1)
        for _ in range(40)
    ]


@pytest.mark.slow
def test_the_null_of_problems_holds_its_level_and_finds_what_is_there() -> None:
    """Where nothing changes p is at most 0.05 in 3 of 20 runs or fewer (chance of more: 1.6 %); else it is small."""
    still = [path_geometry(drawn([0.5] * 6, RNG(seed)), RNG(seed), resamples=99) for seed in range(20)]
    assert sum(statistics(each)["movement"].p <= 0.05 for each in still) <= 3
    moved = [path_geometry(drawn([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], RNG(s)), RNG(s), resamples=99) for s in range(3)]
    assert all(statistics(each)["movement"].p <= 0.01 for each in moved)
    for each in moved:
        observed = statistics(each)["movement"].observed
        truth = 2 * np.var([0.1, 0.3, 0.4, 0.6, 0.7, 0.9])
        assert observed.low - 0.02 <= truth <= observed.high + 0.02


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from(["T0", "T1"]), st.floats(0, 1), st.floats(0, 1)),
        min_size=1,
        max_size=40,
    )
)
@hypothesis_settings(deadline=None)
def test_any_scores_make_a_path_or_one_clear_error(rows: list[tuple[int, str, float, float]]) -> None:
    given = [ScoredProblem(number, tier, {"a": a, "b": b}) for number, tier, a, b in rows]
    try:
        found = path_geometry(given, RNG(0), resamples=3)
    except ValueError as error:
        assert "expected at least" in str(error)
        return
    assert sum(found.explained) <= 1.0 + 1e-9
    for step in found.steps:
        assert 0.0 <= step.curvature <= 1.0 and step.anisotropy >= 1.0
        assert 0.0 <= step.effective_dim <= len(found.dimensions) + 1e-9
        assert np.isfinite([*step.state, *step.velocity]).all()
    assert all(0.0 < each.p <= 1.0 for each in found.nulls)


# A run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("safetensors")
    made = []
    for seed in (0, 1, 2):
        made.append(tmp_path_factory.mktemp("runs") / f"run{seed}")
        options = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--seed", str(seed), "--dev", "0")
        more = ("--iterations", "4", "--problems", "6", "--rollouts", "4", "--test", "0", "--sampling", "uniform")
        scores = ("--evaluators", "verifier,format", "--hold-out-evaluators", "length")
        assert cli.main(("train", *options, *more, *scores, "--run-dir", str(made[-1]))) == 0
    return made


def valid(plain: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(resources.files("gce").joinpath("data/geometry.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(plain)


@pytest.mark.slow
@pytest.mark.parametrize("schema", ["1.0", "1.1"])
def test_three_runs_are_exported_and_valid(runs: list[Path], schema: str, tmp_path: Path) -> None:
    for run in runs:
        out = tmp_path / f"{run.name}.json"
        assert cli.main(("geometry", str(run), "--out", str(out), "--schema", schema)) == 0
        plain = json.loads(out.read_text())
        valid(plain)
        assert plain["schema_version"] == schema and ("analysis" in plain) == (schema == "1.1")
        assert plain["run_metadata"]["holdout_professor"] == "length" and plain["run_metadata"]["cycles"] == 4
        assert [each["t"] for each in plain["trajectory"]["timesteps"]] == pytest.approx([0, 1 / 3, 2 / 3, 1])
        assert {each["name"]: each["holdout"] for each in plain["evaluators"]["professors"]}["length"] is True
        assert plain["reduction"]["input_dim"] == len(plain["scalars"]["dimensions"])


def test_the_schema_refuses_what_is_not_one(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    capsys.readouterr()
    assert cli.main(("geometry", str(runs[0]), "--json")) == 0
    plain = json.loads(capsys.readouterr().out)
    valid(plain)
    damages: tuple[Callable[[Any], Any], ...] = (
        lambda it: it.pop("scalars"),
        lambda it: it["trajectory"].update(timesteps=[]),
        lambda it: it["trajectory"]["timesteps"][0].update(state_2d=[0.0]),
        lambda it: it["run_metadata"].pop("step_axis"),
        lambda it: it.update(schema_version="1.0"),
        lambda it: it["run_metadata"].update(scalar_source="made up"),
    )
    for damage in damages:
        damaged = json.loads(json.dumps(plain))
        damage(damaged)
        with pytest.raises(jsonschema.ValidationError):
            valid(damaged)


def test_the_table_and_what_cannot_be_exported(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(("geometry", str(runs[0]))) == 0
    said = capsys.readouterr().out
    assert "4 iterations" in said and "problems dealt to iterations at random" in said
    taken = tmp_path / "taken.json"
    taken.write_text("mine")
    assert cli.main(("geometry", str(runs[0]), "--out", str(taken))) == 2
    assert cli.main(("geometry", str(tmp_path / "nowhere"))) == 2
    short = tmp_path / "short"
    options = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--iterations", "2", "--problems", "2")
    assert cli.main(("train", *options, "--dev", "0", "--test", "0", "--run-dir", str(short))) == 0
    capsys.readouterr()
    assert cli.main(("geometry", str(short))) == 2
    error = capsys.readouterr().err
    assert "at least 3 iterations with answers, got 2" in error and "Traceback" not in error
    assert taken.read_text() == "mine"
