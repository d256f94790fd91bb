"""A run directory keeps to the Runs port, lies on disk as documented and has one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from permissions import unwritable
from stores import checkpoints_in, reopened

pytest.importorskip("safetensors")

from present import present

from gce.adapters.runs.directory_store import DirectoryRuns
from gce.adapters.runs.memory_store import MemoryRun
from gce.adapters.runs.run_directory import STEPS, RunDirectory
from gce.adapters.runs.sqlite_views import VIEWS
from gce.domain.learning import ModelState
from gce.errors import BadInput, MissingExtra
from gce.testing.contracts.runs import assert_same_state, check_runs, example_state

CONFIG = {"preset": "grounded", "seed": 7, "tiers": ["T0", "T1"]}
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are kept in memory, if anywhere: hundreds of syncs to a disk take long and show nothing here."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def root(tmp_path: Path) -> Any:
    return tmp_path / "run"


def committed(root: Path, iterations: int = 3, **options: Any) -> Any:
    """A run with some commits, closed."""
    with RunDirectory.create(root, CONFIG, **options) as run:
        for iteration in range(iterations):
            run.append("rollouts", {"iteration": iteration, "text": "start A 0"})
            run.append("iterations", {"iteration": iteration})
            run.commit(iteration, example_state(iteration), {"next": iteration + 1})
    return root


def names(folder: Path) -> list[Any]:
    return sorted(os.listdir(folder))


def run_python(code: str, *arguments: Any) -> Any:
    """Start another process with this package on its path."""
    paths = [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Any, send: Any = None) -> tuple[Any, Any, Any]:
    out, err = process.communicate(send, timeout=60)
    return process.returncode, out, err


# The port.


def test_run_directories_keep_to_the_port(tmp_path: Path) -> None:
    check_runs(DirectoryRuns(), within=str(tmp_path))


class Killed(BaseException):
    """Ends a commit where a real kill would; the package catches no BaseException."""


class SameAsMemory(RuleBasedStateMachine):
    """Whatever is done, and wherever it is cut off, the run directory answers as the store in memory does."""

    streams = st.sampled_from(["rollouts", "iterations", "two words", "records", "Zoë"])
    records = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5) | st.none(), max_size=3)

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory(dir=MEMORY)
        self.killed_at: str | None = None
        self.path = Path(self.home.name) / "run"
        self.run = RunDirectory.create(self.path, CONFIG, on_step=self.on_step)
        self.fake = MemoryRun()
        self.next = 0

    def on_step(self, step: Any) -> None:
        if step == self.killed_at:
            self.killed_at = None
            raise Killed

    def teardown(self) -> None:
        self.run.close()
        self.home.cleanup()

    @rule(stream=streams, record=records)
    def append(self, stream: str, record: Any) -> None:
        self.run.append(stream, record)
        self.fake.append(stream, record)

    @rule(stream=streams, value=st.sampled_from([float("nan"), b"x", {1: 2}]))
    def append_what_is_not_plain(self, stream: str, value: Any) -> None:
        for store in (self.run, self.fake):
            with pytest.raises(TypeError):
                store.append(stream, {"value": value})

    @rule(record=records)
    def hold(self, record: Any) -> None:
        self.run.hold(record)
        self.fake.hold(record)

    @rule(record=records)
    def die_before_holding(self, record: Any) -> None:
        self.killed_at = "hold"
        with pytest.raises(Killed):
            self.run.hold(record)
        self.run.close()
        self.fake = reopened(self.fake)
        self.run = RunDirectory.open(self.path, on_step=self.on_step)

    @rule(gap=st.integers(0, 3), seed=st.none() | st.integers(0, 3), loop=records)
    def commit(self, gap: Any, seed: int, loop: Any) -> None:
        state = None if seed is None else example_state(seed)
        for store in (self.run, self.fake):
            store.commit(self.next + gap, state, loop)
        self.next += gap + 1

    @precondition(lambda self: self.next)
    @rule(back=st.integers(1, 3))
    def commit_an_old_iteration(self, back: Any) -> None:
        for store in (self.run, self.fake):
            with pytest.raises(ValueError, match="expected an iteration"):
                store.commit(self.next - back, None, {})

    @rule()
    def restart(self) -> None:
        self.run.close()
        self.run = RunDirectory.open(self.path, on_step=self.on_step)
        self.fake = reopened(self.fake)

    @rule(step=st.sampled_from(STEPS[1:]), again=st.sampled_from([None, "head", "link"]), loop=records)
    def die_in_a_commit(self, step: Any, again: Any, loop: Any) -> None:
        self.killed_at = step
        with pytest.raises(Killed):
            self.run.commit(self.next, example_state(9), loop)
        self.run.close()
        if STEPS.index(step) > STEPS.index("commit"):
            self.fake.commit(self.next, example_state(9), loop)
            self.next += 1
        self.fake = reopened(self.fake)
        if again:
            self.killed_at = again
            with pytest.raises(Killed):
                RunDirectory.open(self.path, on_step=self.on_step)
        self.run = RunDirectory.open(self.path, on_step=self.on_step)

    @invariant()
    def same(self) -> None:
        found, expected = self.run.last(), self.fake.last()
        assert (found is None) == (expected is None)
        if found and expected:
            assert (found[0], found[2]) == (expected[0], expected[2])
            assert_same_state(found[1], expected[1])
        for stream in ("rollouts", "iterations", "two words", "records", "Zoë"):
            assert list(self.run.read(stream)) == list(self.fake.read(stream))
        assert list(self.run.held()) == list(self.fake.held())
        assert not [name for name in names(self.path / "checkpoints") if "." in name]


TestSameAsMemory = SameAsMemory.TestCase
TestSameAsMemory.settings = settings(
    max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


# What lies on disk.


def test_a_checkpoint_is_what_mlx_lm_reads(root: Path) -> None:
    committed(root)
    last = root / "checkpoints" / "last"
    assert names(last) == ["adapter_config.json", "adapters.safetensors", "optimizer.safetensors", "state.json"]
    assert json.loads((last / "adapter_config.json").read_text()) == example_state().settings["adapter_config"]
    assert json.loads((last / "state.json").read_text()) == {"iteration": 2, "settings": example_state(2).settings}
    mx = pytest.importorskip("mlx.core")
    arrays = mx.load(str(last / "adapters.safetensors"))
    assert set(arrays) == {name[8:] for name in example_state().arrays if name.startswith("adapter.")}
    key = "model.layers.1.self_attn.q_proj.lora_a"
    assert np.array_equal(np.array(arrays[key]), example_state(2).arrays["adapter." + key])


def test_last_is_a_relative_link_to_the_newest_checkpoint(root: Path, tmp_path: Path) -> None:
    committed(root)
    assert os.readlink(root / "checkpoints" / "last") == "iteration-0002"
    moved = root.rename(tmp_path / "moved")
    with RunDirectory.open(moved) as run:
        run.commit(3, None, {})
        assert os.readlink(moved / "checkpoints" / "last") == "iteration-0002"
        run.commit(4, example_state(), {})
    assert os.readlink(moved / "checkpoints" / "last") == "iteration-0004"


def test_a_copy_that_followed_links_goes_on(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(committed(root), tmp_path / "copy")
    assert not (copy / "checkpoints" / "last").is_symlink()
    with RunDirectory.open(copy) as run:
        assert present(run.last())[0] == 2
        run.commit(3, example_state(3), {})
    assert os.readlink(copy / "checkpoints" / "last") == "iteration-0003"
    assert names(copy / "checkpoints") == ["iteration-0002", "iteration-0003", "last"]


def test_the_checkpoint_hash_can_be_recomputed_with_sha256sum(root: Path) -> None:
    committed(root)
    folder = root / "checkpoints" / "iteration-0002"
    lines = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names(folder))
    with sqlite3.connect(root / "run.sqlite") as database:
        stored = database.execute("SELECT checkpoint, checkpoint_hash FROM commits ORDER BY iteration").fetchall()
    assert stored[-1] == ("iteration-0002", hashlib.sha256(lines.encode()).hexdigest())


def test_equal_runs_give_equal_checkpoints_and_digests(tmp_path: Path) -> None:
    heads = []
    for number in range(2):
        root = committed(tmp_path / str(number))
        heads.append(
            [path.read_bytes() for path in (root / "head.json", *sorted((root / "checkpoints/last").iterdir()))]
        )
    assert heads[0] == heads[1]


@pytest.mark.parametrize(("keep", "kept"), [(1, [5]), (2, [4, 5]), (9, [0, 1, 2, 3, 4, 5])])
def test_only_the_newest_checkpoints_are_kept(root: Path, keep: int, kept: list[int]) -> None:
    committed(root, 6, keep=keep)
    assert names(root / "checkpoints") == [*(f"iteration-{each:04d}" for each in kept), "last"]


def test_a_pinned_checkpoint_stays_until_another_is_pinned(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        for iteration in range(3):
            run.commit(iteration, example_state(), {})
            if iteration == 0:
                run.pin(0)
        assert checkpoints_in(root) == (0, 1, 2)
    with RunDirectory.open(root) as run:
        run.commit(3, example_state(), {})
        assert checkpoints_in(root) == (0, 2, 3), "pins are kept over a restart"
        run.pin(2)
        run.pin(77)
        run.commit(4, example_state(), {})
        run.commit(5, example_state(), {})
        assert checkpoints_in(root) == (2, 4, 5)
        run.pin(0)
        run.commit(6, example_state(), {})
        assert checkpoints_in(root) == (2, 5, 6), "what is gone cannot be pinned"


def test_commits_without_a_state_do_not_push_checkpoints_out(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        run.commit(0, example_state(), {})
        for iteration in range(1, 5):
            run.commit(iteration, None, {})
        assert checkpoints_in(root) == (0,)


def test_other_programs_query_views_named_like_streams(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        for stream in ("rollouts", "iterations", "records", "two words", "Zoë", "sqlite_x", "order", "rollouts"):
            run.append(stream, {"tier": "T1", "stream": stream})
        run.commit(4, None, {})
        database = sqlite3.connect(f"{(root / 'run.sqlite').as_uri()}?mode=ro", uri=True)
        query = "SELECT iteration, sequence, json_extract(body, '$.tier') FROM rollouts"
        assert database.execute(query).fetchall() == [(4, 0, "T1"), (4, 1, "T1")]
        views = database.execute("SELECT name FROM sqlite_master WHERE type = 'view' ORDER BY name").fetchall()
        assert [name for (name,) in views] == sorted({*VIEWS, "order"})
        assert len(list(run.read("records"))) == len(list(run.read("sqlite_x"))) == 1
        database.close()


def test_the_config_comes_back(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        assert run.config == CONFIG and list(run.config) == list(CONFIG)
    with RunDirectory.open(root) as run:
        assert run.config == CONFIG


def test_answers_are_replaced_whole(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        run.write_answers("test-after", [{"text": "a"}])
        run.write_answers("test-after", [{"text": "b\u2028"}, {"right": True}])
        lines = (root / "test-after.jsonl").read_bytes().split(b"\n")
        assert [json.loads(line) for line in lines[:-1]] == [{"text": "b\u2028"}, {"right": True}]
        with pytest.raises(TypeError, match=r"answer\.score: expected a finite number"):
            run.write_answers("test-after", [{"score": float("inf")}])
        assert (root / "test-after.jsonl").read_bytes().count(b"\n") == 2


def test_the_summary_is_replaced_whole(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        run.write_summary({"seconds": 1})
        run.write_summary({"seconds": 2.5, "before": {"T0": {"n": 200}}})
        assert json.loads((root / "summary.json").read_text()) == {"seconds": 2.5, "before": {"T0": {"n": 200}}}
        with pytest.raises(TypeError, match=r"summary\.seconds: expected a finite number"):
            run.write_summary({"seconds": float("nan")})
        assert json.loads((root / "summary.json").read_text())["seconds"] == 2.5
    assert names(root) == ["checkpoints", "head.json", "lock", "run.sqlite", "summary.json"]


# Starting, going on, ending.


def test_create_makes_missing_parents_and_takes_an_empty_directory(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "a" / "b" / "run", CONFIG).close()
    (tmp_path / "empty").mkdir()
    RunDirectory.create(tmp_path / "empty", CONFIG).close()
    with RunDirectory.open(tmp_path / "empty") as run:
        assert run.last() is None


def test_create_refuses_an_existing_run(root: Path) -> None:
    committed(root)
    before = (root / "run.sqlite").read_bytes()
    with pytest.raises(BadInput, match=r"holds a run already: resume it, or give another directory"):
        RunDirectory.create(root, CONFIG)
    assert (root / "run.sqlite").read_bytes() == before


@pytest.mark.parametrize("name", ["thesis.tex", "checkpoints/iteration-0001"])
def test_create_refuses_a_directory_with_something_in_it(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("mine")
    with pytest.raises(BadInput, match=r"expected a new or empty directory.*give another directory"):
        RunDirectory.create(root, CONFIG)
    assert [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()] == [name]


def test_create_refuses_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(BadInput, match=r"cannot start a run.*Not a directory.*give another directory"):
            RunDirectory.create(path, CONFIG)
    assert names(tmp_path) == ["file"]


def test_create_and_open_refuse_a_directory_without_permission() -> None:
    with unwritable(lambda closed: RunDirectory.create(closed / "run", CONFIG).close()) as closed:
        with pytest.raises(BadInput, match=r"cannot start a run in .*closed/new: Permission denied"):
            RunDirectory.create(closed / "new", CONFIG)
        with pytest.raises(BadInput, match=r"cannot go on with the run .*closed/run: Permission denied"):
            RunDirectory.open(closed / "run")


@pytest.mark.parametrize("step", ["write_file", "sync_directory", "RunDatabase"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), sqlite3.OperationalError("disk is full")])
def test_a_failed_start_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Any) -> None:
    def fail(*_: Any) -> None:
        (tmp_path / "a" / "run" / "run.sqlite-wal").write_text("")
        raise error

    monkeypatch.setattr(f"gce.adapters.runs.run_directory.{step}", fail)
    if step == "RunDatabase":
        monkeypatch.setattr(fail, "start", lambda *_: "digest", raising=False)
        monkeypatch.setattr("os.replace", lambda *_: None)
    with pytest.raises(BadInput, match=r"cannot start a run in .*(No space left on device|disk is full): give another"):
        RunDirectory.create(tmp_path / "a" / "run", CONFIG)
    assert names(tmp_path) == []


def test_a_new_run_is_on_the_disk_before_it_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = set()
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    RunDirectory.create(root, CONFIG).close()
    assert {path.stat().st_ino for path in (root.parent, root, root / "head.json")} <= synced


def test_two_that_start_at_once_do_not_share_a_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        (root / "run.sqlite").write_text("the other was faster")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(BadInput, match="holds a run already"):
        RunDirectory.create(root, CONFIG)
    assert (root / "run.sqlite").read_text() == "the other was faster"


def test_an_interrupted_start_can_be_started_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("os.replace", die)
        RunDirectory.create(root, CONFIG)
    assert "run.sqlite" not in names(root)
    with pytest.raises(BadInput, match="expected a run"):
        RunDirectory.open(root)
    with RunDirectory.create(root, CONFIG) as run:
        assert run.last() is None


def test_what_an_interrupted_start_left_is_not_used(root: Path) -> None:
    root.mkdir()
    for name in ("run.sqlite.tmp", "run.sqlite.tmp-journal", "head.json", "head.json.tmp"):
        (root / name).write_bytes(b"half")
    RunDirectory.create(root, CONFIG).close()
    with RunDirectory.open(root) as run:
        assert run.config == CONFIG
    assert names(root) == ["checkpoints", "head.json", "lock", "run.sqlite"]


def test_bad_configs_and_limits_are_refused_before_anything_is_made(root: Path) -> None:
    with pytest.raises(TypeError, match=r"config\.rate: expected a finite number"):
        RunDirectory.create(root, {"rate": float("inf")})
    with pytest.raises(ValueError, match="at least 1 checkpoint, got 0"):
        RunDirectory.create(root, CONFIG, keep=0)
    assert not root.exists()


def test_open_refuses_where_there_is_no_run(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BadInput, match=r"expected a run in .*, found none: give its directory"):
            RunDirectory.open(path)
    assert names(tmp_path) == []


def test_a_closed_run_says_so(root: Path) -> None:
    run = RunDirectory.create(root, CONFIG)
    run.close()
    run.close()
    for call in (
        run.last,
        lambda: run.append("a", {}),
        lambda: run.read("a"),
        lambda: run.commit(0, None, {}),
        lambda: run.pin(0),
        lambda: run.config,
        lambda: run.write_summary({}),
    ):
        with pytest.raises(ValueError, match="is closed"):
            call()


def test_without_safetensors_a_state_is_refused_and_the_rest_works(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with RunDirectory.create(root, CONFIG) as run:
        with pytest.raises(MissingExtra, match=r"pip install 'grounded-eval\[mlx\]'"):
            run.commit(0, example_state(), {})
        run.commit(0, None, {})
        assert run.last() == (0, None, {})


def test_a_state_without_an_adapter_config_is_kept_too(root: Path) -> None:
    with RunDirectory.create(root, CONFIG) as run:
        run.commit(0, ModelState(arrays={"adapter.x": np.ones(2)}), {})
        assert_same_state(present(run.last())[1], ModelState(arrays={"adapter.x": np.ones(2)}))
    assert "adapter_config.json" not in names(root / "checkpoints" / "last")


# Several processes.

HOLD = """
import sys
from gce.adapters.runs.sqlite_views import VIEWS
from gce.adapters.runs.run_directory import RunDirectory
run = RunDirectory.open(sys.argv[1])
print("holds", flush=True)
sys.stdin.read()
"""
OPEN = """
import sys
from gce.adapters.runs.sqlite_views import VIEWS
from gce.adapters.runs.run_directory import RunDirectory
from gce.errors import BadInput
try:
    print(RunDirectory.open(sys.argv[1]).last()[0])
except BadInput as exc:
    sys.exit(str(exc))
"""


@pytest.mark.slow
def test_a_second_process_is_refused_and_a_dead_one_holds_nothing(root: Path) -> None:
    committed(root)
    holder = run_python(HOLD, root)
    assert holder.stdout.readline() == "holds\n"
    with pytest.raises(BadInput, match=f"is in use by process {holder.pid}: .*give another directory"):
        RunDirectory.open(root)
    with pytest.raises(BadInput, match="resume it, or give another directory"):
        RunDirectory.create(root, CONFIG)
    holder.kill()
    finish(holder)
    with RunDirectory.open(root) as run:
        assert present(run.last())[0] == 2
        status, _, err = finish(run_python(OPEN, root))
        assert status == 1 and f"in use by process {os.getpid()}" in err and "Traceback" not in err
        with pytest.raises(BadInput, match="in use"):
            RunDirectory.open(root)
    assert finish(run_python(OPEN, root))[:2] == (0, "2\n")


WATCH = """
import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}/run.sqlite?mode=ro", uri=True, isolation_level=None)
count = lambda: database.execute("SELECT count(*), max(iteration) FROM rollouts").fetchall()[0]
database.execute("BEGIN")
print(*count(), flush=True)
sys.stdin.readline()
print(*count(), flush=True)
database.execute("COMMIT")
print(*count(), flush=True)
"""


def test_another_process_reads_while_the_run_goes_on(root: Path) -> None:
    """A reader in the midst of a long query neither waits for commits nor holds them up."""
    with RunDirectory.create(root, CONFIG) as run:
        run.append("rollouts", {})
        run.commit(0, example_state(), {})
        reader = run_python(WATCH, root)
        assert reader.stdout.readline() == "1 0\n"
        for iteration in (1, 2):
            run.append("rollouts", {})
            run.commit(iteration, example_state(), {})
        assert finish(reader, "go\n")[1] == "1 0\n3 2\n"
        assert present(run.last())[0] == 2
