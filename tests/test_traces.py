"""A run's verified answers as a data set: all of them right, none lost, no problem on both sides of a split."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from toy_task import ADDITION

from gce.adapters.datasets.atif import read_atif
from gce.adapters.runs.reader import DirectoryReader
from gce.adapters.runs.run_directory import RunDirectory
from gce.app import cli
from gce.app.settings.records import TrainSettings
from gce.app.wiring.tasks import stored_problem
from gce.domain.learning import Trace
from gce.domain.problems import Message
from gce.domain.serialization import to_plain
from gce.domain.tasks import ProblemSource
from gce.domain.traces import trace_digest, trace_of_record

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TOY = ("--task", "toy_task:ADDITION", "--updates", "1", "--dev", "0", "--test", "0", "--max-tokens", "12")
SIZES = ("--problems", "24", "--rollouts", "3", "--iterations", "2")
FIELDS = ["messages", "problem", "tier", "iteration", "policy"]


def gce(*arguments: str | Path) -> int:
    return cli.main([str(argument) for argument in arguments])


def trained(root: Path, *arguments: str, model: str = "careless") -> Path:
    assert gce("train", *TOY, *SIZES, "--model", f"toy_task:{model}", *arguments, "--run-dir", root) == 0
    return root


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run", symlinks=True)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def stored_traces(run: Path) -> list[Trace]:
    return [trace_of_record(record) for record in stored(run, "traces")]


def stored(run: Path, stream: str) -> list[dict[str, Any]]:
    with DirectoryReader(run) as reader:
        return list(reader.read(stream))


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    assert gce("traces", *arguments) == 2
    out, err = capsys.readouterr()
    *usage, said = err.splitlines()
    assert out == "" and said.startswith("gce traces: ") and all(line.startswith("usage: ") for line in usage), err
    return said


# What is written


def test_every_trace_is_a_conversation_that_ends_with_the_models_answer(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gce("traces", run) == 0
    found = lines(run / "export/jsonl/train.jsonl")
    traces = stored_traces(run)
    assert len(found) == len(traces) > 20
    for line, trace in zip(found, traces, strict=True):
        assert list(line) == FIELDS
        answer = {"role": "assistant", "content": trace.completion.text}
        assert line["messages"] == [*to_plain(trace.messages), answer]
        assert [line[name] for name in FIELDS[1:4]] == [trace.problem, trace.tier, trace.iteration]
        assert line["policy"] == trace.completion.policy
    problems = len({line["problem"] for line in found})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{run}/export/jsonl/train.jsonl: {len(found)} traces of {problems} problems"
    assert "load_dataset('json'" in said[1] and f"mlx_lm.lora --data {run}/export/jsonl" in said[1]


def test_two_exports_are_equal_to_the_byte(run: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert gce("traces", run, "--valid", "0.3", "--out", tmp_path / name / "train.jsonl") == 0
    for file in ("train.jsonl", "valid.jsonl"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_all_right_rollouts_come_with_the_prompt_that_their_model_was_shown(run: Path, tmp_path: Path) -> None:
    """Also those of problems of which no trace was kept."""
    out = tmp_path / "all.jsonl"
    root = trained(tmp_path / "few", "--drop-solved", "--per-problem", "1")
    right = [rollout for rollout in stored(root, "rollouts") if rollout["right"]]
    kept = {trace["problem"] for trace in stored(root, "traces")}
    assert {rollout["problem"] for rollout in right} > kept
    assert gce("traces", root, "--all", "--out", out) == 0
    found = lines(out)
    assert [line["messages"][-1]["content"] for line in found] == [rollout["text"] for rollout in right]
    for line in found:
        assert line["messages"][:-1] == to_plain(
            stored_problem(ProblemSource(ADDITION), {"problem": line["problem"]}).prompt
        )


def test_only_the_tiers_that_are_asked_for_are_written(run: Path, tmp_path: Path) -> None:
    assert gce("traces", run, "--tiers", "T1", "--out", tmp_path / "out.jsonl") == 0
    found = lines(tmp_path / "out.jsonl")
    assert Counter(line["tier"] for line in found) == {"T1": sum(t["tier"] == "T1" for t in stored(run, "traces"))}


def test_a_control_run_gives_its_right_answers_alone(tmp_path: Path) -> None:
    """With shuffled verdicts the buffer holds wrong answers, and the data set does not."""
    root = trained(tmp_path / "run", "--admission", "shuffled")
    right = {rollout["key"] for rollout in stored(root, "rollouts") if rollout["right"]}
    traces = stored_traces(root)
    expected = [trace.completion.text for trace in traces if trace.key in right]
    assert 0 < len(expected) < len(traces)
    assert gce("traces", root, "--out", tmp_path / "out.jsonl") == 0
    assert [line["messages"][-1]["content"] for line in lines(tmp_path / "out.jsonl")] == expected


def test_a_folder_for_the_hub_has_a_card_that_says_how_it_was_made(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gce("traces", run, "--to", "hf", "--valid", "0.3", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    folder = run / "export/hf"
    splits = {split: lines(folder / f"data/{split}.jsonl") for split in ("train", "valid")}
    assert said["traces"] == {split: len(found) for split, found in splits.items()}
    assert said["path"] == str(folder) and sum(said["tiers"].values()) == sum(said["traces"].values())
    _, header, card = (folder / "README.md").read_text().split("---\n", 2)
    for split in splits:
        assert f"  - split: {split}\n    path: data/{split}.jsonl\n" in header
    for words in ("preset small", "task toy_task:ADDITION", "seed 0", "2 iterations", "judged right", "No licence"):
        assert words in card
    assert "solver" in card and "No problem is in both splits" in card
    for tier, count in said["tiers"].items():
        assert f"| {tier} | {count} | " in card


def test_datasets_reads_both_formats(run: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    cache = str(tmp_path / "cache")
    for form in ("jsonl", "hf"):
        assert gce("traces", run, "--to", form, "--valid", "0.3") == 0
    folder = datasets.load_dataset(str(run / "export/hf"), cache_dir=cache)
    file = datasets.load_dataset("json", data_files=str(run / "export/jsonl/train.jsonl"), cache_dir=cache)
    expected = lines(run / "export/jsonl/train.jsonl")
    assert folder["train"].to_list() == file["train"].to_list() == expected
    assert folder["valid"].to_list() == lines(run / "export/jsonl/valid.jsonl")


def test_mlx_lm_reads_a_file_as_chats(run: Path) -> None:
    reading = pytest.importorskip("mlx_lm.tuner.datasets")
    assert gce("traces", run, "--valid", "0.3") == 0
    train, valid, test = reading.load_local_dataset(run / "export/jsonl", None, None)
    assert isinstance(train, reading.ChatDataset) and isinstance(valid, reading.ChatDataset) and not test
    assert train[0] == lines(run / "export/jsonl/train.jsonl")[0]


def test_trajectories_hold_the_traces_that_the_buffer_took(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gce("traces", run, "--to", "atif") == 0
    found = list(read_atif(run / "export/atif/train.jsonl"))
    right = {rollout["key"] for rollout in stored(run, "rollouts") if rollout["right"]}
    assert found == [trace for trace in stored_traces(run) if trace.key in right] and len(found) > 20
    assert "read_atif" in capsys.readouterr().out


def test_trajectories_of_rollouts_that_the_buffer_refused_have_their_text_alone(tmp_path: Path) -> None:
    root = trained(tmp_path / "few", "--drop-solved", "--per-problem", "1")
    assert gce("traces", root, "--all", "--to", "atif", "--out", tmp_path / "all.jsonl") == 0
    found = list(read_atif(tmp_path / "all.jsonl"))
    kept = {trace.key: trace for trace in stored_traces(root)}
    assert [trace.key for trace in found] == [each["key"] for each in stored(root, "rollouts") if each["right"]]
    assert len(found) > len(kept) > 0
    for trace in found:
        problem = stored_problem(ProblemSource(ADDITION), {"problem": trace.problem})
        assert trace.messages == problem.prompt and trace.verdicts
        assert trace.content_digest == trace_digest(problem, trace.completion.text)
        assert trace == kept.get(trace.key, trace) and (trace.key in kept) == (trace.completion.token_ids is not None)


# The split


def test_no_problem_is_on_both_sides_not_even_under_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, problems with the same last digit of `a` count as one."""
    coarse = evolve(ADDITION, digest=lambda found: blake2b(b"%d" % (found.a % 10), digest_size=8).hexdigest())
    monkeypatch.setattr("toy_task.ADDITION", coarse)
    root = trained(tmp_path / "run")
    assert gce("traces", root, "--all", "--valid", "0.4") == 0
    sides = [lines(root / f"export/jsonl/{split}.jsonl") for split in ("train", "valid")]
    assert sum(map(len, sides)) == sum(rollout["right"] for rollout in stored(root, "rollouts"))
    keys = [{line["problem"] for line in side} for side in sides]
    digests = [{stored_problem(ProblemSource(coarse), {"problem": key}).digest for key in side} for side in keys]
    assert all(len(names) > len(found) > 0 for names, found in zip(keys, digests, strict=True))
    assert not digests[0] & digests[1]


def test_the_share_is_that_of_problems_held_out(run: Path) -> None:
    """Roughly: 45 problems, each on its side by a hash of its own."""
    assert gce("traces", run, "--valid", "0.3") == 0
    train, valid = (lines(run / f"export/jsonl/{split}.jsonl") for split in ("train", "valid"))
    problems, others = ({line["problem"] for line in side} for side in (train, valid))
    assert not problems & others and len(problems | others) > 40
    assert 0.1 < len(others) / len(problems | others) < 0.5


def test_a_problem_stays_on_its_side_while_the_run_grows(run: Path, tmp_path: Path) -> None:
    """The split looks at nothing else in the run, and what was written before stays at the beginning."""
    early = trained(tmp_path / "early", "--iterations", "1")
    for name, root in (("whole", run), ("early", early)):
        assert gce("traces", root, "--valid", "0.3", "--out", tmp_path / name / "train.jsonl") == 0
    for file in ("train.jsonl", "valid.jsonl"):
        whole, part = ((tmp_path / name / file).read_bytes() for name in ("whole", "early"))
        assert whole.startswith(part) and part


def test_a_split_that_leaves_one_side_empty_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none for valid.jsonl" in refusal(capsys, run, "--valid", "1e-9")
    assert "from 0 to below 1" in refusal(capsys, run, "--valid", "1")
    assert not (run / "export").exists()


# What is refused


def test_a_run_without_right_answers_says_so_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = trained(tmp_path / "run", model="hopeless")
    for form in ("jsonl", "hf"):
        assert "no verified traces to write: 144 rollouts, 0 right" in refusal(capsys, root, "--to", form)
    assert not (root / "export").exists()


def test_a_run_that_has_just_begun_and_no_run_at_all_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunDirectory.create(tmp_path / "run", {"settings": to_plain(TrainSettings())}):
        assert "0 rollouts, 0 right" in refusal(capsys, tmp_path / "run")
    assert "found no run.sqlite" in refusal(capsys, tmp_path)


def test_a_run_that_is_being_written_can_be_read(run: Path) -> None:
    with RunDirectory.open(run) as store:
        store.append("rollouts", {"not": "committed"})
        assert gce("traces", run) == 0
    assert len(lines(run / "export/jsonl/train.jsonl")) == len(stored(run, "traces"))


def test_what_is_there_already_is_left_alone(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "valid.jsonl").write_text("mine")
    assert "exists already" in refusal(capsys, run, "--valid", "0.3", "--out", tmp_path / "train.jsonl")
    assert "exists already" in refusal(capsys, run, "--to", "hf", "--out", tmp_path)
    assert "is where --valid writes" in refusal(capsys, run, "--valid", "0.3", "--out", tmp_path / "new/valid.jsonl")
    assert (tmp_path / "valid.jsonl").read_text() == "mine" and not (tmp_path / "train.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["few-shot", "multi-turn"])
def test_problems_are_held_out_of_conversations_that_begin_with_something_else(strategy: str, tmp_path: Path) -> None:
    """Few-shot examples stand before the problem's own prompt."""
    root = trained(tmp_path / "run", "--strategy", strategy, "--task", "toy_task:WORKED")
    assert gce("traces", root, "--valid", "0.4") == 0
    sides = [lines(root / f"export/jsonl/{split}.jsonl") for split in ("train", "valid")]
    assert all(sides) and not set.intersection(*({line["problem"] for line in side} for side in sides))


def test_a_tier_that_the_run_has_not_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no rollouts of tier 'T9': choose from T0, T1" in refusal(capsys, run, "--tiers", "T9")


def test_a_task_that_draws_other_problems_by_now_is_refused(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records alone need no task, so what needs none can be had all the same."""
    reworded = evolve(ADDITION, prompt=lambda found, _rng: (Message("user", f"add {found.a} {found.b}"),))
    monkeypatch.setattr("toy_task.ADDITION", reworded)
    assert "draws another problem addition/small/train/" in refusal(capsys, run, "--valid", "0.3")
    assert gce("traces", run) == 0
