"""`gce import`: files of ISOPro's form become configurations that read back, tables with intervals, and figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from gce.adapters.datasets.isopro_results import read_isopro
from gce.app.cli import main
from gce.app.settings.config_file import read_config
from gce.app.settings.values import settings_from
from gce.errors import BadInput

TIERS = (
    *("tier0_warmup", "tier1_sequencing", "tier2_resource_alloc", "tier3_deadline_pressure"),
    *("tier4_pairwise", "tier5_full_composition"),
)
CONFIG = {"iterations": 2, "k_samples": 4, "tasks_per_tier": 3, "lora_rank": 16, "lora_layers": 8}


def shares(*values: float) -> dict[str, float]:
    return dict(zip(TIERS, values, strict=True))


def history(sampled: int = 84) -> list[dict[str, Any]]:
    one = {"n_rollouts": sampled, "n_correct": 9, "tier_accuracies": shares(1.0, 0.5, 0, 0, 0, 0)}
    return [
        {**one, "iteration": n, "buffer_composition": {TIERS[0]: 8 * n}, "train_loss": 0.5 / n, "wall_clock_s": 440.5}
        for n in (1, 2)
    ]


ON_MLX = {
    "experiment": "isopro_mlx",
    "model": "Qwen/Qwen2.5-3B-Instruct",
    "config": {**CONFIG, "lr": 1e-4, "seed": 42, "mystery": "x\n[optimizer]"},
    "baseline": shares(1.0, 0, 0, 0, 0, 0),
    "final": shares(1.0, 0.6667, 0, 0.25, 0.1667, 0),
    "history": history(),
}
ON_OLLAMA = {
    "experiment": {**CONFIG, "hf_model": "Qwen/Qwen2.5-3B-Instruct", "seed": 7, "eval_problems_per_tier": 5},
    "isopro_loop": {"history": history(sampled=140)},
}
GRPO: dict[str, Any] = {
    "experiment": {
        **{"method": "grpo_lora", "model_id": "m/x", "domain": "scheduling", "seed": 1, "n_iterations": 6},
        **{"steps_per_iteration": 14, "group_size": 4, "learning_rate": 5e-6},
    },
    "isopro_loop": {"history": history(sampled=56)},
}
MBPP = {"experiment": {**CONFIG, "domain": "mbpp", "seed": 1}, "isopro_loop": {"history": history()}}
ABLATIONS: dict[str, Any] = {
    "experiment": "ablation_study",
    "model": "Qwen/Qwen2.5-3B-Instruct",
    "config": {**CONFIG, "seeds": [42]},
    "runs": [
        {
            **{"ablation": name, "seed": 42, "loss_curve": [0.4, 0.3]},
            **{"baseline_accs": shares(1.0, 0, 0, 0, 0, 0), "final_accs": shares(1.0, 1 / 3, 0, 2 / 3, 0, 0)},
            "buffer_composition": {TIERS[0]: 5, "tier4_pairwise_a_b": 1, "tier4_pairwise_b_c": 2},
        }
        for name in ("Full ISOPro", "No Chain-of-Thought", "No Buffer Accumulation")
    ],
}


def written(folder: Path, data: Any, name: str = "experiment_results.json") -> Path:
    (folder / name).write_text(json.dumps(data))
    return folder


def test_a_run_becomes_a_configuration_that_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = written(tmp_path, ON_MLX, "isopro_results.json"), tmp_path / "out"
    assert main(["import", "isopro", str(folder), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "isopro: scheduling, Qwen/Qwen2.5-3B-Instruct, seed 42, 2 iterations" in said.out
    assert "67 (21-94)" in said.out, "two of three, by Wilson"
    assert "17 (3-56)" in said.out, "one of six: T4 has problems of three kinds"
    assert "25 (n is another)" in said.out, "no count out of three"
    assert "not taken over: mystery = x [optimizer]" in said.out
    assert f"gce train --config {out / 'isopro.toml'} --dry-run" in said.err
    settings = settings_from(read_config(out / "isopro.toml"))
    assert (settings.preset, settings.seed, settings.model.name) == ("paper", 42, "Qwen/Qwen2.5-3B-Instruct")
    assert (settings.lora.rank, settings.lora.layers, settings.optimizer.learning_rate) == (16, 8, 1e-4)
    assert settings.rollouts.problems_by_tier == {"T0": 3, "T1": 3, "T2": 3, "T3": 3, "T4": 9}
    assert (settings.rollouts.samples, settings.stopping.iterations, settings.optimizer.batch) == (4, 2, 1)
    with open(out / "iterations.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 6 + 2 * 6
    (found,) = [row for row in rows if (row["moment"], row["tier"]) == ("iteration 2", "T0")]
    assert (found["accuracy"], found["buffer"], found["loss"], found["seconds"]) == ("1.0", "16", "0.25", "440.5")


def test_what_a_run_sampled_says_how_many_problems_it_had(tmp_path: Path) -> None:
    (run,) = read_isopro(written(tmp_path, ON_OLLAMA))
    assert run.settings["rollouts.problems_by_tier"]["T0"] == 5 and run.settings["seed"] == 7
    assert (run.tested, run.tested_is_stored, run.problems_tested("T4")) == (5, True, 9)
    assert not run.before and not run.after and len(run.iterations) == 2


def test_runs_of_grpo_and_of_other_tasks_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["import", "isopro", str(written(tmp_path, GRPO)), "--out", str(out)]) == 0
    settings = settings_from(read_config(out / "experiment.toml"))
    assert (settings.objective.algorithm, settings.rollouts.problems, settings.rollouts.samples) == ("grpo", 14, 4)
    assert settings.rollouts.problems_by_tier is None and "no test before and after" in capsys.readouterr().out
    assert main(["import", "isopro", str(written(tmp_path, MBPP)), "--out", str(tmp_path / "other")]) == 0
    assert "no configuration: gce has no task with the problems of mbpp" in capsys.readouterr().out
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["iterations.csv"]


def test_ablations_become_a_configuration_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    folder = written(tmp_path, ABLATIONS, "ablation_results.json")
    assert main(["import", "isopro", str(folder), "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in found] == ["full-isopro-42", "no-chain-of-thought-42", "no-buffer-accumulation-42"]
    assert found[1]["lost"] == ["condition No Chain-of-Thought"] and found[0]["lost"] == []
    assert found[0]["iterations"][1]["buffer"] == {"T0": 5, "T4": 3}
    assert not settings_from(read_config(out / "no-buffer-accumulation-42.toml")).buffer.accumulate


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "isopro_results.json"),
        ("[]", "is not as ISOPro writes it"),
        ('{"history": [{"iteration": 1}]}', "KeyError: 'tasks_per_tier'"),
        ('{"experiment": {}, "multiturn": {}}', "expected a training run"),
        (json.dumps({**ON_MLX, "final": {"other": 1}}), "expected a tier such as tier0_warmup, got 'other'"),
        (json.dumps({**ON_MLX, "config": {**CONFIG, "k_samples": 0}}), "is not as ISOPro writes it"),
        (json.dumps({**ON_MLX, "final": shares(2.0, 0, 0, 0, 0, 0)}), "expected shares in [0, 1], got 2.0"),
        (json.dumps({**ABLATIONS, "runs": [{**ABLATIONS["runs"][0], "seed": "../x"}]}), "invalid literal"),
        (json.dumps({**ABLATIONS, "runs": ABLATIONS["runs"][:1] * 2}), "expected one run per condition and seed"),
        (json.dumps({**ON_MLX, "config": {**CONFIG, "lora_rank": -1}}), "isopro: "),
    ],
)
def test_other_files_are_refused_in_one_line_and_nothing_is_written(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "isopro_results.json").write_text(content)
    assert main(["import", "isopro", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line and not (tmp_path / "out").exists()


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"found none in"):
        read_isopro(tmp_path)
