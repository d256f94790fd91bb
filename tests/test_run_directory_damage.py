"""What a run directory makes of kills, full disks and changed bits: the last commit stays, and damage is found."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stores import checkpoints_in

pytest.importorskip("safetensors")

from present import present

from gce.adapters.runs.reader import DirectoryReader
from gce.adapters.runs.run_directory import STEPS, RunDirectory
from gce.adapters.runs.sqlite_file import RunDatabase, reading_failed
from gce.adapters.system.durable_files import write_file
from gce.domain.learning import ModelState
from gce.errors import BadInput, DamagedStore, GceError
from gce.testing.contracts.runs import assert_same_state, example_state

CONFIG = {"preset": "grounded", "seed": 7}
FILES = ["adapter_config.json", "adapters.safetensors", "optimizer.safetensors", "state.json"]
REPORTS = ["summary.json", "test-after.jsonl"]
NEWEST = [f"checkpoints/iteration-0002/{name}" for name in FILES]
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are kept in memory, if anywhere: hundreds of syncs to a disk take long and show nothing here."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def fill(run: Any, iterations: Any, *, hold: bool = True) -> None:
    for iteration in iterations:
        for number in range(5):
            run.append("rollouts", {"iteration": iteration, "text": f"job {number} " * 20})
        run.append("iterations", {"iteration": iteration, "loss": 0.5})
        if hold:
            run.hold({"wave": iteration})
        run.commit(iteration, example_state(iteration), {"next": iteration + 1, "note": "loop state"})


@pytest.fixture(scope="module")
def whole() -> Iterator[Any]:
    """A closed run with commits 0 to 2; tests copy it."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder) / "run"
        with RunDirectory.create(root, CONFIG) as run:
            fill(run, range(3))
            run.hold({"wave": "three and one"})
            run.hold({"wave": "three and two"})
            run.write_summary({"mean": 0.5})
            run.write_answers("test-after", [{"text": "job 1"}])
        yield root


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run", symlinks=True)


def reading(root: Path) -> tuple[Any, Any]:
    """Everything that a run says, in comparable form."""
    with RunDirectory.open(root) as run:
        iteration, state, loop = present(run.last())
        assert state is not None
        arrays = {name: (str(array.dtype), array.shape, array.tobytes()) for name, array in state.arrays.items()}
        streams = [list(run.read(stream)) for stream in ("rollouts", "iterations")]
        return json.dumps([iteration, loop, state.settings, run.config, streams]), arrays


def flip(path: Any, offset: Any, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def is_as_of(root: Path, iteration: int) -> None:
    """Assert that the run stands whole at this commit and goes on from there."""
    with RunDirectory.open(root) as run:
        found, state, loop = present(run.last())
        assert (found, loop["next"]) == (iteration, iteration + 1)
        assert_same_state(state, example_state(iteration))
        assert [record["iteration"] for record in run.read("iterations")] == list(range(iteration + 1))
        assert os.readlink(root / "checkpoints" / "last") == f"iteration-{iteration:04d}"
        allowed = {"last", *(f"iteration-{each:04d}" for each in range(iteration + 1))}
        assert set(os.listdir(root / "checkpoints")) <= allowed, "nothing uncommitted is left"
        fill(run, [iteration + 1])
        assert present(run.last())[0] == iteration + 1
    assert set(os.listdir(root)) - set(REPORTS) == {"checkpoints", "head.json", "lock", "run.sqlite"}


# Kills.

KILL = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_run_directory_damage import RunDirectory, STEPS, fill

class Die:
    def __init__(self, step, count):
        self.step, self.count = step, count
    def __call__(self, step):
        self.count -= step == self.step
        if step == self.step and self.count == 0:
            os._exit(9)

for name in os.listdir(sys.argv[1]):
    child = os.fork()
    if not child:
        step, count = name.split("-")
        fill(RunDirectory.open(os.path.join(sys.argv[1], name), on_step=Die(step, int(count))), [3])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9, name
"""


@pytest.mark.slow
def test_a_process_killed_at_any_step_leaves_the_last_commit(whole: Path, tmp_path: Path) -> None:
    """Each step once, each file of the checkpoint, and the two steps that `open` itself takes (count 1)."""
    points = {(step, 1) for step in STEPS} | {("file", count) for count in range(1, 5)} | {("head", 2), ("link", 2)}
    for step, count in points:
        shutil.copytree(whole, tmp_path / f"{step}-{count}", symlinks=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    here = os.path.dirname(__file__)
    subprocess.run([sys.executable, "-c", KILL, tmp_path, here], env=environment, check=True, timeout=100)
    durable = {("head", 2), ("link", 2), ("delete", 1)}
    for step, count in sorted(points):
        is_as_of(tmp_path / f"{step}-{count}", 3 if (step, count) in durable else 2)


def test_a_write_ahead_log_torn_at_any_length_leaves_a_commit(tmp_path: Path) -> None:
    """Power fails while SQLite writes: `head.json` is not written yet, and the log ends anywhere."""
    root = tmp_path / "run"
    with RunDirectory.create(root, CONFIG) as run:
        fill(run, [0])
        head = (root / "head.json").read_bytes()
        fill(run, [1])
        crashed = shutil.copytree(root, tmp_path / "crashed", symlinks=True)
    length = (crashed / "run.sqlite-wal").stat().st_size
    (crashed / "head.json").write_bytes(head)
    seen: set[int | None] = set()
    for number, size in enumerate(range(length, 0, -length // 12)):
        torn = shutil.copytree(crashed, tmp_path / str(number), symlinks=True)
        os.truncate(torn / "run.sqlite-wal", size)
        try:
            with RunDirectory.open(torn) as run:
                seen.add(present(run.last())[0])
                assert [record["iteration"] for record in run.read("iterations")] == list(
                    range(present(run.last())[0] + 1)
                )
        except DamagedStore as exc:  # commit 0, which had been confirmed, is cut off too
            assert "head.json says that 0 was committed" in str(exc)
            seen.add(None)
    assert seen == {1, 0, None}


def test_files_are_on_the_disk_before_the_row_that_names_them(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, real = set(), os.fsync

    def fsync(descriptor: Any) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    def on_step(step: Any) -> None:
        home = copy / "checkpoints"
        if step == "rename":
            temporary = home / "iteration-0003.tmp"
            assert {path.stat().st_ino for path in (temporary, *temporary.iterdir())} <= synced
        elif step == "rows":
            assert (home / "iteration-0003").stat().st_ino in synced and home.stat().st_ino in synced
            synced.clear()
        elif step == "link" and synced:
            assert {(copy / "head.json").stat().st_ino, copy.stat().st_ino} <= synced
            seen.append(step)

    seen: list[Any] = []
    with RunDirectory.open(copy, on_step=on_step) as run:
        assert run._database._value("PRAGMA synchronous") == 2, "SQLite syncs at every commit"
        assert run._database._value("PRAGMA journal_mode") == "wal"
        monkeypatch.setattr("os.fsync", fsync)
        fill(run, [3])
    assert seen


# Errors in writing.


def full_disk(step: Any, times: int = 1) -> tuple[Any, Any]:
    left = [0]

    def on_step(name: Any) -> None:
        if name == step and left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device", "/disk")

    def arm() -> None:
        left[0] = times

    return on_step, arm


def test_a_full_disk_is_one_line_and_what_is_to_be_held_can_be_tried_again(copy: Path) -> None:
    on_step, arm = full_disk("hold")
    with RunDirectory.open(copy, on_step=on_step) as run:
        arm()
        with pytest.raises(
            GceError, match=r"cannot write .*No space left .*intact up to iteration 2: .* then resume it"
        ):
            run.hold({"wave": 4})
        assert len(list(run.held())) == 2
        run.hold({"wave": 4})
        assert list(run.held())[2:] == [{"wave": 4}]


@pytest.mark.parametrize("step", STEPS[1:5])
def test_a_full_disk_is_one_line_and_the_commit_can_be_tried_again(copy: Path, step: str) -> None:
    on_step, arm = full_disk(step)
    with RunDirectory.open(copy, on_step=on_step) as run:
        arm()
        with pytest.raises(GceError) as caught:
            fill(run, [3])
        assert re.fullmatch(
            r"cannot commit iteration 3 to .*: No space left on device \(/disk\): the run is intact up to iteration 2: "
            r"make room .* then resume it",
            str(caught.value),
        )
        assert present(run.last())[0] == 2
        assert len(list(run.read("iterations"))) == 3
        assert not list(copy.glob("checkpoints/*.tmp")), "a full disk gets its room back"
        run.commit(3, example_state(3), {"next": 4})
        assert len(list(run.read("iterations"))) == 4, "what was appended is not lost"
    is_as_of(copy, 3)


@pytest.mark.parametrize("step", STEPS[5:])
def test_a_full_disk_after_the_commit_is_a_warning(copy: Path, step: str) -> None:
    on_step, arm = full_disk(step)
    with RunDirectory.open(copy, on_step=on_step) as run:
        arm()
        with pytest.warns(RuntimeWarning, match="iteration 3 is committed to .*, but No space left on device"):
            fill(run, [3])
        assert present(run.last())[0] == 3
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fill(run, [4])
        assert checkpoints_in(copy) == (3, 4)
    is_as_of(copy, 4)


def test_an_interrupted_commit_can_be_done_again_without_reopening(copy: Path) -> None:
    """Control-C in the midst of a checkpoint: none of its files gets into the next one."""

    def on_step(step: Any) -> None:
        seen.append(step)
        if seen.count("file") == 2:
            raise KeyboardInterrupt

    seen: list[Any] = []
    with RunDirectory.open(copy, on_step=on_step) as run:
        with pytest.raises(KeyboardInterrupt):
            fill(run, [3])
        bare = ModelState(arrays=example_state(3).arrays)
        run.commit(3, bare, {"next": 4})
        assert sorted(os.listdir(copy / "checkpoints" / "last")) == FILES[1:]
        assert_same_state(present(run.last())[1], bare)
        assert len(list(run.read("iterations"))) == 4


def test_a_checkpoint_that_cannot_be_deleted_whole_is_never_seen_half_gone(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Any, **_: Any) -> None:
        (path / "state.json").unlink()
        raise OSError(errno.EBUSY, "Device or resource busy")

    with RunDirectory.open(copy) as run:
        with monkeypatch.context() as patched, pytest.warns(RuntimeWarning, match="Device or resource busy"):
            patched.setattr("shutil.rmtree", fail)
            fill(run, [3])
        assert (copy / "checkpoints" / "iteration-0001.old").is_dir()
        fill(run, [4])
        assert sorted(os.listdir(copy / "checkpoints")) == ["iteration-0003", "iteration-0004", "last"]


LIMITED = """
import resource, signal, sys
sys.path.insert(0, sys.argv[2])
from test_run_directory_damage import GceError, RunDirectory, fill, os
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for name in os.listdir(sys.argv[1]):
    run = RunDirectory.open(os.path.join(sys.argv[1], name))
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(name), resource.RLIM_INFINITY))
    try:
        fill(run, [3], hold=False)
    except GceError as exc:
        print(exc)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert run.last()[0] == 2
    run.close()
"""


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_leaves_the_last_commit(whole: Path, tmp_path: Path) -> None:
    """The real thing: the kernel refuses to write past so many bytes, in a checkpoint's file or in SQLite's log."""
    sizes = [0, 1, 100, 350, 1000, 5000]
    for size in sizes:
        shutil.copytree(whole, tmp_path / str(size), symlinks=True)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LIMITED, str(tmp_path), os.path.dirname(__file__)]
    lines = subprocess.run(command, env=environment, check=True, timeout=100, capture_output=True, text=True).stdout
    assert len(lines.splitlines()) == len(sizes)
    assert all(line.startswith("cannot commit iteration 3 to ") for line in lines.splitlines())
    assert "File too large" in lines and ("disk I/O error" in lines or "disk is full" in lines)
    for size in sizes:
        is_as_of(tmp_path / str(size), 2)


def test_a_summary_that_cannot_be_written_leaves_the_old_one(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunDirectory.open(copy) as run:
        run.write_summary({"seconds": 1})

        def fail(_: Any) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(GceError, match=r"cannot write .*summary\.json: Input/output error"):
            run.write_summary({"seconds": 2})
        assert json.loads((copy / "summary.json").read_text()) == {"seconds": 1}
        assert not (copy / "summary.json.tmp").exists()


# Changed bits.


@pytest.mark.parametrize("name", [*NEWEST, "head.json"])
def test_a_changed_bit_in_a_file_is_found_and_named(copy: Path, name: str) -> None:
    size = (copy / name).stat().st_size
    for number, offset in enumerate({0, 1, size // 3, size // 2, size - 2, size - 1}):
        flip(copy / name, offset, number % 8)
        with pytest.raises(DamagedStore, match=re.escape(name)):
            RunDirectory.open(copy)
        flip(copy / name, offset, number % 8)
    is_as_of(copy, 2)


@pytest.mark.parametrize("name", [*NEWEST, "head.json", "run.sqlite"])
@pytest.mark.parametrize("left", [0, 1, 0.5])
def test_a_truncated_or_missing_file_is_found_and_named(copy: Path, name: str, left: float) -> None:
    size = (copy / name).stat().st_size
    os.truncate(copy / name, int(size * left) if left < 1 else size - 1)
    with pytest.raises(DamagedStore, match=re.escape(name)):
        RunDirectory.open(copy)
    if name != "run.sqlite":
        (copy / name).unlink()
        with pytest.raises(DamagedStore, match=re.escape(name)):
            RunDirectory.open(copy)


def test_damage_done_while_the_run_is_open_is_found_by_last(copy: Path) -> None:
    with RunDirectory.open(copy) as run:
        flip(copy / NEWEST[1], 200)
        with pytest.raises(DamagedStore, match=r"iteration-0002/adapters\.safetensors does not match its hash"):
            run.last()


@pytest.mark.slow
def test_a_changed_bit_in_the_database_is_found_or_touches_nothing(whole: Path, copy: Path) -> None:
    """Bits of a database that hold nothing may change; whatever is read must be as it was written."""
    expected = reading(whole)
    content = (whole / "run.sqlite").read_bytes()
    found = 0
    schema = content.index(b"CREATE VIEW")  # SQLite quotes it in errors, even where it is no text any more
    places = [(offset, 7) for offset in range(schema, schema + 100, 9)]
    places += [(offset, offset % 8) for offset in [*range(0, 100, 3), *range(101, len(content), 299)]]
    for offset, bit in places:
        shutil.rmtree(copy)
        shutil.copytree(whole, copy, symlinks=True)
        flip(copy / "run.sqlite", offset, bit)
        try:
            assert reading(copy) == expected, f"offset {offset}"
        except DamagedStore as exc:
            assert "run.sqlite" in str(exc) and "\n" not in str(exc)
            found += 1
    assert found > len(places) / 4


def test_damage_that_only_later_writes_would_meet_is_found(copy: Path) -> None:
    """The list of free room in a page is wrong: all can be read, but what is written next could go anywhere."""
    flip(copy / "run.sqlite", 4096 + 1)
    with pytest.raises(DamagedStore, match=r"run\.sqlite: .*free space"):
        RunDirectory.open(copy)


@pytest.mark.parametrize(
    "part",
    [
        *(b"grounded", b"preset", b"job 3", b"loop state", b'"loss":0.5', b"rollouts{", b"iteration-0002"),
        *(b"CREATE VIEW", b"three and one"),
    ],
)
def test_a_changed_bit_in_any_kind_of_row_is_found(copy: Path, part: bytes) -> None:
    content = (copy / "run.sqlite").read_bytes()
    places = [match.start() for match in re.finditer(re.escape(part.rstrip(b"{")), content)]
    assert places
    for place in places[:2] + places[-1:]:
        flip(copy / "run.sqlite", place + 2)
        with pytest.raises(DamagedStore, match=r"run\.sqlite"):
            RunDirectory.open(copy)
        (copy / "run.sqlite").write_bytes(content)


def alter(root: Path, statement: str) -> None:
    with sqlite3.connect(root / "run.sqlite") as database:
        database.execute(statement)
    database.close()


def test_what_is_held_survives_and_damage_to_it_is_found(copy: Path) -> None:
    with RunDirectory.open(copy) as run:
        assert [record["wave"] for record in run.held()] == ["three and one", "three and two"]
    for statement in (
        "UPDATE held SET body = '{}' WHERE sequence = 0",
        "UPDATE held SET digest = 'x' WHERE sequence = 1",
        "DELETE FROM held WHERE sequence = 0",
    ):
        alter(copy, statement)
        with pytest.raises(DamagedStore, match=r"what is held .* does not match .* with discard_after 2"):
            RunDirectory.open(copy)
        with RunDirectory.open(copy, discard_after=2) as run:
            assert list(run.held()) == []
            run.hold({"wave": "three and one"})
            run.hold({"wave": "three and two"})


def test_damage_to_what_is_known_of_reports_is_found(copy: Path) -> None:
    alter(copy, "UPDATE written SET hash = 'x' WHERE name = 'summary.json'")
    with (
        DirectoryReader(copy) as reader,
        pytest.raises(DamagedStore, match=r"run\.sqlite: what it says of summary\.json does"),
    ):
        reader.summary()
    with pytest.raises(DamagedStore, match=r"what it says of files beside it .* with discard_after 2"):
        RunDirectory.open(copy)


@pytest.mark.parametrize("name", REPORTS)
def test_a_changed_bit_in_a_report_is_found_when_it_is_read(copy: Path, name: str) -> None:
    def read() -> Any:
        with DirectoryReader(copy) as reader:
            return reader.answers("test-after") if name.endswith("jsonl") else reader.summary()

    assert read() == ([{"text": "job 1"}] if name.endswith("jsonl") else None)
    content = (copy / name).read_bytes()
    for place in range(len(content)):
        flip(copy / name, place)
        with pytest.raises(DamagedStore, match=f"{name} is not as it was written: put back a copy"):
            read()
        (copy / name).write_bytes(content)
    (copy / name).unlink()
    assert not read(), "without it there is nothing"


@pytest.mark.parametrize(("replaced", "text"), [(False, "job 1"), (True, "job 2")])
def test_a_report_whose_replacement_was_cut_off_is_the_old_or_the_new_one(
    copy: Path, monkeypatch: pytest.MonkeyPatch, replaced: bool, text: str
) -> None:
    def cut(path: Any, content: Any) -> None:
        if replaced:
            write_file(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr("gce.adapters.runs.run_directory.write_file", cut)
    with RunDirectory.open(copy) as run, pytest.raises(KeyboardInterrupt):
        run.write_answers("test-after", [{"text": "job 2"}])
    with DirectoryReader(copy) as reader:
        assert reader.answers("test-after") == [{"text": text}]


def test_a_stream_damaged_while_the_run_is_open_is_not_read_short(copy: Path) -> None:
    with RunDirectory.open(copy) as run:
        alter(copy, "DELETE FROM records WHERE stream = 'rollouts' AND sequence = 3")
        with pytest.raises(DamagedStore, match=r"run\.sqlite: records of 'rollouts' are damaged"):
            list(run.read("rollouts"))
        alter(copy, "UPDATE records SET body = 'half' WHERE stream = 'iterations' AND sequence = 2")
        with pytest.raises(DamagedStore, match="records of 'iterations' are damaged"):
            list(run.read("iterations"))


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        (sqlite3.SQLITE_BUSY, GceError, "end that one"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, GceError, "end that one"),
        (sqlite3.SQLITE_FULL, GceError, "make room"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, GceError, "make room"),
        (sqlite3.SQLITE_CORRUPT, DamagedStore, "put back a copy"),
    ],
)
def test_what_sqlite_cannot_read_is_damage_only_where_nothing_else_explains_it(
    copy: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[GceError], advice: str
) -> None:
    exc = sqlite3.OperationalError("of several\nlines")
    exc.sqlite_errorcode = code
    found = reading_failed(copy / "run.sqlite", exc)
    assert type(found) is kind and advice in str(found) and "of several lines" in str(found)
    monkeypatch.setattr("os.access", lambda *_: False)
    assert type(reading_failed(copy / "run.sqlite", exc)) is GceError


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = '{}' WHERE iteration = 2 AND stream = 'iterations'",
        "UPDATE records SET body = CAST(body AS BLOB) WHERE iteration = 2",
        "UPDATE records SET body = NULL || 1, sequence = sequence + 100 WHERE 0",
        "DELETE FROM records WHERE iteration = 2 AND stream = 'rollouts' AND sequence = 14",
        "UPDATE records SET iteration = 1 WHERE iteration = 2",
        "UPDATE records SET iteration = 9 WHERE iteration = 2",
        "UPDATE records SET stream = 'rollout' WHERE iteration = 2 AND stream = 'rollouts'",
        "INSERT INTO records VALUES ('rollouts', 99, 9, '{}')",
        "UPDATE commits SET loop = '{}' WHERE iteration = 2",
        "UPDATE commits SET iteration = 7 WHERE iteration = 2",
        "UPDATE commits SET checkpoint_hash = 'x' WHERE iteration = 2",
        "UPDATE commits SET checkpoint = NULL, checkpoint_hash = NULL, files = NULL WHERE iteration = 2",
        "UPDATE commits SET pinned = '[0]' WHERE iteration = 2",
        "DELETE FROM commits WHERE iteration = 1",
        "UPDATE config SET value = '{\"seed\":8}' WHERE name = 'seed'",
        "DELETE FROM config",
        "DROP VIEW rollouts",
    ],
)
def test_a_row_changed_behind_our_back_is_found(copy: Path, statement: str) -> None:
    alter(copy, statement)
    if statement.endswith("WHERE 0"):
        is_as_of(copy, 2)  # the control: nothing changed, nothing found
        return
    with pytest.raises(DamagedStore, match=r"run\.sqlite"):
        RunDirectory.open(copy)


def test_commits_missing_at_the_end_are_found(copy: Path) -> None:
    alter(copy, "DELETE FROM records WHERE iteration = 2")
    alter(copy, "DELETE FROM commits WHERE iteration = 2")
    with pytest.raises(
        DamagedStore, match=r"run\.sqlite ends with iteration 1, but head\.json says that 2 was committed"
    ):
        RunDirectory.open(copy)
    assert (copy / "checkpoints" / "iteration-0002").is_dir(), "a damaged run is left as it is"


def test_a_copy_without_the_write_ahead_log_is_found(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunDirectory.create(root, CONFIG) as run:
        fill(run, range(2))
        copy = shutil.copytree(root, tmp_path / "copy", symlinks=True)
    (copy / "run.sqlite-wal").unlink()
    with pytest.raises(DamagedStore, match=r"ends with iteration None, but head\.json says that 1 was committed"):
        RunDirectory.open(copy)


def test_a_changed_bit_in_the_write_ahead_log_is_found(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with RunDirectory.create(root, CONFIG) as run:
        fill(run, range(3))
        crashed = shutil.copytree(root, tmp_path / "crashed", symlinks=True)
    expected = reading(root)
    length = (crashed / "run.sqlite-wal").stat().st_size
    for number, offset in enumerate(range(5, length, length // 40)):
        copy = shutil.copytree(crashed, tmp_path / str(number), symlinks=True)
        flip(copy / "run.sqlite-wal", offset, number % 8)
        with pytest.raises(DamagedStore, match=r"run\.sqlite"):
            assert reading(copy) != expected
            pytest.fail(f"offset {offset}: read something else")


# The way out.


@pytest.mark.parametrize("name", NEWEST)
def test_the_offered_iteration_is_a_way_out(copy: Path, name: str) -> None:
    flip(copy / name, 20)
    with pytest.raises(DamagedStore) as caught:
        RunDirectory.open(copy)
    assert "resume the run with discard_after 1" in str(caught.value)
    with pytest.raises(BadInput, match="intact and whose checkpoint is kept, 1, got 2"):
        RunDirectory.open(copy, discard_after=2)
    RunDirectory.open(copy, discard_after=1).close()
    is_as_of(copy, 1)


def test_a_damaged_record_of_the_newest_iteration_offers_the_one_before(copy: Path) -> None:
    alter(copy, "UPDATE records SET body = '{}' WHERE iteration = 2 AND stream = 'iterations'")
    with pytest.raises(
        DamagedStore, match=r"what iteration 2 committed does not match its digest.*with discard_after 1"
    ):
        RunDirectory.open(copy)
    with pytest.raises(BadInput, match=r"whose checkpoint is kept, 1 \(.*digest\), got 2"):
        RunDirectory.open(copy, discard_after=2)
    RunDirectory.open(copy, discard_after=1).close()
    is_as_of(copy, 1)


def test_a_damaged_head_offers_the_newest_iteration(copy: Path) -> None:
    flip(copy / "head.json", 3)
    with pytest.raises(DamagedStore, match=r"head\.json.*with discard_after 2"):
        RunDirectory.open(copy)
    RunDirectory.open(copy, discard_after=2).close()
    is_as_of(copy, 2)


def test_without_an_intact_checkpoint_nothing_is_offered(copy: Path) -> None:
    for number in (1, 2):
        flip(copy / f"checkpoints/iteration-000{number}/state.json", 5)
    with pytest.raises(DamagedStore, match="no iteration is intact") as caught:
        RunDirectory.open(copy)
    assert "discard_after" not in str(caught.value)


def test_discarding_what_is_not_there_is_refused(copy: Path) -> None:
    before = (copy / "run.sqlite").read_bytes()
    for iteration in (5, 0):  # The checkpoint of 0 was deleted as old.
        with pytest.raises(BadInput, match=f"whose checkpoint is kept, 1, 2, got {iteration}"):
            RunDirectory.open(copy, discard_after=iteration)
    assert (copy / "run.sqlite").read_bytes() == before
    is_as_of(copy, 2)


def test_a_whole_run_can_go_back_too(copy: Path) -> None:
    """What was written after a later iteration goes; of what was written before, the hash stays."""
    with RunDirectory.open(copy, discard_after=1) as run:
        assert not (copy / "summary.json").exists() and not (copy / "test-after.jsonl").exists()
        run.write_answers("test-before", [{"text": "job 1"}])
        fill(run, [2])
    RunDirectory.open(copy, discard_after=1).close()
    flip(copy / "test-before.jsonl", 3)
    with (
        DirectoryReader(copy) as reader,
        pytest.raises(DamagedStore, match=r"test-before\.jsonl is not as it was written"),
    ):
        reader.answers("test-before")
    (copy / "test-before.jsonl").unlink()
    is_as_of(copy, 1)


@pytest.mark.parametrize("method", ["written_after", "discard_after"])
def test_going_back_that_was_cut_off_went_back_or_did_not(
    copy: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunDatabase, method, cut)
        RunDirectory.open(copy, discard_after=1)
    is_as_of(copy, 2)


@pytest.mark.parametrize(("part", "kept"), [(b"three and one", 2), (b'"iteration":2,"loss"', 1)])
def test_a_bit_that_makes_text_no_text_is_found_as_any_other(copy: Path, part: bytes, kept: int) -> None:
    content = (copy / "run.sqlite").read_bytes()
    flip(copy / "run.sqlite", content.rindex(part) + 3, bit=7)
    with pytest.raises(DamagedStore, match=f"digest: .* with discard_after {kept}"):
        RunDirectory.open(copy)
    RunDirectory.open(copy, discard_after=kept).close()
    is_as_of(copy, kept)


def test_a_report_of_an_older_layout_whose_replacement_was_cut_off_is_still_read(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alter(copy, "DELETE FROM written")
    alter(copy, "DELETE FROM kept_answers")

    def cut(_path: Any, _content: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gce.adapters.runs.run_directory.write_file", cut)
    with RunDirectory.open(copy) as run, pytest.raises(KeyboardInterrupt):
        run.write_answers("test-after", [{"text": "job 2"}])
    with DirectoryReader(copy) as reader:
        assert reader.answers("test-after") == [{"text": "job 1"}]


def test_a_report_that_is_replaced_while_it_is_read_is_not_damaged(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look at the file and one at its hash."""
    hashes, left = RunDatabase.hashes, [1]
    with RunDirectory.open(copy) as run, DirectoryReader(copy) as reader:

        def replaced(database: Any, name: Any) -> Any:
            if left.pop() if left else 0:
                run.write_answers("test-after", [{"text": "job 2"}])
            return hashes(database, name)

        monkeypatch.setattr(RunDatabase, "hashes", replaced)
        assert reader.answers("test-after") == [{"text": "job 2"}]


def test_writing_the_same_again_adds_nothing(copy: Path) -> None:
    with RunDirectory.open(copy) as run:
        for _ in range(3):
            run.write_answers("test-after", [{"text": "job 1"}])
    with sqlite3.connect(copy / "run.sqlite") as database:
        assert database.execute("SELECT count(*) FROM written WHERE name = 'test-after.jsonl'").fetchone() == (1,)


def test_what_was_discarded_can_be_written_again(tmp_path: Path) -> None:
    """A stream that began after the iteration gone back to, and a link to a checkpoint that is no more."""
    root = tmp_path / "run"
    with RunDirectory.create(root, CONFIG) as run:
        run.commit(0, None, {})
        fill(run, [1])
    with RunDirectory.open(root, discard_after=0) as run:
        assert os.listdir(root / "checkpoints") == []
        assert list(run.read("rollouts")) == []
        fill(run, [1])
        assert present(run.last())[0] == 1
        assert checkpoints_in(root) == (1,)


def test_files_that_are_not_ours_are_left_alone(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    (copy / "checkpoints" / "best").mkdir()
    (copy / "checkpoints" / "iteration-0007.tmp").mkdir()
    for name in ("head.json.tmp", "summary.json.tmp", "test-after.jsonl.tmp"):
        (copy / name).write_text("half")
    RunDirectory.open(copy).close()
    assert not list(copy.glob("*.tmp"))
    assert (copy / "notes.txt").read_text() == "mine"
    assert sorted(os.listdir(copy / "checkpoints")) == ["best", "iteration-0001", "iteration-0002", "last"]
