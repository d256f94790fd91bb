"""Experiment trackers: every one keeps the port's contract without a network, and none can end a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from listening import Listening

import gce
from gce.adapters.runs.memory_store import MemoryRuns
from gce.adapters.trackers.memory import MemoryTracker
from gce.app import cli
from gce.app.terminal import Silent
from gce.app.wiring.runs import open_run
from gce.app.wiring.trackers import TRACKERS, find_tracker, folder_of, identity_of
from gce.domain.measurements import Interval, IterationRecord, MeanReward, TierCount, TrainingMetrics
from gce.domain.tracking import iteration_values, plain_settings, result_values
from gce.errors import BadInput, MissingExtra
from gce.ports.tracker import Tracker
from gce.testing.contracts.tracker import check_tracker

Values = dict[str, dict[int, float]]
HERE = "test_trackers"
TOY = ("train", "--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SMALL: dict[str, Any] = {
    "task": toy_task.ADDITION,
    "stopping": {"iterations": 2},
    "evaluation": {"test": 2, "dev": 1},
    "rollouts": {"problems": 2, "samples": 2},
}


# The contract


def test_the_tracker_in_memory_keeps_the_contract(tmp_path: Path) -> None:
    kept = MemoryTracker()
    check_tracker(lambda: kept, lambda: kept.values, str(tmp_path))
    assert kept.ended == [False, True]


@pytest.mark.parametrize("broken", ["forgets", "keeps the first"])
def test_the_contract_finds_a_tracker_that_loses_numbers(broken: str, tmp_path: Path) -> None:
    class Broken(MemoryTracker):
        def log(self, step: int, values: Any) -> None:
            for name, value in values.items():
                of_name = self.values.setdefault(name, {})
                if broken == "forgets":
                    of_name.clear()
                of_name.setdefault(step, value)

    kept = Broken()
    with pytest.raises(AssertionError):
        check_tracker(lambda: kept, lambda: kept.values, str(tmp_path))


def test_event_files_are_what_tensorboard_reads(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read() -> Values:
        events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
        (settings,) = {bytes(each.tensor_proto.string_val[0]) for each in events.Tensors("settings")}
        assert b"| optimizer.learning_rate | 0.25 |" in settings
        return {name: {each.step: each.value for each in events.Scalars(name)} for name in events.Tags()["scalars"]}

    check_tracker(TRACKERS["tensorboard"], read, str(tmp_path))


@pytest.mark.slow
def test_an_mlflow_run_is_found_again_by_its_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    read = """
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient()
(run,) = client.search_runs([client.get_experiment_by_name("gce").experiment_id])
assert run.info.status == "FINISHED" and run.data.params["optimizer.learning_rate"] == "0.25", run
found = {}
for name in run.data.metrics:
    history = client.get_metric_history(run.info.run_id, name)
    found[name] = [[each.step, each.timestamp, each.value] for each in history]
print(json.dumps(found))
"""
    in_a_process("mlflow", tmp_path, read)


@pytest.mark.slow
def test_a_trackio_run_is_found_again_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    read = """
import json
from trackio.sqlite_storage import SQLiteStorage
(name,) = SQLiteStorage.get_runs("gce")
assert name == "a run-00c0ffee", name
assert SQLiteStorage.get_run_config("gce", name)["optimizer.learning_rate"] == 0.25
found = {}
for row in SQLiteStorage.get_logs("gce", name):
    for metric, value in row.items():
        if metric not in ("step", "timestamp"):
            found.setdefault(metric, []).append([row["step"], row["timestamp"], value])
print(json.dumps(found))
"""
    in_a_process("trackio", tmp_path, read)


@pytest.mark.slow
def test_a_wandb_run_that_is_offline_is_kept_in_the_run_s_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
    read = f"""
import json, pathlib
from wandb.proto.wandb_internal_pb2 import Record
found = {{}}
for file in sorted(pathlib.Path({str(tmp_path)!r}).glob("wandb/offline-run-*/run-00c0ffee00c0ffee.wandb")):
    data, whole = file.read_bytes()[7:], b""
    while data:  # As LevelDB's log: checksum, length, and whether the record begins or ends here.
        length, kind = int.from_bytes(data[4:6], "little"), data[6]
        whole, data = whole + data[7:7 + length], data[7 + length:]
        if kind in (1, 4):
            record, whole = Record.FromString(whole), b""
            row = {{item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}}
            for name, value in row.items():
                if "iteration" in row and not name.startswith("_"):
                    found.setdefault(name, []).append([row["iteration"], row["_timestamp"], value])
print(json.dumps(found))
"""
    in_a_process("wandb", tmp_path, read)


def in_a_process(name: str, folder: Path, read: str) -> None:
    """The contract in a process of its own, for such packages start threads, warn and change what is global.

    `read` prints, by name of the metric, rows of step, time and value as JSON.
    """
    script = f"""
import json, subprocess, sys
from gce.app.wiring.trackers import TRACKERS
from gce.testing.contracts.tracker import check_tracker

def read():
    done = subprocess.run([sys.executable, "-c", {read!r}], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    in_time = {{name: sorted(rows, key=lambda row: row[1]) for name, rows in found.items()}}
    return {{name: {{step: value for step, _, value in rows}} for name, rows in in_time.items()}}

check_tracker(TRACKERS[{name!r}], read, {str(folder)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "", "standard output belongs to gce train --json"


# Names


def own() -> Tracker:
    return MemoryTracker()


def no_tracker() -> int:
    return 3


def test_a_name_stands_for_a_tracker_of_the_table_or_for_one_s_own() -> None:
    assert isinstance(find_tracker(f"{HERE}:own"), MemoryTracker)
    kept = MemoryTracker()
    assert find_tracker(kept) is kept


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (f"{HERE}:no_tracker", "is int, expected a tracker (see gce.ports.tracker)"),
        (f"{HERE}:HERE", "is str, expected a function"),
        (f"{HERE}:nothing", "has no 'nothing' (given as the tracker"),
    ],
)
def test_what_is_no_tracker_is_said_in_one_line(name: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_tracker(name)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_one_line_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    for module in [each for each in sys.modules if each.startswith(f"{name}.")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=name):
        find_tracker(name)
    run = tmp_path / "run"
    status = cli.main([*TOY, "--track", name, "--run-dir", str(run)])
    out, err = capsys.readouterr()
    assert (status, out, run.exists()) == (2, "", False)
    assert err == f"gce train: {name} is not installed: run  pip install 'grounded-eval[{name}]'\n"


def test_an_unknown_tracker_is_refused_with_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", "--track", "comet"]) == 2
    assert "expected one of wandb, mlflow, tensorboard, trackio, or your own as module:ATTR" in capsys.readouterr().err


# What is logged


def count(correct: int, *, tokens: float = 10.0) -> TierCount:
    """Eight rollouts of two problems."""
    return TierCount(8, correct, 2, 2 * (correct == 8), 2 * (correct == 0), 2, 1, correct, tokens)


def record(**tiers: TierCount) -> IterationRecord:
    dev = {"T0": Interval(4, 3, 0.3, 0.95), "hard:1": Interval(4, 1, 0.1, 0.7)}
    metrics = TrainingMetrics(
        reward=0.25,
        reward_std=0.5,
        learning_rate=0.01,
        approx_kl=0.002,
        clipped_low=0.125,
        clipped_high=0.0625,
        logp_difference=1e-6,
        max_logp_difference=1e-5,
        max_length=31,
        tokens=900,
    )
    return IterationRecord(
        3, tiers, {"T0": 5}, 4, 2, 0.5, None, 1.25, 0, dev, {"sample": 2.0}, {"T0": 1}, metrics=metrics
    )


def test_an_iteration_s_numbers_have_the_field_s_names() -> None:
    """16 rollouts, 2 right; 4 problems, those of T1 all wrong; lengths (8 x 10 + 8 x 30) / 16 = 20, in 2 seconds."""
    found = iteration_values(record(T0=count(2), T1=count(0, tokens=30.0)))
    assert found == {
        **{"train/solve_rate": 0.125, "train/reward": 0.125, "train/rollouts": 16, "train/failed": 1},
        **{"train/reward_std": 0.5, "train/approx_kl": 0.002, "train/num_tokens": 900},
        **{"train/clip_ratio/low_mean": 0.125, "train/clip_ratio/high_mean": 0.0625},
        **{"train/clip_ratio/region_mean": 0.1875, "train/completions/max_length": 31},
        **{"train/sampling/sampling_logp_difference/mean": 1e-6, "train/tokens_per_second": 160.0},
        **{"train/sampling/sampling_logp_difference/max": 1e-5},
        **{"train/solve_rate/T0": 0.25, "train/solve_rate/T1": 0.0, "train/unparsed_ratio": 0.125},
        **{"train/completions/mean_length": 20.0, "train/completions/clipped_ratio": 0.25},
        **{"train/completions/mean_length/T0": 10.0, "train/completions/mean_length/T1": 30.0},
        **{"train/frac_reward_zero_std": 0.5, "train/admitted": 4, "train/updates": 2, "train/learning_rate": 0.01},
        **{"train/loss": 0.5, "train/entropy": 1.25, "train/buffer": 5, "train/buffer/T0": 5},
        **{"eval/accuracy": 0.5, "eval/accuracy/T0": 0.75, "eval/accuracy/hard_1": 0.25, "time/sample": 2.0},
    }


def test_a_graded_reward_stands_beside_the_solve_rate_and_a_warm_up_has_no_rollouts() -> None:
    """2 of 8 are right, and their rewards add up to 3; of T1 all are 0 or 1."""
    graded = record(T0=evolve(count(2), reward=3.0), T1=count(1))
    graded = evolve(graded, dev_reward={"T0": MeanReward(4, 3.5, 0.5, 1.0, graded=True)})
    found = iteration_values(graded)
    assert (found["train/solve_rate"], found["train/reward"]) == (3 / 16, 4 / 16)
    assert (found["train/reward/T0"], found["train/reward/T1"]) == (3 / 8, 1 / 8)
    assert (found["eval/accuracy/T0"], found["eval/reward/T0"], found["eval/reward"]) == (0.75, 0.875, 0.875)


def test_a_warm_up_has_no_rollouts_and_a_run_of_an_earlier_version_no_metrics() -> None:
    assert not any("solve_rate" in name or "per_second" in name for name in iteration_values(record()))
    assert "train/approx_kl" not in iteration_values(evolve(record(T0=count(2)), metrics=None))


def test_settings_are_flat_and_final_accuracies_have_their_mean() -> None:
    assert plain_settings({"seed": 1, "lora": {"rank": 8, "keys": ["q", "v"]}, "until": None}) == {
        **{"seed": 1, "lora.rank": 8, "lora.keys": "q, v"}
    }
    shares = {"T0": Interval(4, 3, 0.3, 0.95), "T1": Interval(0, 0, 0.0, 1.0, failed=4)}
    assert result_values({"accuracy": shares}) == {"test/accuracy/T0": 0.75}, "no mean without T1"


# A run that is tracked


def test_a_run_is_told_with_its_settings_iterations_and_results() -> None:
    kept = MemoryTracker()
    result = gce.train(**SMALL, model=toy_task.careless(None, None), track=kept)
    (run,) = kept.runs
    assert (run.name, run.folder, run.settings["rollouts.samples"]) == ("memory", "", 2)
    assert set(kept.values["train/solve_rate"]) == {1, 2}
    assert kept.values["test/accuracy/T0"] == {2: result.after["T0"].share}
    assert kept.values["test/accuracy_before/T0"] == {2: result.before["T0"].share}
    assert "test/prompt_blind/T0" in kept.values and kept.ended == [True]


@pytest.mark.parametrize("method", ["begin", "log", "end"])
def test_a_tracker_that_raises_is_said_once_and_never_ends_the_run(method: str) -> None:
    kept, listening = MemoryTracker(fails=method), Listening()
    settings = {**SMALL, "model": toy_task.careless(None, None)}
    result = gce.train(**settings, track=kept, watch=lambda _last: listening)
    said = [line for line in listening.said if "without tracking" in line]
    assert said == [f"warning: the run continues without tracking: RuntimeError: {method} failed"]
    assert kept.calls == {"begin": 1, "log": 2, "end": 5}[method], "silent after that"
    plain = gce.train(**SMALL, model=toy_task.careless(None, None))
    varying = ("seconds", "peak_bytes")
    assert {**result.summary, **dict.fromkeys(varying)} == {**plain.summary, **dict.fromkeys(varying)}


def test_a_run_that_is_cut_off_says_so_and_is_the_same_run_when_it_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    first, second = MemoryTracker(), MemoryTracker()

    class Interrupting(Silent):
        def iteration(self, record: IterationRecord) -> None:
            raise KeyboardInterrupt

    settings = {**SMALL, "task": "toy_task:ADDITION", "model": "toy_task:careless"}
    with pytest.raises(KeyboardInterrupt):
        gce.train(**settings, run=tmp_path / "run", track=first, watch=lambda _last: Interrupting())
    gce.resume(tmp_path / "run", track=second)
    assert (first.ended, second.ended) == ([False], [True])
    assert first.runs == second.runs and first.runs[0].folder == str(tmp_path / "run")
    assert set(second.values["train/solve_rate"]) == {2}


def test_an_identity_is_kept_with_the_run_and_made_anew_where_it_is_damaged(tmp_path: Path) -> None:
    made = identity_of(str(tmp_path))
    assert identity_of(str(tmp_path)) == made and len(made) == 16
    (tmp_path / "tracking_id").write_bytes(b"\xff../../etc\n")
    assert identity_of(str(tmp_path)) not in (made, "../../etc")
    assert identity_of("") != identity_of("")
    assert folder_of(MemoryRuns(), "memory") == ""


def test_the_tracker_does_not_change_what_a_run_stores(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    arguments = [*TOY, "--iterations", "1"]
    arguments += ["--problems", "2", "--rollouts", "2", "--dev", "0", "--test", "1", "--json"]
    for name, further in (("plain", []), ("tracked", ["--track", f"{HERE}:own"])):
        assert cli.main([*arguments, "--run-dir", str(tmp_path / name), *further]) == 0
    plain, tracked = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("plain", "tracked"))
    assert plain["config"] == tracked["config"]
    with open_run(tmp_path / "plain") as one, open_run(tmp_path / "tracked") as other:
        assert one.config == other.config
        for stream in ("rollouts", "traces"):
            assert list(one.read(stream)) == list(other.read(stream))
