"""`gce rescore`: stored answers of runs and of files judged again, each by the verifier of its own task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve
from test_forgetting import COMMAND as FORGETTING_COMMAND
from test_train_shifts import COMMAND as SHIFTS_COMMAND

from gce.app import cli
from gce.domain.tasks import Task

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

TOY_VERIFY = toy_task.verify
TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")


def gce(*arguments: str | int | Path) -> int:
    return cli.main([str(each) for each in arguments])


def rescored(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    status = gce("rescore", *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


def stricter(task: Task) -> Task:
    """The same problems, with a verifier that finds every answer wrong."""

    def verify(*given: Any) -> Any:
        return tuple(evolve(each, status="wrong", score=0.0) for each in toy_task.verify(*given))

    return evolve(task, verify=verify)


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    """6 answers, 2 in each tier."""
    assert gce("evaluate", *TOY, "--n", 2, "--answers", tmp_path / "answers.jsonl") == 0
    return tmp_path / "answers.jsonl"


@pytest.mark.slow
def test_a_row_of_answers_with_several_verdicts_is_not_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row holds one outcome for all verdicts of an answer, and is compared as such."""

    def twice(*given: Any) -> Any:
        (verdict,) = TOY_VERIFY(*given)
        return verdict, evolve(verdict, evaluator="second")

    monkeypatch.setattr(toy_task, "ADDITION", evolve(toy_task.ADDITION, verify=twice))
    assert gce("evaluate", *TOY, "--n", 2, "--answers", tmp_path / "answers.jsonl") == 0
    capsys.readouterr()
    rows = tmp_path / "rows.jsonl"
    assert gce("answers", tmp_path / "answers.jsonl", "--to", "jsonl", "--out", rows) == 0
    assert rescored(capsys, rows, *TOY[:2]) == (0, {"judged": 6, "changes": [], "verified": True})
    monkeypatch.setattr(toy_task, "ADDITION", stricter(evolve(toy_task.ADDITION, verify=twice)))
    status, found = rescored(capsys, rows, *TOY[:2])
    assert status == 1 and found["changes"]


def test_a_file_of_an_evaluation_is_judged_again(
    evaluated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = evaluated.read_bytes()
    assert rescored(capsys, evaluated) == (0, {"judged": 6, "changes": [], "verified": True})
    right = sum(json.loads(line)["right"] for line in held.splitlines()[1:])
    assert right
    monkeypatch.setattr(toy_task, "ADDITION", stricter(toy_task.ADDITION))
    status, found = rescored(capsys, evaluated)
    assert status == 1 and len(found["changes"]) == right
    assert {(each["where"], each["was"], each["now"]) for each in found["changes"]} == {("zero-shot", "right", "wrong")}
    assert evaluated.read_bytes() == held


def test_rows_of_gce_answers_are_judged_again_with_their_task(
    evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row names its problem, and with that the task, but not where a task of one's own is found."""
    rows = tmp_path / "rows.jsonl"
    assert gce("answers", evaluated, "--to", "jsonl", "--out", rows) == 0
    assert rescored(capsys, rows, "--task", "toy_task:ADDITION") == (0, {"judged": 6, "changes": [], "verified": True})
    monkeypatch.setattr(toy_task, "ADDITION", stricter(toy_task.ADDITION))
    status, found = rescored(capsys, rows, "--task", "toy_task:ADDITION")
    assert status == 1 and {each["now"] for each in found["changes"]} == {"wrong"}
    assert gce("rescore", rows) == 2
    assert "no task 'addition'" in capsys.readouterr().err


def test_rows_of_a_run_have_its_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, rows = tmp_path / "run", tmp_path / "rows.jsonl"
    sizes = ("--problems", 2, "--rollouts", 2, "--iterations", 1, "--updates", 1, "--dev", 0, "--test", 1)
    assert gce("train", *TOY, *sizes, "--run-dir", run) == 0
    assert gce("answers", run, "--to", "jsonl", "--out", rows) == 0
    assert rescored(capsys, rows, "--task", "toy_task:ADDITION")[1]["judged"] == 2 * 2 + 3 + 3
    assert rescored(capsys, run)[1]["judged"] == 2 * 2 + 3 + 3


@pytest.mark.parametrize("line", ["{}", '{"moment": "after"}', "no JSON"])
def test_a_line_that_is_no_answer_is_named(
    line: str, evaluated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    assert gce("answers", evaluated, "--to", "jsonl", "--out", rows) == 0
    rows.write_text(rows.read_text() + line + "\n")
    capsys.readouterr()
    assert gce("rescore", rows) == 2
    assert capsys.readouterr().err.startswith(f"gce rescore: line 7 of {rows} is no row of gce answers")


def test_answers_to_shifts_are_judged_by_their_own_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 rollouts, 3 test problems twice, 2 problems of the shift in each of 3 tiers and of the other in each of 2."""
    import test_train_shifts

    run = tmp_path / "run"
    assert gce("train", *SHIFTS_COMMAND, "--shifts", 2, "--run-dir", run) == 0
    assert rescored(capsys, run)[1]["judged"] == 4 + 6 + 6 + 4
    monkeypatch.setattr(test_train_shifts, "FAR", stricter(test_train_shifts.FAR))
    status, found = rescored(capsys, run)
    assert status == 1 and [each["where"] for each in found["changes"]] == ["shift-larger-numbers"] * 6


def test_answers_to_other_tasks_are_judged_by_their_own_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One dev problem in each of 2 tiers and of 1, before and after; right before training alone."""
    import test_forgetting

    run = tmp_path / "run"
    assert gce("train", *FORGETTING_COMMAND, "--run-dir", run) == 0
    assert rescored(capsys, run)[1]["judged"] == 4 + 6 + 2 * (2 + 1)
    monkeypatch.setattr(test_forgetting, "OTHER", stricter(test_forgetting.OTHER))
    _, found = rescored(capsys, run)
    names = ["other-test-forgetting-other-before"] * 2 + ["other-test-forgetting-other-tiny-before"]
    assert [each["where"] for each in found["changes"]] == names
