"""`gce replay`: stored answers of runs and of files made again, and what is said where they differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve

from gce.adapters.models.scripted import ScriptedModel
from gce.app import cli
from gce.app.wiring.runs import open_run
from gce.domain.completions import SampleRequest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SMALL = ("--iterations", 5, "--problems", 2, "--rollouts", 3, "--test", 2, "--dev", 2, "--quiet")


def gce(*arguments: str | int | Path) -> int:
    return cli.main([str(each) for each in arguments])


def replayed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    status = gce("replay", *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Five iterations of two problems, three rollouts each."""
    assert gce("train", *TOY, *SMALL, "--temperature", 1, "--run-dir", tmp_path / "run") == 0
    return tmp_path / "run"


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Three samples of two problems in each of three tiers."""
    file = tmp_path / "answers.jsonl"
    assert gce("evaluate", *TOY, "--n", 2, "--samples", 3, "--temperature", 1, "--answers", file) == 0
    return file


def other_words(_config: Any, _task: Any) -> ScriptedModel:
    """As right as `careless`, in other words."""

    def answer(request: SampleRequest) -> str:
        a, b, _ = (int(word[1:]) for word in request.messages[0].content.split())
        return f"w{request.seed % 7} so w{a + b}" if request.seed % 3 else "about w1 and so"

    return ScriptedModel(answer)


@pytest.mark.parametrize("batch", [(), ("--batch",)])
def test_every_rollout_of_the_first_iteration_is_made_again(
    run: Path, capsys: pytest.CaptureFixture[str], batch: tuple[str, ...]
) -> None:
    """Each key gives its own text: the seeds of samples differ, so a replay with another seed would show."""
    status, found = replayed(capsys, run, "T0/0", "--moment", "rollouts", *batch)
    assert status == 0 and len(found) == 3 and len({each["was_text"] for each in found}) > 1
    assert all(each["now_text"] == each["was_text"] and each["why"] == [] for each in found)
    assert {each["batch"] for each in found} == ({6} if batch else {1}) and {each["of"] for each in found} == {6}


def test_one_key_is_one_rollout(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = replayed(capsys, run, "1/addition/small/train/T0/0/0/2")
    assert status == 0 and [each["key"] for each in found] == ["1/addition/small/train/T0/0/0/2"]


def test_answers_to_test_problems_are_made_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = replayed(capsys, run, "T0/0")
    assert status == 0 and {each["moment"] for each in found} == {"before", "after"}


def test_weights_that_are_not_kept_are_named(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run keeps its newest checkpoints and the best, 1: iteration 2 can be made again, 4 follows one that is gone."""
    with open_run(run) as reader:
        keys = {record["iteration"]: record["key"] for record in reader.read("rollouts")}
        assert json.loads((run / "summary.json").read_text())["best"]["iteration"] == 1
    assert replayed(capsys, run, keys[2])[0] == 0
    assert gce("replay", run, keys[4]) == 2
    assert "the weights that wrote it are not kept" in capsys.readouterr().err


def test_a_changed_verifier_is_told_from_a_changed_text(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stricter(*given: Any) -> Any:
        return tuple(evolve(each, status="wrong", score=0.0) for each in toy_task.verify(*given))

    _, before = replayed(capsys, run, "T0/0", "--moment", "rollouts")
    monkeypatch.setattr(toy_task, "ADDITION", evolve(toy_task.ADDITION, verify=stricter))
    status, found = replayed(capsys, run, "T0/0", "--moment", "rollouts")
    changed = [each for each in found if each["why"]]
    assert status == 1 and len(changed) == sum(each["was"] == "right" for each in before) > 0
    assert all(each["why"] == ["the verifier has changed: it now judges the stored text wrong"] for each in changed)


def test_a_file_of_an_evaluation_is_made_again(answers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = answers.read_bytes()
    for batch in ((), ("--batch",)):
        status, found = replayed(capsys, answers, "addition/small/test/T1/0/0/2", *batch)
        assert status == 0 and [each["was_text"] == each["now_text"] for each in found] == [True]
        assert (found[0]["batch"], found[0]["of"]) == (18 if batch else 1, 18)
    assert answers.read_bytes() == held


def test_another_model_is_named_as_the_reason_and_an_equal_verdict_is_no_failure(
    answers: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_task, "careless", other_words)
    status, found = replayed(capsys, answers, "addition/small/test/T1/0/0/2")
    assert status == 0 and found[0]["same_verdict"] and not found[0]["same_text"]
    assert any("sampled in a batch of 18 and now alone" in each for each in found[0]["why"])
    monkeypatch.setattr(toy_task, "careless", toy_task.hopeless)
    right = next(json.loads(line) for line in answers.read_bytes().splitlines()[1:] if json.loads(line)["right"])
    assert gce("replay", answers, right["name"]) == 1
    assert "verdict was right, now wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("T9/0",), "has no answer to a problem 'T9/0'"),
        (("T0/0", "--adapter", "x"), "a run has its own adapter: leave out --adapter"),
        (("T0/0", "--precision", "float32"), "a run has its own precision: leave out --precision"),
    ],
)
def test_what_cannot_be_replayed_is_one_error(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    capsys.readouterr()
    assert gce("replay", run, *arguments) == 2
    out, err = capsys.readouterr()
    assert not out and said in err and err.count("\n") == 1


def test_rows_of_answers_do_not_say_how_they_were_sampled(
    answers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gce("answers", answers, "--to", "jsonl", "--out", tmp_path / "rows.jsonl") == 0
    capsys.readouterr()
    assert gce("replay", tmp_path / "rows.jsonl", "T0/0") == 2
    assert "do not say how they were sampled" in capsys.readouterr().err
