"""`gce answers`: every answer of a run as a row, in three formats, written as the rows come."""

from __future__ import annotations

import csv
import io
import json
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from listening import Listening
from toy_task import ADDITION

import gce
from gce.adapters.datasets.row_files import ROW_FORMATS, write_rows
from gce.adapters.runs.memory_store import MemoryRuns
from gce.app import cli
from gce.app.exports.answer_rows import COLUMNS, answer_rows
from gce.app.wiring import runs as wiring
from gce.domain.tasks import ProblemSource

TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "5", "--rollouts", "2", "--iterations", "1", "--updates", "1", "--dev", "1", "--test", "4")


redraw = ProblemSource(ADDITION).redraw


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setattr(wiring, "STORES", {"memory:": MemoryRuns(), **wiring.STORES})
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", "memory:run"]) == 0
    return "memory:run"


def test_each_answer_is_a_row(run: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["answers", run, "--out", "a.csv"]) == 0
    assert capsys.readouterr().out == "a.csv: 34 answers\nread them with pandas.read_csv('a.csv')\n"
    with open("a.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == list(COLUMNS)
    assert [row["moment"] for row in found] == ["after"] * 12 + ["before"] * 12 + ["rollouts"] * 10
    with wiring.open_run(run) as reader:
        records = list(reader.read("rollouts"))
    for row, record in zip(found[24:], records, strict=True):
        assert row["text"] == record["text"] and row["correct"] == str(record["right"])
        assert row["problem"] == record["problem"] and row["iteration"] == "1"
    assert all((row["iteration"] == "") == (row["moment"] != "rollouts") for row in found)
    for row in found:
        problem = redraw(row["problem"])
        assert (row["prompt"], row["digest"]) == (problem.prompt[-1].content, problem.digest) and int(row["tokens"])


def test_json_lines_hold_the_same_and_a_moment_can_be_chosen(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["answers", run, "--to", "jsonl", "--out", "a.jsonl", "--moment", "after", "--json"]) == 0
    said = {"path": "a.jsonl", "format": "jsonl", "answers": 12, "verified": True}
    assert json.loads(capsys.readouterr().out) == said
    with wiring.open_run(run) as reader:
        expected = list(answer_rows(reader, ("after",)))
    assert [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()] == expected


def test_a_file_that_is_there_is_never_replaced(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.csv").write_text("mine")
    assert cli.main(["answers", run, "--out", "a.csv"]) == 2
    assert "a.csv exists already: give another --out" in capsys.readouterr().err
    assert Path("a.csv").read_text() == "mine"
    assert cli.main(["answers", "nowhere", "--out", "b.csv"]) == 2 and not Path("b.csv").exists()
    assert not [path for path in Path().iterdir() if path.name.startswith(".gce-")]


def test_parquet_without_its_package_is_one_line(
    run: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert cli.main(["answers", run, "--to", "parquet", "--out", "a.parquet"]) == 2
    said = capsys.readouterr().err
    assert "pyarrow is not installed" in said and "[parquet]" in said and not Path("a.parquet").exists()


@pytest.mark.slow
def test_parquet_has_types(run: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert cli.main(["answers", run, "--to", "parquet", "--out", "a.parquet"]) == 0
    table = parquet.read_table("a.parquet")
    kinds = {str: "string", int: "int64", float: "double", bool: "bool"}
    assert {field.name: str(field.type) for field in table.schema} == {n: kinds[kind] for n, kind in COLUMNS.items()}
    with wiring.open_run(run) as reader:
        assert table.to_pylist() == list(answer_rows(reader))


def test_an_answer_that_failed_has_no_reward_and_is_not_counted_as_wrong() -> None:
    runs = MemoryRuns()
    record = {"problem": "p", "tier": "T", "verdicts": [], "finish_reason": "error", "policy": "", "text": ""}
    with runs.create("run", {}) as writer:
        writer.append("rollouts", {**record, "right": False, "outcome": "failed"})
        writer.commit(1, None, {})
    with runs.read("run") as reader:
        (row,) = answer_rows(reader)
    assert (row["outcome"], row["correct"], row["reward"]) == ("failed", None, None)


@pytest.mark.parametrize("form", [form for form in ROW_FORMATS if form != "parquet"])
def test_rows_are_written_as_they_come_whatever_is_in_them(form: str) -> None:
    """20 MB of rows in less than 2 MB of memory; a lone surrogate, line ends and quotes come back."""

    class Nowhere(io.RawIOBase):
        size = 0

        def writable(self) -> bool:
            return True

        def write(self, content: Any) -> int:
            self.size += len(content)
            return len(content)

    def rows() -> Iterator[dict[str, Any]]:
        for number in range(2_000):
            yield {"n": number, "text": "x" * 10_000}

    file = Nowhere()
    tracemalloc.start()
    assert write_rows(form, {"n": int, "text": str}, rows(), file) == 2_000  # type: ignore[arg-type]
    assert tracemalloc.get_traced_memory()[1] < 2_000_000 < 20_000_000 < file.size
    tracemalloc.stop()
    out, text = io.BytesIO(), 'a,"b"\r\n\u202e\ud800 =1+1'
    write_rows(form, {"text": str, "none": float}, [{"text": text, "none": None}], out)
    if form == "jsonl":
        assert json.loads(out.getvalue()) == {"text": text, "none": None}
    else:
        (found,) = csv.DictReader(io.StringIO(out.getvalue().decode(), newline=""))
        assert found == {"text": text.replace("\ud800", "?"), "none": ""}


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file of `gce evaluate --answers` with two strategies, one of whose answers failed and was asked again."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "answers.jsonl"
    ask = ["evaluate", *TOY, "--strategies", "zero-shot,multi-turn", "--n", "3", "--answers", str(file)]
    assert cli.main(ask) == 0
    lines = file.read_text().splitlines(keepends=True)
    failed = json.loads(lines[1])
    failed["attempts"][-1] |= {"finish_reason": "error", "text": "", "error": "down", "outcome": "failed"}
    file.write_text("".join([lines[0], json.dumps(failed) + "\n", *lines[1:]]))
    return file


def test_a_file_of_an_evaluation_has_the_same_columns(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each conversation's last answer once, by strategy, and not the one that failed first."""
    capsys.readouterr()
    assert cli.main(["answers", "answers.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("export/answers.csv: 18 answers\n")
    with open("export/answers.csv", encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == list(COLUMNS)
    assert [row["moment"] for row in found] == ["zero-shot"] * 9 + ["multi-turn"] * 9
    kept = [json.loads(line) for line in evaluated.read_text().splitlines()[2:]]
    for row, record in zip(found, kept, strict=True):
        assert (row["problem"], row["text"]) == (record["problem"], record["attempts"][-1]["text"])
        assert (row["correct"], row["digest"]) == (str(record["right"]), record["digest"]) and row["iteration"] == ""
    assert cli.main(["answers", "answers.jsonl", "--moment", "after", "--out", "b.csv"]) == 2
    said = "expected a moment of answers.jsonl from zero-shot, multi-turn, got 'after'"
    assert said in capsys.readouterr().err and not Path("b.csv").exists()


@pytest.mark.slow
def test_so_has_its_transcript(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(["transcript", "answers.jsonl", "T1/2"]) == 0
    text = capsys.readouterr().out
    assert "addition/small/test/T1/0/2 (zero-shot): " in text and "addition/small/test/T1/0/2 (multi-turn): " in text
    assert text.count("[verdict] sum: ") == 2 and text.count("What the strategy multi-turn shows besides") == 1
    assert cli.main(["transcript", "answers.jsonl", "--moment", "zero-shot"]) == 0
    listed = capsys.readouterr().out
    assert "multi-turn" not in listed and "gce transcript answers.jsonl small/test/" in listed


@pytest.mark.parametrize(
    ("line", "content"),
    [
        (1, "{}"),
        (1, '{"evaluation": 7}'),
        (2, '{"mode": "zero-shot", "name": "a", "attempts": []}'),
        (2, '{"mode": ["zero-shot"], "name": "a", "attempts": [{}]}'),
        (2, "not JSON"),
        (2, "[" * 100_000),
        (2, "\udcff"),
    ],
)
def test_another_file_is_one_line(line: int, content: str, evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = evaluated.read_text().splitlines()
    lines[line - 1] = content
    evaluated.write_text("\n".join(lines) + "\n", errors="surrogateescape")
    capsys.readouterr()
    for command in ("answers", "transcript"):
        assert cli.main([command, "answers.jsonl"]) == 2
        said = (
            f"gce {command}: line {line} of answers.jsonl is no answer of an evaluation: expected a run, or a file of"
        )
        assert capsys.readouterr().err == f"{said} answers of gce evaluate\n"
    assert not Path("export/answers.csv").exists()


def test_an_answer_that_is_being_written_is_left_out(evaluated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated.write_bytes(evaluated.read_bytes()[:-20])
    assert cli.main(["answers", "answers.jsonl", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["answers"], found["verified"]) == (17, False), "there is no digest to verify"


GRADED = evolve(ADDITION, reward=lambda verdicts: 1.0 if verdicts[0].right else 0.25)


def test_graded_rewards_of_rollouts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "STORES", {"memory:": MemoryRuns(), **wiring.STORES})
    model = ("--task", "test_answers:GRADED", "--model", "toy_task:careless")
    assert cli.main(["train", *model, *SIZES, "--run-dir", "memory:run"]) == 0
    with wiring.open_run("memory:run") as reader:
        found = {(row["moment"] == "rollouts", row["correct"]): row["reward"] for row in answer_rows(reader)}
    assert found == {(True, True): 1.0, (True, False): 0.25, (False, True): 1.0, (False, False): 0.25}


def test_reused_answers_are_judged_again(tmp_path: Path) -> None:
    """The score was mended between two evaluations of one file: the second table is that of the new score."""
    rows = [{"prompt": f"{a} + 1?", "answer": a + 1} for a in range(40)]

    def measured(reward: Any, **more: Any) -> tuple[list[bool], list[str]]:
        listening = Listening()
        task = gce.task(rows, reward, name="sums")
        keywords: dict[str, Any] = {"model": lambda _messages: "nothing", "n": 5, "split": "test", **more}
        found = gce.evaluate(task=task, answers=tmp_path / "kept.jsonl", watcher=listening, **keywords)
        return [answer["right"] for answer in found.answers()], listening.said

    right, said = measured(lambda answer, problem: answer == str(problem["answer"]))
    assert not any(right) and not any("reused" in line for line in said)
    right, said = measured(lambda answer, problem: answer == "nothing")
    assert len(right) == 5 and all(right)
    assert f"zero-shot: 5 answers reused from {tmp_path / 'kept.jsonl'}, judged again; 5 verdicts changed" in said
    right, said = measured(lambda answer, problem: answer == "nothing")
    assert all(right) and f"zero-shot: 5 answers reused from {tmp_path / 'kept.jsonl'}, judged again" in said
