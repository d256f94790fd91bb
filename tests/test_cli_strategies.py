"""`gce train --strategy` from the command line to the files it leaves, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli_train import SCRIPTED, SIZES, WORKED, assert_same_run, records_of, refused, summary_of, train

from gce.app import cli


@pytest.mark.slow
def test_a_run_of_conversations_keeps_its_strategy_and_repeats_when_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert train(*SCRIPTED, *SIZES, "--strategy", "multi-turn", run=whole) == 0
    assert train(*SCRIPTED, *SIZES, "--strategy", "multi-turn", "--iterations", "1", run=halves) == 0
    assert train("--resume", "--iterations", "2", run=halves) == 0
    assert_same_run(whole, halves)
    assert summary_of(whole)["config"]["rollouts"]["strategy"] == "multi-turn"
    records = records_of(whole)
    assert {len(trace["turns"]) for trace in records["traces"]} > {2}
    assert all(rollout["replies"] <= 3 and rollout["tokens"] for rollout in records["rollouts"])
    assert cli.main(["traces", str(whole), "--to", "hf", "--out", str(tmp_path / "data")]) == 0
    capsys.readouterr()
    assert cli.main(["traces", str(whole), "--to", "hf", "--all", "--out", str(tmp_path / "all")]) == 2
    assert "keeps the conversations of admitted traces alone: leave out --all" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["few-shot", "own_strategies:BRIEF", "own_strategies:VOTE"])
def test_other_strategies_train_too(strategy: str, tmp_path: Path) -> None:
    assert train(*WORKED, *SIZES, "--shots", "1", "--strategy", strategy, run=tmp_path) == 0
    traces = records_of(tmp_path)["traces"]
    assert {len(trace["turns"]) for trace in traces} <= ({4} if strategy == "few-shot" else {2})
    replies = {rollout["replies"] for rollout in records_of(tmp_path)["rollouts"]}
    assert replies == {3 if strategy.endswith("VOTE") else 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--strategy", "few-shot"), "task addition has no demonstrations of T0, T1: strategy few-shot needs them"),
        (("--strategy", "own_strategies:DEBATE"), "strategy debate needs a model for the role 'opponent', got none"),
        (("--strategy", "own_strategies:WITH_TOOL"), "strategy with-tool needs an environment, got none"),
        (("--strategy", "own_strategies:calculator"), "expected a gce.Strategy"),
        (("--strategy", "sideways"), "--strategy"),
        (("--strategy", "trained"), "--strategy"),
        (
            ("--strategy", "multi-turn", "--bootstrap", "few-shot"),
            "--bootstrap adds few-shot examples to a zero-shot prompt: it needs --strategy zero-shot",
        ),
    ],
)
def test_what_a_training_run_has_not_is_refused(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(*SCRIPTED, *SIZES, *arguments, run=tmp_path / "run") == 2
    assert said in refused(capsys)
    assert not (tmp_path / "run").exists()
