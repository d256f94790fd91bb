"""Nothing that is read from a run is used before it is verified: whatever is edited, every command that reads refuses.

`--no-verify` leaves out the records alone, and says so.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from present import present

from gce.adapters.runs import run_directory
from gce.adapters.runs.directory_store import run_of
from gce.adapters.runs.reader import DirectoryReader
from gce.adapters.runs.run_directory import RunDirectory
from gce.adapters.system.durable_files import write_file
from gce.app import cli
from gce.app.wiring.runs import UNVERIFIED
from gce.errors import DamagedStore
from gce.testing.contracts.runs import assert_same_state, example_state

OLD = Path(__file__).parent / "runs" / "layout-1"
TOY = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
SIZES = ("--problems", "3", "--rollouts", "2", "--iterations", "3", "--updates", "1", "--dev", "2", "--test", "2")
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "traces": lambda run: ["traces", str(run), "--out", str(run.parent / "out" / "traces.jsonl")],
    "report": lambda run: ["report", str(run), "--json"],
    "report of a study": lambda run: ["report", str(study_of(run)), "--json"],
    "rescore": lambda run: ["rescore", str(run)],
    "replay": lambda run: ["replay", str(run), "T0/0", "--moment", "after"],
    "analyze": lambda run: ["analyze", str(run), "--json"],
    "validity": lambda run: ["validity", str(run), "--n", "1"],
    "export": lambda run: ["export", str(run), "--to", "mlx", "--out", str(run.parent / "out")],
    "resume": lambda run: ["train", "--run-dir", str(run), "--resume"],
    "evaluate": lambda run: [
        *("evaluate", *TOY, "--n", "1", "--adapter", str(run / "checkpoints" / "last")),
    ],
    "train": lambda run: [
        *("train", *TOY, *SIZES, "--adapter", str(run / "checkpoints" / "last"), "--run-dir", str(run.parent / "new")),
    ],
}
SAID = ("does not match", "as it was written", "damaged", "missing", "no such commit", "No such file")
READ_RECORDS = ("traces", "report", "report of a study", "rescore", "analyze")
"""Those that take --no-verify."""


def study_of(run: Path) -> Path:
    """A study's directory with the run as its only one."""
    study = run.parent / "study"
    place = study / "full" / "seed-0"
    if not place.exists():
        place.parent.mkdir(parents=True)
        place.symlink_to(run)
    return study


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    assert cli.main(["train", *TOY, *SIZES, "--run-dir", str(path)]) == 0
    assert cli.main(["validity", str(path), "--n", "1"]) == 0
    return path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run", symlinks=True)


def edit(run: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(run / "run.sqlite")
    database.execute("PRAGMA synchronous = OFF")
    with database:
        database.execute(statement, values)
    database.close()


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(run / "run.sqlite")
    found = database.execute(query).fetchall()
    database.close()
    return found


def refused(run: Path, capsys: pytest.CaptureFixture[str], *names: str) -> None:
    """Assert that the commands end with one line that says what is wrong and what to do."""
    for name in names or COMMANDS:
        capsys.readouterr()
        assert cli.main(COMMANDS[name](run)) == 2, name
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1, (name, err)
        assert any(word in err for word in SAID), (name, err)
        assert "put back a copy" in err or "again" in err, (name, err)
        for made in ("out", "new"):
            assert not (run.parent / made).exists(), name


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each plain value."""
    if isinstance(value, (dict, list)) and value:
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*path, name))
    else:
        yield path


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """The same with another value there."""
    if not path:
        other: dict[type, Any] = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v + 0.5}
        return other.get(type(value), lambda v: "x")(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:])
    return copy


def test_the_commands_work_on_what_was_not_edited(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in COMMANDS.items():
        status = cli.main(command(run))
        err = capsys.readouterr().err
        if name == "export":
            assert "holds no LoRA adapter" in err, "the toy model keeps what it learned otherwise"
        else:
            assert status == 0, (name, err)


# Records


@pytest.mark.slow
def test_any_field_of_any_record_that_is_edited_is_refused(whole: Path, tmp_path: Path) -> None:
    """The first, a middle and the last record of each stream; by the reader that every command uses."""
    tried = 0
    copy = shutil.copytree(whole, tmp_path / "run", symlinks=True)
    for stream, last in rows(whole, "SELECT stream, max(sequence) FROM records GROUP BY stream"):
        for sequence in sorted({0, last // 2, last}):
            ((body,),) = rows(whole, f"SELECT body FROM records WHERE stream = '{stream}' AND sequence = {sequence}")
            for path in leaves(json.loads(body)):
                other = json.dumps(changed(json.loads(body), path), separators=(",", ":"))
                assert other != body
                where = (stream, sequence)
                edit(copy, "UPDATE records SET body = ? WHERE stream = ? AND sequence = ?", other, *where)
                with pytest.raises(DamagedStore, match="does not match its digest: put back"):
                    DirectoryReader(copy)
                edit(copy, "UPDATE records SET body = ? WHERE stream = ? AND sequence = ?", body, *where)
                tried += 1
    with DirectoryReader(copy) as reader:
        assert reader.summary() is not None
    assert tried > 200


EDITS = {
    "a record's text": "UPDATE records SET body = replace(body, 'w', 'v') WHERE stream = 'rollouts'",
    "a verdict": "UPDATE records SET body = replace(body, 'wrong', 'right') WHERE stream = 'rollouts'",
    "a trace": "UPDATE records SET body = replace(body, 'right', 'wrong') WHERE stream = 'traces' AND sequence = 0",
    "an iteration's accuracy": (
        "UPDATE records SET body = replace(body, '\"admitted\":', '\"admitted\":1') WHERE stream = 'iterations'"
    ),
    "a test's accuracy": "UPDATE records SET body = replace(body, '\"n\":2', '\"n\":3') WHERE stream = 'evaluations'",
    "the stream of a record": "UPDATE records SET stream = 'traces' WHERE stream = 'rollouts' AND sequence = 17",
    "the iteration of a record": "UPDATE records SET iteration = 2 WHERE stream = 'rollouts' AND sequence = 0",
    "the first row removed": "DELETE FROM records WHERE stream = 'rollouts' AND sequence = 0",
    "the last row removed": (
        "DELETE FROM records WHERE stream = 'rollouts' AND sequence = (SELECT max(sequence) FROM records "
        "WHERE stream = 'rollouts')"
    ),
    "a row inserted": (
        "INSERT INTO records SELECT stream, max(sequence) + 1, iteration, body FROM records WHERE stream = 'rollouts'"
    ),
    "a row of an iteration to come": (
        "INSERT INTO records SELECT stream, max(sequence) + 1, 99, body FROM records WHERE stream = 'rollouts'"
    ),
    "rows reordered": "UPDATE records SET sequence = 1 - sequence - 1000 * (sequence < 2) WHERE stream = 'rollouts'",
    "two rows swapped": (
        "UPDATE records SET body = (SELECT body FROM records AS other WHERE other.stream = records.stream AND "
        "other.sequence = 1 - records.sequence) WHERE stream = 'rollouts' AND sequence < 2"
    ),
    "a commit removed": "DELETE FROM commits WHERE iteration = 2",
    "the last commit removed": "DELETE FROM commits WHERE iteration = 3",
    "all commits removed": "DELETE FROM commits",
    "a link of the chain": "UPDATE commits SET digest = iif(digest LIKE 'a%', 'b', 'a') || substr(digest, 2) "
    "WHERE iteration = 1",
    "the last link of the chain": "UPDATE commits SET digest = lower(hex(randomblob(32))) WHERE iteration = 3",
    "the loop's state": "UPDATE commits SET loop = replace(loop, '1', '2') WHERE iteration = 1",
    "the checkpoint's hashes": "UPDATE commits SET files = replace(files, 'a', 'b') WHERE iteration = 3",
    "what is pinned": "UPDATE commits SET pinned = '[99]' WHERE iteration = 3",
    "a setting": "UPDATE config SET value = replace(value, '\"seed\":0', '\"seed\":1') WHERE name = 'settings'",
    "a setting removed": "DELETE FROM config WHERE name = 'versions'",
    "a view": "DROP VIEW rollouts",
}


@pytest.mark.parametrize("what", EDITS)
def test_every_command_refuses_an_edited_database(what: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows(run, "SELECT * FROM records"), rows(run, "SELECT * FROM commits"), rows(run, "SELECT * FROM config")
    edit(run, EDITS[what])
    after = rows(run, "SELECT * FROM records"), rows(run, "SELECT * FROM commits"), rows(run, "SELECT * FROM config")
    assert (before != after) == (what != "a view"), "the edit changes something"
    refused(run, capsys)


def test_the_last_iteration_cut_out_whole_is_missed_by_its_head(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The chain that is left is one that a run may have; `head.json` knows of more."""
    edit(run, "DELETE FROM records WHERE iteration = 3")
    edit(run, "DELETE FROM commits WHERE iteration = 3")
    with pytest.raises(DamagedStore, match=r"ends with iteration 2, but head\.json says that 3 was committed"):
        DirectoryReader(run)
    refused(run, capsys)


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b'{"iteration": 3, "digest": "0"}\n'])
def test_a_head_that_is_edited_or_gone_is_refused(
    content: bytes | None, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "head.json").unlink()
    if content is not None:
        (run / "head.json").write_bytes(content)
    refused(run, capsys)


@pytest.mark.parametrize("name", READ_RECORDS)
def test_without_verifying_a_command_says_so(name: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(run, "UPDATE commits SET loop = '{}' WHERE iteration = 1")
    refused(run, capsys, name)
    cli.main([*COMMANDS[name](run), "--no-verify"])
    out, err = capsys.readouterr()
    assert f"warning: {UNVERIFIED}\n" in err
    assert "does not match" not in err
    if name == "report":
        assert json.loads(out)[0] == {"title": "Records", "words": [UNVERIFIED], "tables": [], "figures": {}}


def test_what_is_made_of_records_that_were_not_verified_says_so(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verify in (True, False):
        option = () if verify else ("--no-verify",)
        folder = run.parent / f"set-{verify}"
        capsys.readouterr()
        assert cli.main(["traces", str(run), "--to", "hf", "--out", str(folder), "--json", *option]) == 0
        assert json.loads(capsys.readouterr().out)["verified"] is verify
        assert (UNVERIFIED in (folder / "README.md").read_text()) is not verify
        assert cli.main(["rescore", str(run), "--json", *option]) == 0
        assert json.loads(capsys.readouterr().out)["verified"] is verify


# Files beside the database

FILES = {
    "summary.json": ("traces", "report", "report of a study", "validity"),
    "test-after.jsonl": ("report", "report of a study", "rescore", "validity"),
    "test-before.jsonl": ("rescore",),
    "validity.json": ("report",),
}


@pytest.mark.parametrize("name", FILES)
def test_any_value_of_a_report_that_is_edited_is_refused(
    name: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run / name
    content = path.read_text()
    parts = content.splitlines(keepends=True) if name.endswith("l") else [content]
    tried = 0
    for place, part in enumerate(parts):
        for way in list(leaves(json.loads(part)))[:: 1 + len(content) // 2000]:
            other = json.dumps(changed(json.loads(part), way))
            path.write_text("".join([*parts[:place], other + "\n", *parts[place + 1 :]]))
            with pytest.raises(DamagedStore, match="is not as it was written"), DirectoryReader(run) as reader:
                read_beside(reader, name)
            tried += 1
    assert tried > 20
    refused(run, capsys, *FILES[name])


def read_beside(reader: DirectoryReader, name: str) -> object:
    if name == "validity.json":
        return reader.card()
    return reader.summary() if name == "summary.json" else reader.answers(name.removesuffix(".jsonl"))


@pytest.mark.parametrize("name", ["test-after.jsonl", "test-before.jsonl"])
def test_answers_added_left_out_swapped_or_of_the_other_test_are_refused(name: str, run: Path) -> None:
    path = run / name
    lines = path.read_text().splitlines(keepends=True)
    (other,) = {"test-after.jsonl", "test-before.jsonl"} - {name}
    for content in (lines[1:], lines[:-1], [*lines, lines[0]], lines[::-1], [], [(run / other).read_text()]):
        path.write_text("".join(content))
        with pytest.raises(DamagedStore, match="is not as it was written"), DirectoryReader(run) as reader:
            reader.answers(name.removesuffix(".jsonl"))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM written WHERE name = 'summary.json'",
        "UPDATE written SET hash = 'x' || substr(hash, 2)",
        "UPDATE written SET iteration = iteration + 1",
        "UPDATE written SET name = replace(replace(name, 'summary.json', 'other'), 'test-after.jsonl', 'summary.json')",
        "UPDATE written SET digest = 'x'",
    ],
)
def test_a_report_whose_hash_is_edited_or_gone_is_refused(
    statement: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(run, statement)
    refused(run, capsys, *FILES["summary.json"])


def test_a_card_of_an_older_version_is_read_as_it_is(run: Path) -> None:
    card = json.loads((run / "validity.json").read_text())
    del card["sha256"]
    (run / "validity.json").write_text(json.dumps(card))
    with DirectoryReader(run) as reader:
        assert reader.card() == card


# Checkpoints


def swapped(run: Path, name: str) -> None:
    one, other = (run / "checkpoints" / f"iteration-000{number}" / name for number in (2, 3))
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)


def folders_swapped(run: Path) -> None:
    home = run / "checkpoints"
    (home / "iteration-0002").rename(home / "x")
    (home / "iteration-0003").rename(home / "iteration-0002")
    (home / "x").rename(home / "iteration-0003")


def linked(run: Path) -> None:
    home = run / "checkpoints"
    shutil.rmtree(home / "iteration-0003")
    (home / "iteration-0003").symlink_to("iteration-0002")


def bit_flipped(run: Path) -> None:
    path = run / "checkpoints" / "iteration-0003" / "adapters.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "weights of two iterations swapped": lambda run: swapped(run, "adapters.safetensors"),
    "states of two iterations swapped": lambda run: swapped(run, "state.json"),
    "folders swapped": folders_swapped,
    "a folder that links to another": linked,
    "a bit": bit_flipped,
    "a file gone": lambda run: (run / "checkpoints" / "iteration-0003" / "optimizer.safetensors").unlink(),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_checkpoint_that_is_not_the_iteration_s_own_is_refused(
    what: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGE[what](run)
    refused(run, capsys, "export", "evaluate", "train", "validity", "resume")
    for name in ("last", "iteration-0003"):
        for command in ("evaluate", "train", "export"):
            arguments = [str(run / "checkpoints" / name) if "last" in each else each for each in COMMANDS[command](run)]
            if command == "export":
                arguments[1] = str(run / "checkpoints" / name)
            assert cli.main(arguments) == 2, (command, name)
            assert "iteration-0003" in capsys.readouterr().err


def assert_newest(last: Path) -> None:
    """Assert that `last` is read as the state of iteration 3, whatever lies there."""
    run = last.parent.parent
    name, iteration = run_of(last) or ("", 0)
    with DirectoryReader(name, verify=False) as reader, DirectoryReader(run) as whole:
        assert_same_state(reader.checkpoint(iteration)[1], whole.checkpoint(3)[1])


def test_last_is_the_newest_that_was_committed_wherever_it_points(run: Path) -> None:
    """Also where it is a folder, as in a copy that followed links."""
    last = run / "checkpoints" / "last"
    with DirectoryReader(run) as reader:
        assert reader.checkpoint()[0] == 3
    last.unlink()
    last.symlink_to("iteration-0002")
    assert run_of(last) == (str(run), None)
    assert_newest(last)
    last.unlink()
    shutil.copytree(run / "checkpoints" / "iteration-0002", last)
    assert_newest(last)


def test_a_name_outside_that_links_into_a_run_is_verified_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(run / "checkpoints" / "iteration-0003")
    assert run_of(tmp_path / "mine") == (str(run), 3)
    shutil.copytree(run / "checkpoints" / "iteration-0003", tmp_path / "copied")
    assert run_of(tmp_path / "copied") is None


# Runs that are being written, and old ones


def test_a_run_is_readable_at_every_step_of_a_commit(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def look(step: str) -> None:
        if (tmp_path / "run" / "run.sqlite").exists():
            with DirectoryReader(tmp_path / "run") as reader:
                seen.append((step, len(list(reader.read("numbers")))))

    with RunDirectory.create(tmp_path / "run", {"settings": {}}, on_step=look) as run:
        for iteration in range(1, 4):
            run.append("numbers", {"iteration": iteration})
            run.hold({"wave": iteration})
            run.commit(iteration, example_state(iteration), {})
    assert {step for step, _ in seen} >= {"hold", "file", "rename", "rows", "commit", "head", "link", "delete"}
    assert [count for _, count in seen] == sorted(count for _, count in seen)
    assert seen[-1][1] == 3


def test_a_reader_keeps_to_what_was_committed_when_it_was_opened(tmp_path: Path) -> None:
    with RunDirectory.create(tmp_path / "run", {"settings": {}}) as run:
        run.append("numbers", {"n": 1})
        run.commit(1, None, {})
        with DirectoryReader(tmp_path / "run") as reader:
            run.append("numbers", {"n": 2})
            run.commit(2, None, {})
            assert list(reader.read("numbers")) == [{"n": 1}]
        with DirectoryReader(tmp_path / "run") as reader:
            assert list(reader.read("numbers")) == [{"n": 1}, {"n": 2}]


def test_a_run_that_goes_back_stays_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its head and its commits, both are those of one chain."""
    path = tmp_path / "run"
    with RunDirectory.create(path, {"settings": {}}) as run:
        for iteration in range(1, 4):
            run.append("numbers", {"n": iteration})
            run.commit(iteration, None, {})
    seen: list[int] = []

    def write(target: Path, content: bytes) -> None:
        write_file(target, content)
        with DirectoryReader(path) as reader:
            seen.append(len(list(reader.read("numbers"))))

    monkeypatch.setattr(run_directory, "write_file", write)
    RunDirectory.open(path, discard_after=1).close()
    assert seen == [3]
    with DirectoryReader(path) as reader:
        assert len(list(reader.read("numbers"))) == 1


def test_nobody_who_reads_beside_a_writer_finds_damage(tmp_path: Path) -> None:
    path, ended, found = tmp_path / "run", threading.Event(), []

    def read() -> None:
        while not ended.is_set():
            with DirectoryReader(path) as reader:
                found.append(len(list(reader.read("numbers"))))

    with RunDirectory.create(path, {"settings": {}}) as run:
        run.commit(1, None, {})
        thread = threading.Thread(target=read)
        thread.start()
        try:
            for iteration in range(2, 60):
                run.append("numbers", {"n": iteration})
                run.commit(iteration, None, {})
        finally:
            ended.set()
            thread.join()
    assert len(found) > 3 and found == sorted(found)


def test_an_old_run_is_verified_by_its_chain_and_its_reports_once_it_went_on(tmp_path: Path) -> None:
    """Its layout kept no hashes of reports; what it held when it was brought up to date counts as written."""
    old = shutil.copytree(OLD, tmp_path / "run", symlinks=True)
    with DirectoryReader(old) as reader:
        summary = present(reader.summary())
    (old / "summary.json").write_text(json.dumps(summary | {"rollouts": 10**6}))
    with DirectoryReader(old) as reader:
        assert present(reader.summary())["rollouts"] == 10**6, "nothing says otherwise"
    RunDirectory.open(old).close()
    with DirectoryReader(old) as reader:
        assert present(reader.summary())["rollouts"] == 10**6
    (old / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(DamagedStore, match="is not as it was written"), DirectoryReader(old) as reader:
        reader.summary()
    edit(old, "UPDATE records SET body = replace(body, 'right', 'wrong') WHERE stream = 'rollouts'")
    with pytest.raises(DamagedStore, match="does not match its digest"):
        DirectoryReader(old)
