"""Runs of a task that was given from Python as an object: reports, transcripts, exports, interruptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve

import gce
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.runs.memory_store import MemoryRuns
from gce.adapters.trackers.memory import MemoryTracker
from gce.app import cli
from gce.app.exports.chat_data import data_set
from gce.app.interruption import resume_call, saying_if_interrupted
from gce.app.settings.values import settings_from
from gce.domain.algorithms import ALGORITHMS
from gce.errors import BadInput

TASK = toy_task.ADDITION
SMALL: dict[str, Any] = {"problems": 4, "samples": 2, "updates": 1, "iterations": 1, "dev": 1, "test": 2}
GIVEN: dict[str, Any] = {**SMALL, "task": TASK, "model": "toy_task:careless", "progress": False}
MISSING = "the task 'addition' was given from Python, not by a name, and gce.report(run, task=...) takes it"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a directory, of a task that no name stands for."""
    pytest.importorskip("safetensors", reason="checkpoints are safetensors")
    path = tmp_path_factory.mktemp("runs") / "first"
    gce.train(**GIVEN, run=path)
    return path


def sections(report: Any) -> dict[str, dict[str, Any]]:
    return {section["title"]: section for section in report.plain}


# Reports


def test_the_report_of_a_result_is_that_of_the_same_run_by_name() -> None:
    """All that needs the task is there, for a result remembers it; settings and hashes name another task and model."""
    given = sections(gce.report(gce.train(**GIVEN)))
    named = sections(gce.report(gce.train(**{**GIVEN, "task": "toy_task:ADDITION"})))
    assert list(given) == list(named)
    for title in ("Sample answers", "Curriculum", "Transcripts"):
        assert given[title] == named[title]
    assert given["Result"]["words"][0] == "toy_task:careless on addition/small, seed 0."


def test_a_report_of_a_directory_is_made_from_its_records(kept: Path) -> None:
    without, whole = sections(gce.report(kept)), sections(gce.report(kept, task=TASK))
    said = f"No charts and judged steps: {MISSING}."
    assert said in without["Sample answers"]["words"] and said not in whole["Sample answers"]["words"]
    assert list(without) == list(whole) and without["Result"] == whole["Result"]
    assert without["Curriculum"] == whole["Curriculum"]
    shown, drawn = without["Transcripts"]["transcripts"], whole["Transcripts"]["transcripts"]
    assert [each["text"] for each in shown] == [each["text"] for each in drawn]
    assert all(each["notes"] for each in shown) and not any(each["notes"] for each in drawn)


def test_several_runs_of_a_given_task_are_compared(kept: Path) -> None:
    other = gce.train(**{**GIVEN, "seed": 1})
    found = gce.report(kept, other)
    assert found.title == "first, toy_task:careless on addition"
    titles = list(sections(found))
    assert "Runs compared on addition/small" in titles and "toy_task:careless on addition: Result" in titles


def test_a_task_that_is_not_that_of_the_run_is_refused(kept: Path) -> None:
    with pytest.raises(BadInput, match="no run to report was made with the task 'sums' given from Python"):
        gce.report(kept, task=evolve(TASK, name="sums"))
    with pytest.raises(BadInput, match="task must be a Task, got 'addition'"):
        gce.report(kept, task="addition")  # type: ignore[arg-type]


def test_a_list_of_other_questions_under_the_same_name_is_refused(tmp_path: Path) -> None:
    def made(last: int) -> gce.Task:
        rows = [{"prompt": f"{n}?", "answer": str(n)} for n in (*range(19), last)]
        return gce.task(rows, lambda answer, row: answer == row["answer"], name="words")

    runs = MemoryRuns()
    small = {**GIVEN, "model": ScriptedModel(lambda _: "1"), "problems": 2, "samples": 1, "dev": 0}
    result = gce.train(**{**small, "task": made(19)}, runs=runs, run="one")
    assert gce.report(result).title == "one"
    with pytest.raises(BadInput, match="the list of questions of task words is not the one"):
        gce.report(evolve(result, task=made(20)))


def test_a_run_in_memory_is_titled_by_model_and_task() -> None:
    result = gce.train(**{**GIVEN, "model": toy_task.careless(None, None)})
    found = gce.report(result)
    assert found.title == "ScriptedModel on addition"
    assert sections(found)["Result"]["words"][0] == "ScriptedModel on addition/small, seed 0."


# The command line, which has no task


def test_commands_read_what_the_records_hold(kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(kept), "--format", "md"]) == 0
    assert MISSING in capsys.readouterr().out
    assert cli.main(["transcript", str(kept), "T0/0", "--moment", "after", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["prompt"] and found["notes"] == [f"The problem cannot be regenerated: {MISSING}."]
    assert cli.main(["transcript", str(kept)]) == 0
    assert cli.main(["answers", str(kept), "--out", str(tmp_path / "answers.csv")]) == 0
    assert cli.main(["traces", str(kept), "--out", str(tmp_path / "train.jsonl")]) == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("rescore",), "judging again needs the task 'addition', which was given from Python: train with a task named"),
        (
            ("traces", "--all"),
            "the problems have to be drawn again, and the task 'addition' was given",
        ),
    ],
)
def test_what_needs_the_task_says_so_in_one_line(
    command: tuple[str, ...], said: str, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, str(kept)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"gce {command[0]}: {said}") and error.count("\n") == 1


# Interruptions


def test_the_call_that_goes_on_has_all_that_was_given() -> None:
    named = settings_from({"task": "scheduling", "model": {"name": "gce-tiny"}})
    assert resume_call("runs/1", named, {}) == "gce.resume('runs/1')"
    words = settings_from({"task": "given:words", "model": {"name": "gce-tiny"}})
    assert resume_call("runs/cut2", words, {}) == "gce.resume('runs/cut2', task=words)"
    longer = {"stopping.iterations": 6}
    assert resume_call("runs/1", words, longer) == "gce.resume('runs/1', iterations=6, task=words)"
    own = settings_from({"task": "given:my words", "model": {"name": "given:Mine"}, "evaluator": "given:Judge"})
    said = "gce.resume('one', task=..., model=..., evaluator=..., runs=...)"
    assert resume_call("one", own, {}, own_runs=True) == said


def test_words_are_given_once() -> None:
    words = pytest.raises(KeyboardInterrupt, match=r"^inner$")
    with words, saying_if_interrupted("outer"), saying_if_interrupted("inner"):
        raise KeyboardInterrupt


def test_an_interruption_while_a_model_is_loaded_says_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = MemoryRuns()
    gce.train(**GIVEN, runs=runs, run="one")

    def interrupted(*_: Any, **_more: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("gce.app.training.run.find_learning_model", interrupted)
    monkeypatch.setattr("gce.app.loaded_model.find_model", interrupted)
    said = "^interrupted while the model toy_task:careless was being loaded"
    with pytest.raises(KeyboardInterrupt, match=f"{said}: the run did not begin$"):
        gce.train(**GIVEN, runs=runs, run="two")
    assert list(runs.find("two")) == []
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted while the run one and its model were being loaded"):
        gce.resume("one", task=TASK, runs=runs, iterations=2, progress=False)
    with pytest.raises(KeyboardInterrupt, match=f"{said}$"):
        gce.load_model("toy_task:careless", task=TASK)


def test_nobody_is_shown_how_the_names_of_what_was_given_are_marked() -> None:
    """Neither in the card of a data set, nor in a report, nor by a tracker."""
    tracker = MemoryTracker()
    given = {"model": toy_task.careless(None, None), "algorithm": evolve(ALGORITHMS["raft"], name="mine")}
    result = gce.train(**{**GIVEN, **given}, track=tracker)
    with result.run() as run:
        card = data_set(run).card
        assert run.config["settings"]["task"] == "given:addition"
    assert "# Verified traces of ScriptedModel on addition\n" in card and "algorithm mine," in card
    report = gce.report(result)
    assert tracker.runs[0].settings["task"] == "addition"
    for text in (card, str(report), json.dumps(report.plain), str(result), repr(result)):
        assert "given:" not in text
