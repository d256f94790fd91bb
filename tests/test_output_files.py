"""Where commands write, and what they never replace."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.runs.run_directory import RunDirectory
from gce.adapters.system.output_files import check_apart, check_appended, check_output, write_output
from gce.app import cli
from gce.errors import BadInput

MARK = re.compile(rb"<mine>")
SIZES = ("--iterations", "1", "--problems", "6", "--rollouts", "2", "--test", "2", "--dev", "1", "--updates", "1")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs") / "run"
    toy = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
    assert cli.main(["train", *toy, *SIZES, "--run-dir", str(root)]) == 0
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The one line of a command that refuses."""
    capsys.readouterr()
    assert cli.main([str(each) for each in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith(f"gce {arguments[0]}: "), err
    return err


def strange(folder: Path, kind: str) -> Path:
    """What is no regular file, or another one's."""
    path = folder / "strange"
    match kind:
        case "a directory":
            path.mkdir()
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            return Path("/dev/null")
        case "a link to a file":
            (folder / "target").write_bytes(b"<mine> but linked")
            path.symlink_to(folder / "target")
        case "a link to a device":
            path.symlink_to("/dev/null")
        case "a link to nothing":
            path.symlink_to(folder / "nothing")
        case "somebody's file":
            path.write_bytes(b"theirs <mine>")
        case "an empty file":
            path.touch()
    return path


STRANGE = [
    *("a directory", "a pipe", "a device", "a link to a file", "a link to a device", "a link to nothing"),
    *("somebody's file", "an empty file"),
]


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("mark", [None, MARK])
def test_what_the_command_did_not_write_is_never_replaced(
    tmp_path: Path, kind: str, mark: re.Pattern[bytes] | None
) -> None:
    path = strange(tmp_path, kind)
    before = path.lstat(), contents(tmp_path)
    with pytest.raises(BadInput, match=r"cannot write|exists already"):
        write_output(path, b"<mine> new", mark=mark, replace=True)
    after = path.lstat()
    assert (stat.S_IFMT(before[0].st_mode), before[0].st_ino) == (stat.S_IFMT(after.st_mode), after.st_ino)
    assert contents(tmp_path) == before[1]


def test_a_file_with_the_mark_is_replaced_when_asked_for_and_no_other_file_stays_behind(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    write_output(path, b"<mine> 1", mark=MARK)
    with pytest.raises(BadInput, match="give force to replace it, or give another out"):
        write_output(path, b"<mine> 2", mark=MARK)
    assert path.read_bytes() == b"<mine> 1"
    write_output(path, b"<mine> 2", mark=MARK, replace=True)
    assert contents(tmp_path) == {"new/out": b"<mine> 2"}
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask, "as any new file"


def test_the_name_that_a_half_written_file_had_is_free_for_others(tmp_path: Path) -> None:
    (tmp_path / "out.tmp").write_text("theirs")
    write_output(tmp_path / "out", b"ours")
    assert contents(tmp_path) == {"out": b"ours", "out.tmp": b"theirs"}


@pytest.mark.parametrize(
    "name",
    [
        *("run.sqlite", "run.sqlite-wal", "RUN.SQLITE", "head.json", "head.json.tmp", "summary.json", "lock"),
        *("validity.json", "test-before.jsonl", "checkpoints/new", "checkpoints/last/new", "checkpoints/../lock"),
    ],
)
def test_names_that_a_run_uses_are_its_own_even_where_nothing_is_there_yet(tmp_path: Path, name: str) -> None:
    with RunDirectory.create(tmp_path / "run", {}):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "run")
    for root in (tmp_path / "run", tmp_path / "link", tmp_path / "run" / ".." / "run"):
        with pytest.raises(BadInput, match="belongs to the run"):
            check_apart(root / name)
    (tmp_path / "into").symlink_to("run/checkpoints")
    with pytest.raises(BadInput, match="belongs to the run"):
        check_apart(tmp_path / "into" / "new")
    for free in ("report.html", "report.md", "export/jsonl/train.jsonl", "pictures/a.png", "train.jsonl"):
        check_apart(tmp_path / "run" / free)


def test_answers_are_appended_to_a_regular_file_alone(tmp_path: Path) -> None:
    for kind in ("a directory", "a pipe", "a link to a device"):
        folder = tmp_path / kind.replace(" ", "-")
        folder.mkdir()
        with pytest.raises(BadInput, match=r"expected a regular file, got a .*: give another --answers"):
            check_appended(strange(folder, kind), instead="give another --answers")
    (tmp_path / "kept").touch()
    (tmp_path / "link").symlink_to("kept")
    for name in ("kept", "link", "new"):
        check_appended(tmp_path / name, instead="")
    with RunDirectory.create(tmp_path / "run", {}):
        pass
    (tmp_path / "to-lock").symlink_to("run/lock")
    with pytest.raises(BadInput, match="belongs to the run"):
        check_appended(tmp_path / "to-lock", instead="")


def test_a_name_that_the_system_does_not_take_is_bad_input(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(BadInput, match="cannot write"):
            check_output(tmp_path / name)


# Commands


FILES_OF_A_RUN = ("run.sqlite", "summary.json", "head.json", "lock", "test-after.jsonl", "checkpoints/last/state.json")


@pytest.mark.parametrize("name", FILES_OF_A_RUN)
def test_no_command_replaces_a_file_of_a_run(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    before, target = contents(run), run / name
    writers: list[tuple[str | Path, ...]] = [
        ("report", run, "--out", target),
        ("report", run, "--out", target, "--force"),
        ("report", run, "--format", "md", "--out", target, "--force"),
        ("report", run, "--format", "png", "--out", target, "--force"),
        ("traces", run, "--out", target),
        ("traces", run, "--to", "hf", "--out", target),
        ("evaluate", "--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--n", "1", "--answers", target),
        ("train", "--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--run-dir", target),
        ("ablate", "--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--dir", target),
    ]
    for arguments in writers:
        assert re.search("belongs to the run|cannot write|no directory", error_of(capsys, *arguments)), arguments
        assert contents(run) == before, arguments


def test_no_run_begins_among_the_checkpoints_of_another(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be deleted as a leftover when that run goes on."""
    toy = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
    for command in (("train", "--run-dir"), ("ablate", "--dir")):
        assert "belongs to the run" in error_of(capsys, command[0], *toy, command[1], run / "checkpoints" / "new")
    assert not (run / "checkpoints" / "new").exists()


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("form", ["html", "md", "png"])
def test_report_replaces_nothing_that_it_did_not_write(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, form: str
) -> None:
    if form != "md":
        pytest.importorskip("matplotlib")
    path = strange(tmp_path, kind)
    if form == "png" and kind == "a directory":
        pytest.skip("where pictures go")
    before = contents(tmp_path)
    error_of(capsys, "report", run, "--format", form, "--out", path, "--force")
    assert contents(tmp_path) == before and not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("form", ["html", "md", pytest.param("png", marks=pytest.mark.slow)])
def test_report_replaces_its_own_page_with_force_and_in_its_own_format(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    if form != "md":
        pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    arguments = ("report", str(run), "--format", form, "--out", str(out))
    assert cli.main(list(arguments)) == 0
    first = contents(tmp_path)
    assert "give --force to replace it" in error_of(capsys, *arguments)
    assert cli.main([*arguments, "--force"]) == 0
    assert contents(tmp_path).keys() == first.keys()
    other = "md" if form == "html" else "html"
    if form != "png":
        assert "did not write it" in error_of(capsys, "report", run, "--format", other, "--out", out, "--force")
    one = next(path for path in sorted(tmp_path.rglob("*")) if path.is_file())
    one.write_bytes(b"edited " + one.read_bytes())
    assert "did not write it" in error_of(capsys, *arguments, "--force")


@pytest.mark.slow
def test_report_without_a_place_is_repeated_at_ease(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    for _ in range(2):
        assert cli.main(["report", str(run)]) == 0
        assert cli.main(["report", str(run), "--format", "png"]) == 0
    (run / "report.html").write_text("my notes")
    assert "did not write it" in error_of(capsys, "report", run)
    assert (run / "report.html").read_text() == "my notes"
    (run / "report.html").unlink()


@pytest.mark.parametrize("kind", [kind for kind in STRANGE if kind != "a directory"])
def test_traces_and_answers_touch_nothing_strange(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    path = strange(tmp_path, kind)
    before = contents(tmp_path)
    error_of(capsys, "traces", run, "--out", path)
    if kind not in ("an empty file", "a link to nothing"):
        model = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--n", "1")
        error_of(capsys, "evaluate", *model, "--answers", path)
    assert contents(tmp_path) == before
