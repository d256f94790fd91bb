"""Runs that older versions made are read and go on; those of newer ones are refused with what to do.

`runs/layout-1` is a run as it was written before waves were held: two iterations of
`gce train --task toy_task:ADDITION --model toy_task:careless --iterations 2 --problems 4 --rollouts 3 --dev 2 --test 4
--updates 1`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from attrs import evolve

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.run_directory import RunDirectory
from gce.adapters.run_reader import RunReader
from gce.app import cli
from gce.app.evaluation import stored_outcome
from gce.domain.serialization import from_plain
from gce.domain.types import IterationRecord
from gce.errors import BadInput, DamagedStore

OLD = Path(__file__).parent / "runs" / "layout-1"
ADDED = {"held", "written"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return shutil.copytree(OLD, tmp_path / "run", symlinks=True)


def layout(run: Path) -> tuple[int, set[str]]:
    with sqlite3.connect(run / "run.sqlite") as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return database.execute("PRAGMA user_version").fetchone()[0], tables & ADDED


def alter(run: Path, statement: str) -> None:
    with sqlite3.connect(run / "run.sqlite") as database:
        database.execute(statement)


def test_an_old_run_is_read_as_it_is(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = (old / "run.sqlite").read_bytes()
    with RunReader(old) as run:
        assert run.settings["iterations"] == 2
        assert [record["iteration"] for record in run.read("iterations")] == [1, 2]
        assert run.summary() is not None and len(run.answers("test-after")) == 12
    assert cli.main(["traces", str(old), "--out", str(old.parent / "traces.jsonl")]) == 0
    assert (old / "run.sqlite").read_bytes() == content
    assert layout(old) == (1, set())


def test_an_old_run_goes_on_to_where_a_new_one_ends(old: Path, tmp_path: Path) -> None:
    settings = ("--problems", "4", "--rollouts", "3", "--dev", "2", "--test", "4", "--updates", "1")
    toy = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless")
    assert cli.main(["train", "--run-dir", str(old), "--resume", "--iterations", "3"]) == 0
    assert layout(old) == (2, ADDED)
    new = tmp_path / "new"
    assert cli.main(["train", *toy, *settings, "--iterations", "3", "--run-dir", str(new)]) == 0
    found = []
    for path in (old, new):
        with RunDirectory.open(path) as run:
            found.append({stream: list(run.read(stream)) for stream in ("rollouts", "traces", "iterations")})
        found[-1]["iterations"] = [
            evolve(from_plain(IterationRecord, each), seconds={}) for each in found[-1]["iterations"]
        ]
        for record in found[-1]["rollouts"]:
            record["outcome"] = stored_outcome(record)
    assert found[0] == found[1]
    weights = [(path / "checkpoints" / "last" / "adapters.safetensors").read_bytes() for path in (old, new)]
    assert weights[0] == weights[1]


def test_opening_an_old_run_twice_brings_it_up_to_date_once(old: Path) -> None:
    for _ in range(2):
        with RunDirectory.open(old) as run:
            assert list(run.held()) == []
        assert layout(old) == (2, ADDED)


@pytest.mark.parametrize("read", [RunReader, RunDirectory.open])
def test_a_run_of_a_newer_version_is_refused_with_what_to_do(old: Path, read) -> None:
    alter(old, "PRAGMA user_version = 3")
    with pytest.raises(DamagedStore, match=r"got layout 3: a newer version of gce made it: install that one"):
        read(old)


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 0", "PRAGMA application_id = 7"])
def test_what_is_no_run_is_refused(old: Path, statement: str) -> None:
    alter(old, statement)
    with pytest.raises(DamagedStore, match=r"expected a run of layout 2 or older, .* it is damaged, or no run"):
        RunReader(old)


def test_a_setting_that_this_version_does_not_know_is_refused_by_name(tmp_path: Path) -> None:
    """As a newer version would leave it."""
    with RunReader(OLD) as run:
        config = run.config
    config["settings"]["telepathy"] = True
    with RunDirectory.create(tmp_path / "run", config):
        pass
    with pytest.raises(BadInput, match=r"telepathy"):
        from gce.app.train import go_on

        go_on(tmp_path / "run", {})


def test_a_setting_that_an_old_run_does_not_have_takes_its_default(tmp_path: Path) -> None:
    with RunReader(OLD) as run:
        config = json.loads(json.dumps(run.config))
    for name in ("ladder", "shots", "bootstrap", "timeout"):
        del config["settings"][name]
    with RunDirectory.create(tmp_path / "run", config):
        pass
    assert cli.main(["train", "--run-dir", str(tmp_path / "run"), "--resume", "--iterations", "1"]) == 0
