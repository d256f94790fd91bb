"""Tasks exported to other frameworks: what holds of every exporter, and that verdicts are those of gce."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from graded_sums import SUMS

import gce
from gce.app import cli
from gce.app.exports.tasks.exported import TaskExport
from gce.app.exports.tasks.table import EXPORTS
from gce.app.wiring.tasks import find_task
from gce.domain.problems import Problem, Split
from gce.domain.tasks import draw_problems

NAME = "graded_sums:SUMS"
SPLITS: tuple[Split, ...] = ("train", "test")


@pytest.fixture(scope="module")
def sums() -> TaskExport:
    problems = {split: draw_problems(SUMS, "questions", "all", split, 3) for split in SPLITS}
    return TaskExport(SUMS, NAME, "questions", 0, problems)


@pytest.mark.parametrize("framework", EXPORTS)
def test_every_exporter_keeps_the_contract(framework: str, sums: TaskExport) -> None:
    files = EXPORTS[framework](sums)
    assert files == EXPORTS[framework](sums)
    # A generator of reasoning-gym has no such option in gce.
    assert framework == "reasoning-gym" or "admit_at=1.0" in files["README.md"]
    for name, text in files.items():
        assert not Path(name).is_absolute() and ".." not in Path(name).parts
        assert str(Path.home()) not in text and "/tmp" not in text
        if name.endswith(".py"):
            compile(text, name, "exec")
        elif name.endswith(".jsonl"):
            assert [json.loads(line) for line in text.splitlines()]
    assert f'"{sums.name}"' in "".join(files.values())
    keys = [problem.key for problem in sums.problems["test"]]
    assert all(any(key in text for text in files.values()) for key in keys)


def test_an_exported_answer_is_one_that_the_task_calls_right() -> None:
    """The schedule that a rule of thumb demonstrates misses some deadlines: such a problem has no answer."""
    task = find_task("scheduling")
    drawn: dict[Split, tuple[Problem, ...]] = {"dev": draw_problems(task, "grounded", "T2", "dev", 8)}
    rows = TaskExport(task, "scheduling", "grounded", 0, drawn).rows("dev")
    right = [
        gce.verify("scheduling", row["problem"], task.teaching.demonstration(problem, None) or "").right
        for row, problem in zip(rows, drawn["dev"], strict=True)
    ]
    assert [bool(row["answer"]) for row in rows] == right and {*right} == {True, False}


def test_many_directories_alike_are_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export-task", NAME, "--to", "harbor", "--n", "4", "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "  README.md",
        "  12 folders, dev-0000 to train-0003",
        f"how to run it: {tmp_path}/out/README.md",
    ]


@pytest.mark.parametrize("framework", EXPORTS)
def test_the_command_writes_the_directory_whole(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = ["export-task", NAME, "--to", framework, "--n", "4", "--out", str(out)]
    assert cli.main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["framework"] == framework
    assert said["problems"] == {"train": 4, "dev": 4, "test": 4}
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert said["files"] == written
    assert cli.main(command) == 2
    assert "no empty folder" in capsys.readouterr().err


def test_what_has_no_problems_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["export-task", NAME, "--to", next(iter(EXPORTS)), "--n", "0", "--out", str(out)]
    assert cli.main(command) == 2
    assert "--n" in capsys.readouterr().err
    assert not out.exists()


def test_verify_judges_a_problem_that_was_written_down(sums: TaskExport) -> None:
    row = sums.rows("test")[0]
    assert gce.verify(NAME, row["problem"], row["answer"]).outcome == "right"
    assert gce.verify(NAME, json.loads(row["problem"]), "no idea").outcome == "unreadable"
    with pytest.raises(gce.BadInput, match="instance"):
        gce.verify(NAME, "{}", "")
    with pytest.raises(gce.BadInput, match="not JSON"):
        gce.verify(NAME, "{", "")
