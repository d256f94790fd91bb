"""Studies: what is compared with what, by hand; and through the command line, across sittings."""

from __future__ import annotations

import copy
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from present import present

from gce.adapters.runs.directory_store import DirectoryRuns
from gce.app import cli
from gce.app.settings.records import StoppingSettings, TrainSettings
from gce.app.settings.values import with_recipe
from gce.app.studies.conditions import STUDIES, Condition, check_stored, values_of
from gce.app.studies.study import Effect, Finished, effects, finished, graded
from gce.app.training import run as training
from gce.domain.serialization import to_plain
from gce.domain.statistics import Estimate
from gce.errors import BadInput, SettingError

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SMALL = ("--problems", "4", "--rollouts", "2", "--iterations", "1", "--updates", "1", "--test", "3")

CONDITIONS = {"full": Condition("all"), "half": Condition("less", {"lora.layers": 2}, "full")}


def run(condition: str, seed: int, right: str) -> Finished:
    """Test problems of two tiers, "T0/T1", a digit each."""
    found = {
        (f"T{tier}", str(number)): float(digit)
        for tier, digits in enumerate(right.split("/"))
        for number, digit in enumerate(digits)
    }
    return Finished(condition, seed, found, {})


def test_differences_are_paired_by_seed_and_problem() -> None:
    """Seed 0: T0 -1/2, T1 0. Seed 1: T0 -1/2, T1 -1/2. Over problems: (-1, 0) and (-1/2, 0, 0, -1/2)."""
    runs = [
        run("full", 0, "11/1000"),
        run("half", 0, "01/1000"),
        run("full", 1, "10/1001"),
        run("half", 1, "00/0000"),
        run("full", 2, "11/1111"),
    ]
    full, half = effects(runs, CONDITIONS)
    assert full.seeds == (0, 1, 2) and full.difference is None and full.adjusted is None
    assert half.shared == (0, 1)
    assert half.by_seed == (-0.25, -0.5)
    assert half.difference is not None and half.difference.value == pytest.approx(-0.375)
    assert half.difference.low < -0.375 < half.difference.high
    assert half.across is not None and half.across.value == pytest.approx(-0.375)
    assert half.across.low <= half.difference.low, "other seeds add to what other problems leave open"
    (_, single) = effects(runs[:2], CONDITIONS)
    assert single.difference is not None and single.across is None, "one seed says nothing about others"


def test_graded_rewards_are_compared_like_accuracy() -> None:
    """All wrong, but with rewards: a half and a quarter more on two problems."""

    def graded_run(condition: str, rewards: dict[tuple[str, str], float]) -> Finished:
        return Finished(condition, 0, dict.fromkeys(rewards, 0.0), {}, rewards)

    runs = [
        graded_run("full", {("T0", "0"): 0.75, ("T0", "1"): 0.5}),
        graded_run("half", {("T0", "0"): 0.25, ("T0", "1"): 0.25}),
    ]
    (_, half) = effects(graded(runs), CONDITIONS)
    assert half.difference is not None and half.difference.value == pytest.approx(-0.375)
    assert half.p is not None and half.adjusted == half.p
    assert graded([run("full", 0, "10")]) == [], "no reward is partial"


@pytest.mark.slow
def test_a_study_over_two_processes_is_the_same_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors")  # Runs are kept in directories.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    arguments = ["ablate", *TOY, *SMALL, "--conditions", "full,shuffled", "--seeds", "0", "--json"]
    found = []
    for processes in ("1", "2"):
        assert cli.main([*arguments, "--dir", str(tmp_path / processes), "--processes", processes]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert len(found[0]["effects"]) == 2 and not found[0]["missing"]


def test_an_error_of_a_setting_crosses_processes_whole() -> None:
    error = SettingError("optimizer.batch", "from 1", 0, "{optimizer.batch} must be from 1, got 0")
    again = copy.copy(error)
    assert (str(again), again.setting, again.got) == (str(error), "optimizer.batch", 0)
    assert again.said(lambda name: f"<{name}>") == "<optimizer.batch> must be from 1, got 0"


def test_problems_that_only_one_has_are_left_out() -> None:
    """Another number of test problems: the first ones are shared."""
    (_, half) = effects([run("full", 0, "111/11"), run("half", 0, "10/1")], CONDITIONS)
    assert half.by_seed == (-0.25,)


def test_runs_without_a_common_problem_are_not_compared() -> None:
    (_, half) = effects([run("full", 0, "1"), Finished("half", 0, {("T9", "0"): 1.0}, {})], CONDITIONS)
    assert half.difference is None and half.shared == () and half.adjusted is None


def test_what_is_still_to_come_counts_when_p_is_adjusted() -> None:
    """One of the eight comparisons of the algorithms is done: its p is multiplied by eight."""
    runs = [run("raft", 0, "1" * 30), run("grpo", 0, "0" * 7 + "1" * 23)]
    found = {effect.condition: effect for effect in effects(runs, STUDIES["algorithms"])}
    assert found["grpo"].p == pytest.approx(0.0156, abs=0.005)
    assert found["grpo"].adjusted == pytest.approx(8 * present(found["grpo"].p))


def test_an_effect_is_clear_when_it_is_significant_and_every_seed_agrees() -> None:
    def effect(p: float, *by_seed: float) -> bool:
        mean = Estimate(0.5, 0.4, 0.6)
        return Effect("half", (0, 1), mean, "full", (0, 1), mean, by_seed, p, p).clear

    assert effect(0.01, 0.2, 0.1) and effect(0.01, -0.2, -0.1)
    assert not effect(0.01, 0.2, -0.1) and not effect(0.2, 0.2, 0.1) and not effect(0.01, 0.0, 0.0)


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_on_studies_names_every_condition(study: str) -> None:
    page = (Path(__file__).parents[1] / "docs/howto/studies.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| `{study}`"))
    assert re.findall(r"`([^`]+)`", row) == [study, *STUDIES[study]]


@pytest.mark.parametrize("study", STUDIES)
def test_conditions_are_settings_that_exist_and_compare_with_one_another(study: str) -> None:
    conditions = STUDIES[study]
    for name, condition in conditions.items():
        settings = values_of(condition, {"evaluation.test": 10}, 3)
        assert settings is not None
        config = with_recipe("gce", settings)
        assert (config.seed, config.evaluation.test) == (3, 10)
        assert not condition.against or condition.against in conditions, name
    assert with_recipe("gce", values_of(STUDIES["ablations"]["no-reasoning"], {}, 0) or {}).task == (
        "scheduling-answer-only"
    )
    assert values_of(Condition("", {}, variant="answer-only"), {"task": "toy_task:ADDITION"}, 0) is None


def test_a_run_made_before_a_setting_existed_has_its_default() -> None:
    wanted = TrainSettings(stopping=StoppingSettings(iterations=2))
    older = to_plain(wanted)
    for section, name in (("demonstrations", "bootstrap"), ("curriculum", "ladder"), ("model", "concurrency")):
        del older[section][name]
    check_stored(older, wanted, "study")
    with_ladder = evolve(wanted, curriculum=evolve(wanted.curriculum, ladder=True))
    with pytest.raises(BadInput, match=r"study was made with curriculum.ladder False, expected True"):
        check_stored(older, with_ladder, "study")


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of four runs, then one that was cut off and another, then nothing but the table."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    arguments = ["ablate", *TOY, *SMALL, "--dir", str(tmp_path / "study"), "--conditions", "full,shuffled"]
    assert cli.main([*arguments, "--seeds", "0"]) == 0
    out = capsys.readouterr().out
    assert "full" in out and "shuffled" in out and "vs full" in out
    kept = tmp_path / "study/full/seed-0/summary.json"
    before = kept.read_bytes()

    others = [*arguments, "--seeds", "0,1", "--iterations", "3"]
    assert cli.main(others) == 2
    assert "was made with --iterations 1, expected 3: give another directory" in capsys.readouterr().err
    assert cli.main([*arguments, "--seeds", "0", "--test", "5", "--threads", "1"]) == 0, "these change nothing learned"
    capsys.readouterr()

    assert cli.main([*arguments, "--seeds", "0,1", "--table"]) == 1
    assert "not finished: full seed 1, shuffled seed 1" in capsys.readouterr().out
    assert cli.main([*arguments, "--seeds", "0,1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["missing"] == [] and [effect["seeds"] for effect in found["effects"]] == [[0, 1], [0, 1]]
    assert kept.read_bytes() == before, "a finished run is not run again"

    (tmp_path / "study/full/seed-1/summary.json").unlink()
    assert cli.main([*arguments, "--seeds", "0,1"]) == 0
    assert "[3/4] full, seed 1" in capsys.readouterr().err
    assert len(finished(DirectoryRuns(), str(tmp_path / "study"), STUDIES["ablations"])) == 4


def test_a_run_that_another_process_holds_is_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    inner = ["ablate", *TOY, *SMALL, "--dir", str(tmp_path), "--conditions", "full", "--seeds", "0"]
    finish: Callable[..., object] = training._finished

    def meanwhile(*arguments: object, **more: object) -> object:
        monkeypatch.setattr(training, "_finished", finish)
        assert cli.main(inner) == 1
        assert "skipped, as another process runs it" in capsys.readouterr().err
        return finish(*arguments, **more)

    monkeypatch.setattr(training, "_finished", meanwhile)
    assert cli.main(inner) == 0


def test_a_condition_that_the_task_has_not_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    arguments = ["--dir", str(tmp_path), "--conditions", "full,no-reasoning", "--seeds", "0", "--minutes", "1"]
    assert cli.main(["ablate", *TOY, *SMALL, *arguments]) == 0
    assert "has no variant for no-reasoning" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--seeds", "a"), "--seeds: expected a whole number from 0 to"),
        (("--conditions", "half"), "has no condition 'half'"),
        (("--iterations", "-1"), "--iterations: expected a whole number from 0 to"),
        (("--iterations", "0"), "--iterations must be at least 1 without a warm-up (--warm-up), got 0"),
        (("--study", "algorithms", "--algorithm", "grpo"), "conditions differ in --algorithm: leave out --algorithm"),
        (("--admission", "all"), "conditions differ in --admission: leave out --admission"),
        (("--test", "0"), "a study needs --test of at least 2, got 0"),
    ],
)
def test_bad_studies_are_refused_in_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["ablate", *TOY, *arguments, "--dir", str(tmp_path / "study")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


def test_tiers_are_mastered_over_time() -> None:
    """Three tiers: T0 from the second iteration on, T1 at the third; T2 is forgotten as it was learned."""
    from gce.app.studies.study import mastered_over_time
    from gce.domain.diagnosis import share_mastered
    from gce.domain.measurements import Interval, IterationRecord

    def record(iteration: int, **right: int) -> IterationRecord:
        dev = {tier: Interval(10, count, 0.0, 1.0) for tier, count in right.items()}
        return IterationRecord(iteration, {}, {}, 0, 0, None, None, None, 0, dev=dev)

    records = [record(1), record(2, T0=8, T1=7, T2=9), record(3, T0=9, T1=8, T2=7)]
    assert share_mastered(records) == [(2, 2 / 3), (3, 2 / 3)]
    assert share_mastered(records, level=0.9) == [(2, 1 / 3), (3, 1 / 3)]
    assert share_mastered([]) == share_mastered([record(1)]) == []
    runs = [
        evolve(run("full", 0, "1"), mastered=[(1, 0.0), (2, 0.5)]),
        evolve(run("full", 1, "1"), mastered=[(1, 0.5)]),
        evolve(run("no-accumulation", 0, "1"), mastered=[(1, 0.25)]),
    ]
    assert mastered_over_time(runs) == {"full": [(1.0, 0.25), (2.0, 0.5)], "no-accumulation": [(1.0, 0.25)]}


@pytest.mark.slow
def test_a_report_of_a_study_shows_what_was_mastered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From training rollouts where there is no dev; not where one iteration is all there is."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    for iterations, shown in (("1", False), ("2", True)):
        where = str(tmp_path / iterations)
        sizes = (*SMALL, "--iterations", iterations, "--dir", where, "--seeds", "0")
        assert cli.main(["ablate", *TOY, *sizes, "--conditions", "full,no-accumulation", "-q"]) == 0
        capsys.readouterr()
        assert cli.main(["report", where, "--json"]) == 0
        (section,) = json.loads(capsys.readouterr().out)
        assert ("Share of tiers mastered over time" in section["figures"]) == shown
    rows = section["figures"]["Share of tiers mastered over time"]["rows"]
    assert [row[1:3] for row in rows] == [[name, n] for name in ("full", "no-accumulation") for n in ("1", "2")]
