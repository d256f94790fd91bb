"""Runs that older versions made are read and not resumed; those of newer ones are refused with what to do.

`runs/layout-1` is a run as it was written before waves were held: two iterations of
`gce train --task toy_task:ADDITION --model toy_task:careless --iterations 2 --problems 4 --rollouts 3 --dev 2 --test 4
--updates 1`. `runs/flat-settings` is one of gce 0.1.0, which kept its settings in one table:
`gce train --task toy_task:TWO_PRESETS --model toy_task:careless --seed 7 --iterations 2 --problems 4 --rollouts 3
--dev 2 --test 4 --updates 1 --warm-up 2 --warm-up-also other --shots 1 --learning-rate 0.002 --rank 4`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.runs.reader import DirectoryReader
from gce.adapters.runs.run_directory import RunDirectory
from gce.app import cli
from gce.app.evaluation.stored_runs import base_of, stored_settings
from gce.app.settings.records import all_settings
from gce.app.settings.stored import from_stored
from gce.app.settings.values import changed, with_recipe
from gce.app.wiring.runs import open_run
from gce.domain.serialization import to_plain
from gce.domain.traces import trace_of_record, trace_record
from gce.errors import BadInput, DamagedStore

RUNS = Path(__file__).parent / "runs"
OLD, FLAT = RUNS / "layout-1", RUNS / "flat-settings"
ADDED = {"held", "kept_answers", "written"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "run", symlinks=True)


def layout(run: Path) -> tuple[int, set[str]]:
    with sqlite3.connect(run / "run.sqlite") as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return database.execute("PRAGMA user_version").fetchone()[0], tables & ADDED


def alter(run: Path, statement: str) -> None:
    with sqlite3.connect(run / "run.sqlite") as database:
        database.execute(statement)


def test_an_old_run_is_read_as_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (old / "run.sqlite").read_bytes()
    with DirectoryReader(old) as run:
        assert run.config["settings"]["iterations"] == 2
        assert [record["iteration"] for record in run.read("iterations")] == [1, 2]
        assert run.summary() is not None and len(run.answers("test-after")) == 12
    assert cli.main(["traces", str(old), "--out", str(old.parent / "traces.jsonl")]) == 0
    assert (old / "run.sqlite").read_bytes() == content
    assert layout(old) == (1, set())


@pytest.mark.parametrize("made", ["layout-1", "flat-settings"])
def test_a_run_of_0_1_0_is_not_resumed_and_the_version_that_can_is_named(
    made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(RUNS / made, tmp_path / "run", symlinks=True)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert cli.main(["train", "--run-dir", str(run), "--resume", "--iterations", "3"]) == 2
    said = capsys.readouterr().err
    assert "was made by gce 0.1.0" in said and "install gce 0.1.0 to resume it" in said and said.count("\n") == 1
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_flat_settings_of_0_1_0_are_read_as_nested_ones() -> None:
    """All that the run was given on its command line, and one default of each kind."""
    with DirectoryReader(FLAT) as run:
        flat = run.config["settings"]
        settings = stored_settings(run)
    assert flat["learning_rate"] == 0.002 and flat["warm_up_also"] == ["other"]
    expected = with_recipe(
        "gce",
        {
            "task": "toy_task:TWO_PRESETS",
            "preset": "small",
            "seed": 7,
            "model.name": "toy_task:careless",
            "lora.rank": 4,
            "optimizer.learning_rate": 0.002,
            "optimizer.updates": 1,
            "rollouts.problems": 4,
            "rollouts.samples": 3,
            "demonstrations.shots": 1,
            "demonstrations.warm_up": 2,
            "demonstrations.warm_up_also": ("other",),
            "stopping.iterations": 2,
            "evaluation.dev": 2,
            "evaluation.test": 4,
        },
    )
    assert settings == expected
    newer = {
        "evaluator",
        "rollouts.strategy",
        "rollouts.second_wave_by",
        "rollouts.early_stop",
        "executor.judges",
        "executor.kind",
    }
    newer |= {"executor.workers", "executor.address", "executor.gpus_per_worker"}
    newer |= {"executor.schedule", "executor.staleness"}
    newer |= {"objective.clip_high", "objective.importance_cap", "model.sampler", "model.precision"}
    newer |= {"buffer.random_rates", "evaluation.shifts", "evaluation.also_measure", "rollouts.governor"}
    newer |= {"objective.credit", "objective.credit_samples", "evaluation.keep_every", "model.load_in_4bit"}
    newer |= {
        f"optimizer.{name}" for name in ("bf16", "gradient_checkpointing", "learner_processes", "tokens_per_pass")
    }
    newer |= {"model.chat_template", "model.chat_template_kwargs", "model.template_date", "lora.target_modules"}
    newer |= {"model.sampler_folder", "model.sampler_difference_limit"}
    newer |= {"evaluators.teach", "evaluators.combine", "evaluators.hold_out", "evaluators.judge_repeats"}
    assert len(flat) == len(all_settings().keys() - newer), "none that there was is left out"
    assert from_stored(to_plain(settings)) == settings
    explicit = changed(settings, {"objective.clip": 0.2})
    assert from_stored(to_plain(explicit)) == explicit, "the former default is kept where it is given now"


def test_every_command_that_reads_a_run_opens_one_of_0_1_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(shutil.copytree(FLAT, tmp_path / "run", symlinks=True))
    assert cli.main(["report", run, "--format", "md"]) == 0
    page = capsys.readouterr().out + "".join(path.read_text() for path in Path(run).glob("report.md"))
    assert "toy_task:careless on addition/small, seed 7" in page and "| optimizer.learning_rate | 0.002 |" in page
    assert cli.main(["rescore", run]) == 0
    assert cli.main(["validity", run, "--n", "2"]) == 0
    assert cli.main(["traces", run, "--to", "hf", "--out", str(tmp_path / "hf")]) == 0
    assert "warm-up of 2 steps" in (tmp_path / "hf" / "README.md").read_text()
    with open_run(run) as reader:
        assert base_of(reader) == "toy_task:careless", "what gce export asks of a run's settings"


def test_a_study_with_runs_of_0_1_0_shows_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(FLAT, tmp_path / "full" / "seed-7", symlinks=True)
    given = ("--task", "toy_task:TWO_PRESETS", "--model", "toy_task:careless", "--iterations", "2", "--problems", "4")
    more = ("--rollouts", "3", "--updates", "1", "--warm-up", "2", "--warm-up-also", "other", "--shots", "1")
    study = ["ablate", "--dir", str(tmp_path), "--seeds", "7", "--conditions", "full", "--table", *given, *more]
    assert cli.main([*study, "--learning-rate", "0.002", "--rank", "4"]) == 0
    assert "58.3" in capsys.readouterr().out
    assert cli.main([*study, "--learning-rate", "0.002", "--rank", "8"]) == 2
    assert "was made with --rank 4, expected 8" in capsys.readouterr().err
    assert cli.main(study[: study.index("--table") + 1]) == 0, "no settings, none compared"
    assert "58.3" in capsys.readouterr().out


def test_stored_traces_of_0_1_0_are_read_as_conversations_of_one_answer() -> None:
    with DirectoryReader(FLAT) as run:
        records = list(run.read("traces"))
    assert records and all("turns" not in record for record in records)
    for record in records:
        trace = trace_of_record(record)
        assert to_plain(trace.messages) == record["messages"]
        assert to_plain(trace.completion) == record["completion"]
        assert [turn.trained for turn in trace.turns] == [False] * len(trace.messages) + [True]
        assert trace_of_record(trace_record(trace)) == trace
        assert len(json.dumps(trace_record(trace))) < len(json.dumps(record)) + 100, "it hardly grows"


def test_opening_an_old_run_twice_brings_it_up_to_date_once(old: Path) -> None:
    for _ in range(2):
        with RunDirectory.open(old) as run:
            assert list(run.held()) == []
        assert layout(old) == (4, ADDED)


@pytest.mark.parametrize("read", [DirectoryReader, RunDirectory.open])
def test_a_run_of_a_newer_version_is_refused_with_what_to_do(old: Path, read: Any) -> None:
    alter(old, "PRAGMA user_version = 5")
    with pytest.raises(DamagedStore, match=r"got layout 5: a newer version of gce made it: install that one"):
        read(old)


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 0", "PRAGMA application_id = 7"])
def test_what_is_no_run_is_refused(old: Path, statement: str) -> None:
    alter(old, statement)
    with pytest.raises(DamagedStore, match=r"expected a run of layout 4 or older, .* it is damaged, or no run"):
        DirectoryReader(old)


@pytest.mark.parametrize("flat", [True, False])
def test_a_setting_that_this_version_does_not_know_is_refused_by_name(flat: bool) -> None:
    """As a newer version would leave it."""
    with DirectoryReader(FLAT) as run:
        settings = run.config["settings"] if flat else to_plain(stored_settings(run))
    with pytest.raises(BadInput, match=r"another version: unknown settings telepathy"):
        from_stored({**settings, "telepathy": True})


def test_a_setting_that_an_old_run_does_not_have_takes_its_default() -> None:
    with DirectoryReader(OLD) as run:
        settings = run.config["settings"]
    for name in ("ladder", "shots", "bootstrap", "timeout"):
        settings.pop(name, None)
    assert from_stored(settings).demonstrations.shots == 3 and from_stored(settings).model.timeout == 300.0
