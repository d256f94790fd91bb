"""`gce train` from the command line to the files it leaves: what repeats, what resumes, what is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_task
from attrs import evolve
from permissions import unwritable
from present import present

from gce.adapters.runs.run_directory import RunDirectory
from gce.app import cli
from gce.app.settings.values import with_recipe
from gce.app.training import run as train_module
from gce.app.wiring.models import shipped_model_path
from gce.domain.models import ModelInfo
from gce.domain.tasks import Teaching

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TESTS = Path(__file__).parent
TOY = ("--task", "toy_task:ADDITION")
SCRIPTED = (*TOY, "--model", "toy_task:careless")
WORKED = ("--task", "toy_task:WORKED", "--model", "toy_task:careless")
SIZES = (
    *("--problems", "5", "--rollouts", "2", "--iterations", "2", "--updates", "2"),
    *("--dev", "1", "--test", "1", "--max-tokens", "12"),
)
SCRIPTED_SETTINGS = {
    **{"task": "toy_task:ADDITION", "model.name": "toy_task:careless", "rollouts.problems": 5, "rollouts.samples": 2},
    **{"stopping.iterations": 2, "optimizer.updates": 2, "evaluation.dev": 1, "evaluation.test": 1},
    "rollouts.max_tokens": 12,
}
DOCUMENTED = (TESTS.parent / "docs/summary.md").read_text().partition("\n## ")[0]
FIELDS = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", DOCUMENTED, re.M))))


def train(*arguments: str | Path, run: Path | None = None) -> int:
    try:
        directory = () if run is None else ("--run-dir", str(run))
        return cli.main(["train", *map(str, arguments), *directory])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def in_a_process(code: str, *arguments: str | Path, hash_seed: int) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, after `code`."""
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(hash_seed),
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    script = f"import sys\n{code}\nfrom gce.app.cli import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def summary_of(run: Path) -> dict[str, Any]:
    """What must repeat of summary.json."""
    summary = json.loads((run / "summary.json").read_text())
    return {name: value for name, value in summary.items() if name not in ("seconds", "peak_bytes")}


def records_of(run: Path) -> dict[str, list[Any]]:
    """What must repeat of the stored records: all but times."""
    with RunDirectory.open(run) as store:
        streams = {name: list(store.read(name)) for name in ("iterations", "rollouts", "traces", "evaluations")}
    for record in streams["iterations"] + streams["evaluations"]:
        record["seconds"] = None
    return streams


def adapter_of(run: Path) -> bytes:
    return (run / "checkpoints" / "last" / "adapters.safetensors").read_bytes()


def assert_same_run(one: Path, other: Path) -> None:
    assert records_of(one) == records_of(other)
    assert adapter_of(one) == adapter_of(other)
    assert summary_of(one) == summary_of(other)


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The error on standard error, perhaps behind a line of usage, and one that says what a slow machine is loading."""
    out, err = capsys.readouterr()
    *usage, error = [line for line in err.splitlines() if not line.startswith("loading ")]
    assert out == ""
    assert error.startswith("gce train: "), err
    assert len(usage) <= 1 and all(line.startswith("usage: gce train [options]") for line in usage), err
    return error


# What it prints and leaves


@pytest.mark.slow
def test_help_teaches_with_examples_also_as_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120"}
    command = [sys.executable, "-m", "gce.app.train", "--help"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "examples:\n  gce train " in ran.stdout
    for option in ("--run-dir", "--seed", "--preset", "--iterations", "--resume", "--task", "--model", "--json"):
        assert option in ran.stdout
    assert "(default 0.8)" in ran.stdout


def test_a_run_prints_lines_and_a_table_and_leaves_its_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("gce.app.wiring.figures.can_draw", lambda: True)
    assert train(*SCRIPTED, *SIZES, "--test", "30", run=tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert "toy_task:careless on addition/small, seed 0, run" in err
    assert re.search(r"^ *1/2 ", err, re.M) and re.search(r"^ *2/2 ", err, re.M)
    assert err.endswith(f"\nnext: gce report {tmp_path / 'run'}\n")
    assert "n = 30 a tier" in out and "T2, held out" in out and "n = 30 a tier" not in err
    for row in ("before", "after", "best prompt-blind", "adds"):
        assert re.search(rf"^{row}  ", out, re.M), row
    assert "20 rollouts, " in out
    files = {"run.sqlite", "checkpoints", "summary.json", "test-before.jsonl", "test-after.jsonl"}
    assert set(os.listdir(tmp_path / "run")) >= files
    answers = [json.loads(line) for line in (tmp_path / "run" / "test-after.jsonl").read_text().splitlines()]
    after = json.loads((tmp_path / "run" / "summary.json").read_text())["after"]
    assert len(answers) == 90
    assert Counter(each["tier"] for each in answers if each["right"]) == {
        tier: found["correct"] for tier, found in after.items() if found["correct"]
    }


def test_quiet_leaves_the_results_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(*SCRIPTED, *SIZES, "--quiet", run=tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert "20 rollouts, " in out
    assert (
        err == "warning: first wave: 70% of answers (7 of 10) were cut off at the maximum tokens: try --max-tokens 24\n"
    )


def test_verbose_tells_the_settings_and_how_long_stages_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*SCRIPTED, *SIZES, "-v", run=tmp_path / "run") == 0
    err = capsys.readouterr().err
    assert re.search(r"^rollouts\.problems +5 +option$", err, re.M)
    assert re.search(r"^sample: 10 in \d+ s$", err, re.M)


def test_settings_come_from_a_file_and_the_run_keeps_where_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same run as with options, but for what says where its settings came from; and it resumes."""
    assert train(*SCRIPTED, *SIZES, "--print-config", run=tmp_path / "none") == 0
    file = tmp_path / "run.toml"
    file.write_text(capsys.readouterr().out)
    assert not (tmp_path / "none").exists()
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "options") == 0
    assert train("--config", file, "--iterations", "1", run=tmp_path / "file") == 0
    assert train("--resume", "--set", "stopping.iterations=2", run=tmp_path / "file") == 0
    assert_same_run(tmp_path / "options", tmp_path / "file")
    configs = {}
    for name in ("options", "file"):
        with RunDirectory.open(tmp_path / name) as store:
            configs[name] = dict(store.config)
    sources = configs["file"].pop("sources")
    assert (sources["task"], sources["stopping.iterations"]) == ("--config", "option")
    assert "sources" not in configs["options"] and configs["file"].keys() == configs["options"].keys()
    capsys.readouterr()
    assert train("--resume", "--config", file, run=tmp_path / "file") == 2
    assert "--config applies to a new run" in refused(capsys)


def test_a_dry_run_estimates_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 iterations of 10 rollouts and 2 steps; a test and a dev problem in each of three tiers, twice each: 12."""
    monkeypatch.chdir(tmp_path)
    assert train(*SCRIPTED, *SIZES, "--dry-run", run=tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert err == "" and os.listdir(tmp_path) == []
    assert re.search(r"^rollouts\.problems +5 +option$", out, re.M)
    assert (
        "work, at most: iterations 2, rollouts 20, optimizer steps 4, greedy answers to test and dev problems 12" in out
    )
    assert re.search(r"^time: at most about \d+ s, ", out, re.M) and re.search(r"^memory: [\d,]+ MiB so far", out, re.M)
    assert re.search(r"^measured now: \d+ greedy answers, \d+ tokens in .* one optimizer step in", out, re.M)
    assert train(*SCRIPTED, *SIZES, "--dry-run", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sources"]["rollouts.problems"] == "option" and found["settings"]["rollouts.problems"] == 5
    assert cli.main(["evaluate", *SCRIPTED, "--n", "7", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert "n = 7\nwork, at least: 21 answers (zero-shot 21)\ntokens: about " in out and err == ""
    assert "smallest gain in accuracy found with 80 % power: 35.0 points, paired on 21 problems" in out
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("model", "said"), [("http://h/v1#m", "a server may charge for answers"), ("no/hub", "has to be downloaded first")]
)
def test_a_dry_run_asks_no_server_and_downloads_nothing(
    model: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*TOY, "--model", model, *SIZES, "--dry-run") == 0
    out = capsys.readouterr().out
    assert f"not measured, as {said}" in out or f"not measured, as the model {said}" in out
    assert "tokens: at most 384 generated (32 answers of up to 12)" in out


def test_a_dry_run_names_judges_and_what_they_may_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """The same 20 rollouts and 12 greedy answers, each graded three times with 256 tokens; no judge is loaded."""
    judge = ("--hold-out-evaluators", "judge:http://h/v1#m", "--judge-repeats", "3")
    assert train(*SCRIPTED, *SIZES, *judge, "--dry-run") == 0
    said = "judge:http://h/v1#m: at most 96 grades (32 answers, 3 grades each), 24,576 generated tokens"
    assert said in capsys.readouterr().out


def test_after_an_interruption_the_last_line_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    place = tmp_path / "my run"
    with monkeypatch.context() as patched:
        patched.setattr(train_module, "_iterated", interrupted)
        assert train(*SCRIPTED, *SIZES, run=place) == 130
    *_, said, last = capsys.readouterr().err.splitlines()
    assert said == "gce train: interrupted" and last == f"gce train --run-dir '{place}' --resume"
    assert cli.main(shlex.split(last)[1:]) == 0


def test_the_summary_on_standard_output_is_that_of_the_file_with_the_documented_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*SCRIPTED, *SIZES, "--json", run=tmp_path / "run") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert len(FIELDS) > 15 and set(summary) == FIELDS - {
        "rollouts_saved",
        "evaluators",
        "mean_reward",
        "shifts",
        "same_answer",
        "unearned",
    }  # Which it lacks.
    assert summary["format"] == 2
    for moment in ("before", "after"):
        assert {tier: found["n"] for tier, found in summary[moment].items()} == {"T0": 1, "T1": 1, "T2": 1}
        assert set(summary[moment]["T0"]) == {"n", "correct", "low", "high", "unreadable", "failed"}
    assert set(summary["first_correct"]) == {"T0", "T1"}, "tiers that training samples"
    assert summary["rollouts"] == 20 and summary["iterations"] == 2
    assert summary["config"]["task"] == "toy_task:ADDITION" and summary["config"]["preset"] == "small"
    assert summary["floors"]["always 0"]["T0"]["n"] == summary["heuristics"]["adds"]["T0"]["n"] == 1
    assert summary["peak_bytes"] > 2**20 and summary["seconds"] >= 0
    assert {"python", "machine", "system"} <= set(summary["versions"])


def test_records_are_open_to_any_sql_tool(tmp_path: Path) -> None:
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "run") == 0
    records = records_of(tmp_path / "run")
    assert {name: len(found) for name, found in records.items() if name != "traces"} == {
        "iterations": 2,
        "rollouts": 20,
        "evaluations": 2,
    }
    assert sum(record["admitted"] for record in records["rollouts"]) == len(records["traces"]) > 0


def test_without_test_and_dev_problems_a_run_is_short_and_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*SCRIPTED, *SIZES, "--test", "0", "--dev", "0", "--json", run=tmp_path / "run") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["before"] == summary["after"] == summary["floors"] == {}


def test_each_iteration_starts_from_the_base_again_where_asked_for(tmp_path: Path) -> None:
    """One update in the first iteration and two in the second, and the model keeps the last two alone."""
    updates = ("--updates", "1", "--batch", "1", "--restart")
    assert train(*SCRIPTED, *SIZES, *updates, run=tmp_path / "run") == 0
    with RunDirectory.open(tmp_path / "run") as store:
        assert [record["updates"] for record in store.read("iterations")] == [1, 2]
        _, state, _ = present(store.last())
    assert int(present(state).arrays["optimizer.step"].item()) == 2


def test_a_run_goes_to_a_folder_named_by_the_time_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(*SCRIPTED, *SIZES) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"\d{8}-\d{6}", run.name) and (run / "summary.json").is_file()


# What repeats


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_and_another_seed_other_problems(tmp_path: Path) -> None:
    for name, seed in (("one", "1"), ("again", "1"), ("other", "2")):
        assert train(*SCRIPTED, *SIZES, "--seed", seed, run=tmp_path / name) == 0
    assert_same_run(tmp_path / "one", tmp_path / "again")
    one, other = (records_of(tmp_path / name) for name in ("one", "other"))
    assert not {r["problem"] for r in one["rollouts"]} & {r["problem"] for r in other["rollouts"]}
    assert one["evaluations"][0]["tiers"]["T0"]["n"] == 1
    assert adapter_of(tmp_path / "one") != adapter_of(tmp_path / "other")


def test_a_run_of_one_iteration_that_is_resumed_with_more_is_one_run(tmp_path: Path) -> None:
    """All iterations look at dev problems, so that the last one is no exception."""
    sizes = (*SIZES, "--dev-every", "1")
    assert train(*SCRIPTED, *sizes, run=tmp_path / "whole") == 0
    assert train(*SCRIPTED, *sizes, "--iterations", "1", run=tmp_path / "halves") == 0
    assert train("--resume", "--iterations", "2", run=tmp_path / "halves") == 0
    assert_same_run(tmp_path / "whole", tmp_path / "halves")


def test_a_finished_run_that_is_resumed_only_writes_its_summary_again(tmp_path: Path) -> None:
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "run") == 0
    before, records = summary_of(tmp_path / "run"), records_of(tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    assert train("--resume", run=tmp_path / "run") == 0
    assert (summary_of(tmp_path / "run"), records_of(tmp_path / "run")) == (before, records)


def test_the_reference_s_recipe_runs_on_scheduling(tmp_path: Path) -> None:
    """21 problems, 4 answers each; the paper's tiers."""
    recipe = ("--recipe", "isopro", "--preset", "paper", "--iterations", "1", "--test", "0", "--dev", "0")
    assert train(*recipe, "--model", "test_cli_train:silent", run=tmp_path / "run") == 0
    summary = summary_of(tmp_path / "run")
    assert (summary["rollouts"], summary["correct_traces"], summary["updates"]) == (84, 0, 0)
    assert summary["first_correct"] == dict.fromkeys(["T0", "T1", "T2", "T3", "T4"])


def silent(_config: Any, _task: Any) -> Any:
    """A model that says nothing."""
    from gce.adapters.models.scripted import ScriptedModel

    return ScriptedModel(lambda request: "")


def listener(_config: Any, _task: Any) -> Any:
    """A model that can only be asked."""

    class Listener:
        def info(self) -> ModelInfo:
            return ModelInfo(identity="listener", capabilities=frozenset({"sample"}))

        def sample(self, requests: Any) -> Iterator[Any]:
            return iter(())

    return Listener()


def blockless(config: Any, task: Any) -> Any:
    """A model that samples and learns, and has no blocks to choose from."""
    from toy_task import careless

    inner = careless(config, task)
    methods = {name: staticmethod(getattr(inner, name)) for name in ("sample", "update", "state", "restore")}

    def info() -> ModelInfo:
        return ModelInfo(identity=inner.info().identity, capabilities=frozenset({"sample", "learn"}))

    methods["info"] = staticmethod(info)
    return type("Blockless", (), methods)()


def test_a_model_without_blocks_is_trained_and_resumed(tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    arguments = (*TOY, "--model", "test_cli_train:blockless", *SIZES, "--dev-every", "1")
    assert train(*arguments, run=whole) == 0
    assert train(*arguments, "--iterations", "1", run=halves) == 0
    assert train("--resume", "--iterations", "2", run=halves) == 0
    assert_same_run(whole, halves)
    assert summary_of(whole)["trainable_parameters"] == 0


# What is refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--task", "knitting"), "no task 'knitting'"),
        (("--task", "toy_task:MODULI"), "is dict, expected a gce.Task"),
        ((*SCRIPTED, "--preset", "hard"), "task addition has no preset 'hard': choose one of small"),
        (("--preset", "hard"), "task scheduling has no preset 'hard': choose one of grounded, paper"),
        ((*TOY, "--model", "toy_task:nothing"), "module toy_task has no 'nothing'"),
        ((*TOY, "--model", "test_cli_train:listener"), "cannot be trained, only evaluated: it does not learn"),
        (("--recipe", "best"), "no recipe 'best': choose one of gce, isopro"),
        ((*SCRIPTED, "--recipe", "isopro"), "recipe isopro samples tiers that addition does not have: T2, T3, T4"),
        ((*SCRIPTED, "--problems", "1"), "--problems of at least 2, one per training tier, got 1"),
        ((*SCRIPTED, "--admission", "all", "--algorithm", "weighted"), "it needs --algorithm raft"),
        ((*SCRIPTED, "--restart", "--algorithm", "grpo"), "restart configures the replay buffer, and grpo trains on"),
        ((*SCRIPTED, "--drop-solved", "--algorithm", "raft++"), "--drop-solved configures the replay buffer"),
        ((*SCRIPTED, "--ladder"), "preset small of task addition has no easier curriculum levels: leave out --ladder"),
        (("--recipe", "isopro", "--ladder"), "recipe isopro sets the number of problems of each tier: --ladder needs"),
        ((*SCRIPTED, "--bootstrap", "few-shot", "--rollouts", "1"), "--bootstrap needs --rollouts of at least 2"),
        ((*SCRIPTED, "--bootstrap", "few-shot", "--admission", "all"), "--bootstrap uses the verdicts"),
        ((*SCRIPTED, "--bootstrap", "few-shot", "--algorithm", "grpo"), "sampled from another prompt: use"),
        ((*SCRIPTED, "--bootstrap", "few-shot"), "task addition has no demonstrations of T0, T1: leave out"),
        ((*SCRIPTED, "--warm-up", "2"), "task addition has no demonstrations of T0, T1: leave out"),
        ((*SCRIPTED, "--warm-up", "2", "--restart"), "from the base model, without --warm-up: leave out one"),
        (
            (*SCRIPTED, "--warm-up-also", "small"),
            "configure the SFT warm-up: give the number of its steps with --warm-up",
        ),
        (
            (*SCRIPTED, "--warm-up-rate", "0.1"),
            "configure the SFT warm-up: give the number of its steps with --warm-up",
        ),
        (
            (*SCRIPTED, "--warm-up", "2", "--warm-up-rate", "0"),
            "--warm-up-rate: expected a finite number above 1e-12 and at most 1e+06, got '0'",
        ),
        ((*WORKED, "--warm-up", "2", "--warm-up-also", "hard"), "has no preset 'hard': choose one of small"),
        ((*WORKED, "--warm-up", "2", "--warm-up-also", "small"), "and small is the run's own: leave it out"),
        (
            (*WORKED, "--warm-up", "2", "--warm-up-also", "hard,hard"),
            "--warm-up-also: expected different values, got 'hard' twice",
        ),
        (
            (*SCRIPTED, "--learning-rate", "inf"),
            "--learning-rate: expected a finite number above 1e-12 and at most 1e+06, got 'inf'",
        ),
        ((*SCRIPTED, "--adapter", "there", "--restart"), "from the base model, without --adapter: leave out one"),
        ((*SCRIPTED, "--seed", "-1"), "--seed: expected a whole number from 0 to"),
        ((*SCRIPTED, "--max-tokens", "0"), "--max-tokens: expected a whole number from 1 to"),
    ],
)
def test_unknown_names_and_numbers_are_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert train(*arguments, run=tmp_path / "run") == 2
    assert said in refused(capsys)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("option", ["--sampling", "--weighting", "--targeting", "--device", "--tier"])
def test_an_unknown_choice_is_refused_with_the_usage(tmp_path: Path, option: str) -> None:
    assert train(*SCRIPTED, option, "best", run=tmp_path / "run") == 2
    assert os.listdir(tmp_path) == []


def test_an_unknown_model_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlx.core")
    assert train(*TOY, "--model", "./no-such-model", run=tmp_path / "run") == 2
    assert "no-such-model" in refused(capsys)
    (tmp_path / "empty").mkdir()
    assert train(*TOY, "--model", tmp_path / "empty", run=tmp_path / "run") == 2
    assert "config.json" in refused(capsys)
    assert os.listdir(tmp_path) == ["empty"]


def test_without_mlx_one_line_names_the_extra_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(("mlx", "gce.adapters.models"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("mlx", "mlx.core", "mlx_lm"):
        monkeypatch.setitem(sys.modules, name, None)
    model = shutil.copytree(shipped_model_path(), tmp_path / "model")
    assert train(*TOY, "--model", model, run=tmp_path / "run") == 2
    assert "mlx is not installed: run  pip install 'grounded-eval[" in refused(capsys)
    assert os.listdir(tmp_path) == ["model"]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink()
    }


def test_an_existing_run_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(*SCRIPTED, *SIZES, run=run) == 0
    before = snapshot(run)
    capsys.readouterr()
    assert train(*SCRIPTED, *SIZES, run=run) == 2
    assert "holds a run already: resume it, or give another directory" in refused(capsys)
    assert train(*TOY, "--model", "toy_task:nothing", run=run) == 2
    assert "holds a run already" in refused(capsys), "said before the model is loaded"
    assert snapshot(run) == before


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    assert train(*SCRIPTED, *SIZES, run=tmp_path) == 2
    assert "expected a new or empty directory" in refused(capsys)
    assert os.listdir(tmp_path) == ["thesis.txt"]


def test_a_run_cannot_lie_under_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "file" / "run") == 2
    assert "cannot start a run in" in refused(capsys)


def test_an_unwritable_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "file" / "run") == 2
    assert "Not a directory" in refused(capsys)
    with unwritable() as closed:
        assert train(*SCRIPTED, *SIZES, run=closed / "run") == 2
    assert "closed/run: Permission denied" in refused(capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--resume", "--seed", "1"), "a resumed run keeps its settings: leave out --seed"),
        (("--resume", "--learning-rate", "1", "--max-tokens", "9"), "leave out --learning-rate, --max-tokens"),
        (("--resume", "--iterations", "-1"), "--iterations: expected a whole number from 0 to"),
        (("--resume", "--iterations", "0"), "--iterations must be at least 1 without a warm-up (--warm-up), got 0"),
    ],
)
def test_a_resumed_run_keeps_its_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    run = tmp_path / "run"
    assert train(*SCRIPTED, *SIZES, run=run) == 0
    before = snapshot(run)
    capsys.readouterr()
    assert train(*arguments, run=run) == 2
    assert said in refused(capsys)
    assert snapshot(run) == before


def test_to_resume_there_must_be_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--resume") == 2
    assert "--resume needs --run-dir" in refused(capsys)
    assert train("--resume", run=tmp_path / "nothing") == 2
    assert "expected a run directory, found no run.sqlite in" in refused(capsys)
    assert os.listdir(tmp_path) == []
    with RunDirectory.create(tmp_path / "theirs", {"colour": "red"}):
        pass
    assert train("--resume", run=tmp_path / "theirs") == 2
    assert "expected a run that gce train made" in refused(capsys)


@pytest.mark.parametrize("name", ["adapters.safetensors", "optimizer.safetensors", "state.json"])
def test_a_corrupt_checkpoint_is_one_line_and_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run = tmp_path / "run"
    assert train(*SCRIPTED, *SIZES, run=run) == 0
    file = run / "checkpoints" / "last" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    before = snapshot(run)
    capsys.readouterr()
    assert train("--resume", "--iterations", "3", run=run) == 2
    assert name in refused(capsys)
    assert snapshot(run) == before


# A real model, tiny and random


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of four blocks whose words are the toy task's numbers."""
    pytest.importorskip("mlx.core")
    from tiny_llama import write_tiny_llama

    return write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny")


Trained = Callable[..., Path]


@pytest.fixture(scope="module")
def trained(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A finished run of the tiny model with these options, made once."""
    home = tmp_path_factory.mktemp("runs")

    def run(*options: str) -> Path:
        path = home / ("".join(options) or "default")
        if not path.exists():
            assert train(*TOY, "--model", tiny, *SIZES, "--layers", "2", *options, run=path) == 0
        return path

    return run


@pytest.mark.slow
def test_a_tiny_model_learns_something(trained: Trained) -> None:
    """Or the tests below would compare runs in which nothing happened."""
    summary = summary_of(trained())
    assert summary["updates"] >= 2 and summary["correct_traces"] > 0
    assert 0 < summary["trainable_share"] < 1 and summary["trainable_parameters"] > 0
    blocks = {name.split(".")[2] for name in summary["adapted_modules"]}
    assert len(blocks) == 2


@pytest.mark.slow
def test_a_run_may_begin_with_what_an_earlier_one_learned(
    trained: Trained, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks, rank and scale are the adapter's, the test before is the earlier run's test after, and it is resumed."""
    earlier, adapter = trained("--rank", "3"), tmp_path / "adapter"
    shutil.copytree(earlier / "checkpoints" / "last", adapter)
    arguments = (*TOY, "--model", tiny, *SIZES, "--dev-every", "1", "--adapter", adapter)
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert train(*arguments, run=whole) == 0
    assert train(*arguments, "--iterations", "1", run=halves) == 0
    assert train("--resume", "--iterations", "2", run=halves) == 0
    assert_same_run(whole, halves)
    assert records_of(whole)["evaluations"][0]["tiers"] == summary_of(earlier)["after"]
    assert summary_of(whole)["adapted_modules"] == summary_of(earlier)["adapted_modules"]
    assert adapter_of(whole) != adapter_of(earlier)
    shutil.rmtree(adapter)
    shutil.copytree(whole / "checkpoints" / "last", adapter)
    capsys.readouterr()
    assert train("--resume", "--discard-after", "1", "--iterations", "3", run=halves) == 2
    assert len(records_of(halves)["iterations"]) == 2, "nothing is lost for a command that is refused"
    assert "is not the adapter that the run began with: restore that one" in refused(capsys)
    assert train(*arguments[:-1], tmp_path / "nothing", run=tmp_path / "none") == 2
    assert "cannot read" in refused(capsys) and not (tmp_path / "none").exists()


def test_a_run_goes_on_with_the_worked_examples_that_it_began_with_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*WORKED, *SIZES, "--warm-up", "2", run=tmp_path / "run") == 0
    capsys.readouterr()
    monkeypatch.setattr(
        toy_task,
        "WORKED",
        evolve(toy_task.WORKED, teaching=Teaching(demonstration=lambda *given: f"so it {toy_task.by_hand(*given)}")),
    )
    assert train("--resume", "--iterations", "3", run=tmp_path / "run") == 2
    assert "demonstrations differ from those that the run began with" in refused(capsys)


def test_a_warm_up_alone_learns_from_the_worked_examples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = (*SIZES, "--iterations", "0", "--warm-up")
    assert train(*WORKED, *sizes, "0", run=tmp_path / "none") == 2
    assert "--iterations must be at least 1 without a warm-up (--warm-up), got 0" in refused(capsys)
    assert train(*WORKED, *sizes, "3", run=tmp_path / "run") == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["updates"], summary["rollouts"], summary["stopped"]) == (
        3,
        0,
        "all iterations after the warm-up done",
    )
    assert train("--resume", "--iterations", "1", run=tmp_path / "run") == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rollouts"] == 10


@pytest.mark.slow
def test_another_process_with_other_hashes_ends_with_the_same_bytes(
    trained: Trained, tiny: Path, tmp_path: Path
) -> None:
    arguments = ("train", *TOY, "--model", tiny, *SIZES, "--layers", "2", "--run-dir", tmp_path / "run")
    ran = in_a_process("", *arguments, hash_seed=1)
    assert ran.returncode == 0, ran.stderr
    assert_same_run(trained(), tmp_path / "run")


@pytest.mark.slow
def test_a_killed_process_is_resumed_to_the_same_bytes(trained: Trained, tiny: Path, tmp_path: Path) -> None:
    """Killed for good, by a signal that nothing can catch, in the middle of the second iteration's rollouts."""
    run = tmp_path / "run"
    arguments = ("train", *TOY, "--model", tiny, *SIZES, "--layers", "2", "--run-dir", run)
    code = (
        "import os, signal, gce.app.training.sampling as rollouts\n"
        "hold, count = rollouts.hold, [0]\n"
        "def counted(*given, on_end, **more):\n"
        "    def ended(*conversation):\n"
        "        count[0] += 1\n"
        "        if count[0] == 13: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return on_end(*conversation)\n"
        "    return hold(*given, on_end=ended, **more)\n"
        "rollouts.hold = counted"
    )
    ran = in_a_process(code, *arguments, hash_seed=2)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    assert not (run / "summary.json").exists()
    assert len(records_of(run)["iterations"]) == 1
    assert train("--resume", run=run) == 0
    assert_same_run(trained(), run)


def test_the_test_before_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a slow model it takes an hour; cut off right after it, before anything is committed."""
    taken = []
    measured = train_module._test

    def counting(*given: Any) -> Any:
        taken.append(given[2])
        return measured(*given)

    def cut(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_module, "_test", counting)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(train_module, "iterate", cut)
        train_module.train(with_recipe("gce", SCRIPTED_SETTINGS), run=tmp_path / "run")
    assert train("--resume", run=tmp_path / "run") == 0
    assert taken == ["before", "after"]
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "whole") == 0
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_without_steps_to_check_there_is_no_learning_from_true_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for task in ("toy_task:ADDITION", "scheduling-answer-only"):
        arguments = ("--task", task, "--model", "toy_task:careless", "--admission", "reasoned")
        assert train(*arguments, run=tmp_path / "run") == 2
        assert "cannot check written steps: --admission reasoned needs a task that can" in refused(capsys)


def test_going_back_to_an_iteration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert train(*SCRIPTED, *SIZES, run=run) == 0
    assert train(*SCRIPTED, *SIZES, run=tmp_path / "whole") == 0
    assert train("--resume", "--discard-after", "1", run=run) == 0
    assert_same_run(tmp_path / "whole", run)
    capsys.readouterr()
    assert train("--resume", "--discard-after", "7", run=run) == 2
    assert "expected an iteration that is intact and whose checkpoint is kept, 1, 2, got 7" in refused(capsys)
    before = snapshot(run)
    assert train("--resume", "--discard-after", "1", "--rank", "4", run=run) == 2
    assert "a resumed run keeps its settings: leave out --rank" in refused(capsys)
    assert snapshot(run) == before, "nothing is lost for a command that is refused"
    assert train(*SCRIPTED, "--discard-after", "1", run=tmp_path / "new") == 2
    assert "--discard-after needs --resume" in refused(capsys)


def test_another_model_under_the_same_name_is_refused_before_anything_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script, run = tmp_path / "script.jsonl", tmp_path / "run"
    script.write_text('{"text": ["adds w1", "adds w2"]}')
    assert train(*TOY, "--model", "scripted:script.jsonl", *SIZES, run=run) == 0
    before = snapshot(run)
    capsys.readouterr()
    back = ("--resume", "--discard-after", "1")
    script.write_text('{"text": "adds w0"}')
    assert train(*back, run=run) == 2
    assert "scripted:script.jsonl is not the model that the run began with: its weights differ" in refused(capsys)
    assert cli.main(["validity", str(run)]) == 2
    assert "is not the model that the run ended with" in capsys.readouterr().err
    script.unlink()
    assert train(*back, run=run) == 2
    assert "cannot read script.jsonl: No such file" in refused(capsys)
    assert snapshot(run) == before


@pytest.mark.slow
def test_evaluation_does_not_disturb_training(trained: Trained) -> None:
    blind = trained("--dev", "0", "--test", "0")
    assert adapter_of(trained()) == adapter_of(blind)
    looking, without = records_of(trained()), records_of(blind)
    assert looking["rollouts"] == without["rollouts"]
    assert any(record["dev"] for record in looking["iterations"])


@pytest.mark.slow
def test_another_seed_gives_another_adapter(trained: Trained) -> None:
    other = trained("--seed", "1")
    assert adapter_of(trained()) != adapter_of(other)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--targeting", "random", "--seed", "1"), ("--targeting", "all")])
def test_plain_mlx_lm_loads_the_last_checkpoint_and_gives_the_same_logits(
    trained: Trained, tiny: Path, options: tuple[str, ...]
) -> None:
    """Compared where the run's model scores: log-probabilities of 40 words in turn, within 1e-4."""
    mx, mlx_lm = pytest.importorskip("mlx.core"), pytest.importorskip("mlx_lm")
    from gce.adapters.models.backends.mlx.model import LoraSettings, load_mlx_model
    from gce.domain.problems import Message

    run = trained(*options)
    with RunDirectory.open(run) as store:
        _, state, _ = present(store.last())
    model = load_mlx_model(tiny, lora=LoraSettings(rank=16, scale=2.0))
    model.restore(present(state))
    info = model.info()
    assert info.identity == summary_of(run)["policy"]
    assert set(info.adapted_modules) == set(summary_of(run)["adapted_modules"])
    assert len(info.adapted_layers) == (4 if "all" in options else 2)

    plain, *_ = mlx_lm.load(str(tiny), adapter_path=str(run / "checkpoints" / "last"))
    messages = (Message("user", "w3 w4 w2"),)
    words = " ".join(f"w{number}" for number in range(40))
    prompt, written = model.prompt_tokens(messages), model.text_tokens(words, end=True)
    tokens = mx.array([*prompt, *written])
    logits = plain(tokens[None, :-1])[0, len(prompt) - 1 :].astype(mx.float32)
    expected = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    expected = np.array(mx.take_along_axis(expected, tokens[len(prompt) :, None], axis=-1))[:, 0]
    np.testing.assert_allclose(model.log_probabilities(messages, words), expected, atol=1e-4)
    base = np.array(model.log_probabilities(messages, words, adapter=False))
    assert np.abs(base - expected).max() > 1e-3, "the adapter makes a difference"


def test_random_blocks_need_not_be_neighbours_and_follow_the_seed(trained: Trained) -> None:
    """Seed 1 draws two blocks that are not the last two, so that `num_layers` alone could not name them."""
    modules = summary_of(trained("--targeting", "random", "--seed", "1"))["adapted_modules"]
    blocks = sorted({int(name.split(".")[2]) for name in modules})
    assert len(blocks) == 2 and blocks != [2, 3]


def test_evaluate_measures_what_a_run_learned(trained: Trained, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same test problem a tier as the run's own table; and the base without the adapter."""
    run = trained()
    arguments = ["evaluate", *TOY, "--model", str(tiny), "--n", "1", "--max-tokens", "12", "--json"]
    for extra, moment in (([], "before"), (["--adapter", str(run / "checkpoints" / "last")], "after")):
        capsys.readouterr()
        assert cli.main([*arguments, *extra]) == 0
        (mode,) = json.loads(capsys.readouterr().out)["modes"].values()
        assert mode["tiers"] == summary_of(run)[moment]


def test_modes_with_and_without_the_adapter_in_one_go(
    trained: Trained, tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever their order, the base is asked before the adapter is put on, and rows come as they were asked for."""
    run = trained()
    arguments = ["evaluate", *TOY, "--model", str(tiny), "--n", "2", "--max-tokens", "12", "--json"]
    adapter = ["--adapter", str(run / "checkpoints" / "last")]
    capsys.readouterr()
    assert cli.main([*arguments, *adapter, "--modes", "trained,zero-shot,trained-simulate,multi-turn"]) == 0
    found = json.loads(capsys.readouterr().out)["modes"]
    assert list(found) == ["trained", "zero-shot", "trained-simulate", "multi-turn"]
    assert found["zero-shot"]["against"] is None and found["trained"]["against"]["gained"] >= 0
    assert found["multi-turn"]["attempts"]["trajectory"]["n"] == 6
    for extra, mode in (([], "zero-shot"), (adapter, "trained")):
        assert cli.main([*arguments, *extra]) == 0
        assert json.loads(capsys.readouterr().out)["modes"][mode]["tiers"] == found[mode]["tiers"]


def test_an_adapter_that_is_damaged_or_of_another_model_is_one_line(
    trained: Trained, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tiny_llama import write_tiny_llama

    last = trained() / "checkpoints" / "last"
    small = write_tiny_llama(tmp_path / "small", hidden=16)
    shutil.copytree(last, tmp_path / "damaged")
    (tmp_path / "damaged" / "adapters.safetensors").write_bytes(b"\0" * 7)
    for model, adapter, said in (
        (small, last, "was made for another model than"),
        (tiny, tmp_path / "damaged", "is damaged"),
    ):
        capsys.readouterr()
        assert cli.main(["evaluate", *TOY, "--n", "1", "--model", str(model), "--adapter", str(adapter)]) == 2
        out, err = capsys.readouterr()
        assert out == "" and said in err and err.count("\n") == 1


@pytest.mark.slow
def test_a_run_is_not_resumed_with_another_model_of_the_same_name(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tiny_llama import write_tiny_llama

    base = shutil.copytree(tiny, tmp_path / "base")
    sizes = (*SIZES, "--iterations", "1", "--test", "0", "--dev", "0")
    assert train(*TOY, "--model", base, *sizes, run=tmp_path / "run") == 0
    write_tiny_llama(base, hidden=16)
    capsys.readouterr()
    assert train("--resume", "--iterations", "2", run=tmp_path / "run") == 2
    out, err = capsys.readouterr()
    assert out == "" and "is not the model that the run began with" in err.splitlines()[-1]


def test_an_algorithm_with_ratios_needs_log_probabilities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = (*TOY, "--model", "toy_task:bare", *SIZES)
    assert train(*bare, "--algorithm", "grpo", run=tmp_path / "grpo") == 2
    assert "grpo needs log-probabilities of sampled tokens" in capsys.readouterr().err.splitlines()[-1]
    assert train(*bare, run=tmp_path / "raft") == 0
