"""`gce verify-run`: a copy is intact, or every part that is not is named on a line of its own."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.runs.directory_store import DirectoryRuns
from gce.app import cli
from gce.testing.contracts.runs import example_state


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy without links, as rclone makes it."""
    runs, original = DirectoryRuns(), tmp_path / "original"
    with runs.create(str(original), {"a": 1}) as run:
        for iteration in (1, 2, 3):
            run.append("iterations", {"iteration": iteration})
            run.commit(iteration, example_state(iteration), {})
        run.write_answers("test-after", [{"x": 1}])
        run.write_summary({"iterations": 3})
    runs.write_card(str(original), {"lines": []})
    copy = shutil.copytree(original, tmp_path / "copy", symlinks=True)
    (copy / "checkpoints" / "last").unlink()
    return copy


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = cli.main(["verify-run", *arguments])
    return status, capsys.readouterr().out.splitlines()


def test_a_copy_is_intact_and_has_the_digest_of_the_original(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, (original, copy) = said(capsys, str(copied.parent / "original"), str(copied))
    assert status == 0
    assert copy.split(": ", 1)[1] == original.split(": ", 1)[1]
    assert "intact up to iteration 3, 2 checkpoints, digest " in copy
    assert json.loads((copied / "head.json").read_text())["digest"] == copy.split()[-1]


def test_each_part_that_fails_has_a_line(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = copied / "checkpoints" / "iteration-0002" / "adapters.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (copied / "checkpoints" / "iteration-0003" / "state.json").unlink()
    (copied / "test-after.jsonl").write_text('{"x":2}\n')
    (copied / "summary.json").unlink()
    card = copied / "validity.json"
    card.write_text(card.read_text().replace("[]", "[1]"))
    status, lines = said(capsys, str(copied))
    assert status == 1 and all(line.startswith(f"{copied}: ") for line in lines)
    about = "\n".join(lines)
    for part in (
        "iteration-0002/adapters.safetensors does not match its hash",
        "iteration-0003/state.json: No such file",
        "test-after.jsonl is not as it was written",
        "summary.json is missing",
        "validity.json is not as it was written",
    ):
        assert part in about
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "UPDATE records SET body = '{\"iteration\":9}' WHERE sequence = 1",
            "what iteration 2 committed does not",
        ),
        ("DELETE FROM commits WHERE iteration = 3", "it holds records of iteration 3 but no such commit"),
        ("UPDATE config SET value = '{\"a\":2}'", "what iteration 1 committed does not match"),
    ],
)
def test_what_was_changed_in_the_database_is_found(
    copied: Path, statement: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(copied / "run.sqlite") as database:
        database.execute(statement)
    database.close()
    status, lines = said(capsys, str(copied), "--json")
    (found,) = json.loads("\n".join(lines)).values()
    assert status == 1 and any(expected in problem for problem in found["problems"])


def test_a_database_that_was_cut_off_is_one_line(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (copied / "run.sqlite").read_bytes()
    (copied / "run.sqlite").write_bytes(content[: len(content) // 2])
    status, lines = said(capsys, str(copied))
    assert status == 1 and len(lines) == 1 and "run.sqlite" in lines[0]


def test_no_run_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify-run", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
