"""Another place for runs is one line of the table of stores: every command works on runs that live in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gce.adapters.runs.memory_store import MemoryRuns
from gce.app import cli
from gce.app.wiring import runs as wiring
from gce.domain.serialization import to_plain

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "5", "--rollouts", "2", "--iterations", "2", "--updates", "2", "--dev", "3", "--test", "4")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MemoryRuns:
    """Where the names of runs begin with `memory:`, and nothing is written but what a command is asked to write."""
    runs = MemoryRuns()
    monkeypatch.setattr(wiring, "STORES", {"memory:": runs, **wiring.STORES})
    monkeypatch.chdir(tmp_path)
    return runs


def gce(*arguments: str) -> int:
    return cli.main(list(arguments))


def test_every_command_works_on_a_run_that_is_no_directory(
    memory: MemoryRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "memory:run"
    assert gce("train", *TOY, *SIZES, "--run-dir", run) == 0
    assert gce("train", "--run-dir", run, "--resume", "--iterations", "3") == 0
    assert gce("train", "--run-dir", run, "--resume", "--discard-after", "2", "--iterations", "2") == 0
    assert memory.find(run) == {run: True}
    assert gce("train", *TOY, *SIZES, "--run-dir", run) == 2
    assert gce("validity", run, "--n", "2") == 0
    assert gce("rescore", run) == 0
    assert gce("evaluate", *TOY, "--n", "2", "--adapter", run) == 0
    assert gce("traces", run, "--out", "traces.jsonl") == 0
    capsys.readouterr()
    assert gce("report", run, "--json") == 0
    titles = [section["title"] for section in json.loads(capsys.readouterr().out)]
    assert titles[0] == "Result" and "Validity card" in titles
    assert [path.name for path in tmp_path.iterdir()] == ["traces.jsonl"]


def test_a_study_goes_on_wherever_its_runs_are_kept(memory: MemoryRuns, capsys: pytest.CaptureFixture[str]) -> None:
    study = ["ablate", *TOY, *SIZES, "--dir", "memory:study", "--seeds", "0", "--conditions"]
    assert gce(*study, "full") == 0
    assert gce(*study, "full,shuffled") == 0
    assert memory.find("memory:study") == {f"memory:study/{name}/seed-0": True for name in ("full", "shuffled")}
    capsys.readouterr()
    assert gce("report", "memory:study", "--json") == 0
    assert "Study: ablations" in capsys.readouterr().out


def test_a_run_in_memory_is_the_same_as_in_a_directory(memory: MemoryRuns, tmp_path: Path) -> None:
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    names = ("memory:run", str(tmp_path / "run"))
    found = []
    for name in names:
        assert gce("train", *TOY, *SIZES, "--run-dir", name) == 0
        with wiring.open_run(name) as run:
            streams = {stream: list(run.read(stream)) for stream in ("rollouts", "traces")}
            state = run.checkpoint()[1]
            arrays = {array: values.tolist() for array, values in state.arrays.items()}
            found.append((run.config, streams, run.answers("test-after"), arrays, to_plain(dict(state.settings))))
    assert found[0] == found[1]
