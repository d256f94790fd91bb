"""Performance tasks as files: the format and its schema, hostile trees and wheels, and the shipped pins."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import zipfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs
import pytest
from performance_tasks import SLOW, WORKLOAD, small_task, tree_of

from gce.adapters.performance import wheels
from gce.adapters.performance.measuring import check_sources
from gce.adapters.performance.task_files import TABLES, read_task, read_tasks, write_tree
from gce.adapters.performance.trees import BadTree, prepare_tree, read_tree
from gce.adapters.performance.wheels import fetch_wheel, has_wheel, unpack_wheels
from gce.app import cli
from gce.domain.performance.task import PerformanceTask, Pin, Record, Source, is_allowed
from gce.errors import BadInput

SHIPPED = Path(str(files("gce"))) / "data" / "performance"
REFUSED = Path(__file__).parent / "performance_refused"


def test_the_schema_has_the_fields_of_the_records_and_their_patterns() -> None:
    schema = json.loads((SHIPPED / "task.schema.json").read_text(encoding="utf-8"))
    assert tuple(schema["properties"]) == TABLES
    own = schema["properties"]["performance"]
    assert set(own["properties"]) == {field.name for field in attrs.fields(PerformanceTask)}
    for record in (Source, Pin, Record):
        found = schema["$defs"][record.__name__]
        assert set(found["properties"]) == {field.name for field in attrs.fields(record)}
        required = {field.name for field in attrs.fields(record) if field.default is attrs.NOTHING}
        assert set(found.get("required", ())) == required
    for field in attrs.fields(Pin):
        pattern = schema["$defs"]["Pin"]["properties"][field.name].get("pattern")
        checked: Any = field.validator
        assert pattern is None or pattern.strip("^$") == checked.pattern.pattern


@pytest.mark.slow
@pytest.mark.parametrize("directory", [SHIPPED, REFUSED])
def test_shipped_tasks_are_pins_with_sources_that_hold(directory: Path) -> None:
    tasks = [task for _, task in read_tasks(directory)]
    assert len(tasks) == (6 if directory == SHIPPED else 3)
    for task in tasks:
        check_sources(task)
        assert task.base.pins and task.human.pins and task.base != task.human
        assert is_allowed(task.allowed[0].replace("*", "sub/a"), task.allowed)
        namespace: dict[str, Any] = {}
        exec(task.workload, namespace)  # The standard library alone, and inputs by seed.
        assert namespace["setup"](1) == namespace["setup"](1) != namespace["setup"](2)


def test_files_beside_the_task_are_its_sources(tmp_path: Path) -> None:
    task = small_task(tmp_path)
    assert task.name == tmp_path.name and task.workload == WORKLOAD and task.instruction == ""
    (tmp_path / "instruction.md").write_text("Make it faster.\n", encoding="utf-8")
    assert read_task(tmp_path).instruction == "Make it faster.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"\[performance\]"),
        ("x", "not TOML"),
        ("[performance]\n[other]", "unknown 'other'"),
        ("[performance]\nbase.directory = 'base'", "human"),
        ("[performance]\nbase.directory = '../base'\nhuman.directory = 'human'", "inside the task"),
        ("[performance]\nbase.directory = '/etc'\nhuman.directory = 'human'", "inside the task"),
        ("[performance]\nbase = {}\nhuman.directory = 'human'", "either pins or a directory"),
        ("[performance]\nbase.directory = 'base'\nhuman.directory = 'human'\nsecond = 1", "second"),
        ("[performance]\nbase.directory = 'base'\nhuman.directory = 'human'\nseconds = 0", "seconds"),
        ("[performance]\nbase.directory = 'base'\nhuman.directory = 'human'\ntests = ''", "tests.py"),
        ("[performance]\nhuman.directory = 'human'\nbase.pins = [{name = 'a;b', version = '1', sha256 = ''}]", "name"),
    ],
)
def test_what_is_wrong_with_a_task_is_said_in_one_line(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    small_task(tmp_path)
    (tmp_path / "task.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=said):
        read_task(tmp_path)
    assert cli.main(["performance", "validate", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "sources",
    [{"workload": "def run(x): pass"}, {"workload": "def run(:"}, {"tests": "x = 1"}, {"tests": "\0"}],
)
def test_sources_that_lack_something_are_refused(tmp_path: Path, sources: dict[str, str]) -> None:
    task = small_task(tmp_path, **sources)
    with pytest.raises(BadInput, match=r"workload|tests"):
        check_sources(task)


def link(tree: Path) -> None:
    (tree / "small" / "other.py").symlink_to("/etc/passwd")


def linked_folder(tree: Path) -> None:
    (tree / "etc").symlink_to("/etc", target_is_directory=True)


def pipe(tree: Path) -> None:
    os.mkfifo(tree / "small" / "pipe.py")


@pytest.mark.parametrize("hostile", [link, linked_folder, pipe])
def test_trees_hold_regular_files_alone(tmp_path: Path, hostile: Callable[[Path], None]) -> None:
    tree = tree_of(tmp_path / "tree", SLOW)
    hostile(tree)
    with pytest.raises(BadTree, match="has no regular file"):
        prepare_tree(tree, tmp_path / "copy", "/code")
    task = small_task(tmp_path / "task")
    hostile(tmp_path / "task" / "base")
    with pytest.raises(BadInput):
        write_tree(tmp_path / "task", tmp_path, task.base, tmp_path / "written")


def test_a_tree_of_another_kind_is_no_tree(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "absent"):
        with pytest.raises(BadTree):
            read_tree(tmp_path / name)


def test_compiled_files_of_a_tree_are_made_again(tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "tree", SLOW)
    (tree / "small" / "__pycache__").mkdir()
    for place in ("small/__pycache__/__init__.cpython-311.pyc", "small/forged.pyc"):
        (tree / place).write_bytes(b"forged")
    prepare_tree(tree, tmp_path / "copy", "/code")
    found = [path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*.py*")]
    assert "small/forged.pyc" not in found and len(found) == 2
    assert not any(b"forged" in path.read_bytes() for path in (tmp_path / "copy").rglob("*.pyc"))


def wheel(folder: Path, members: dict[str, str], *, mode: int = stat.S_IFREG | 0o644) -> Pin:
    """Put a wheel into a cache folder."""
    path = folder / "new"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, text)
    pin = Pin("small", "1.0", hashlib.sha256(path.read_bytes()).hexdigest())
    path.rename(folder / f"{pin.sha256}.whl")
    return pin


def test_wheels_are_unpacked_into_one_tree(tmp_path: Path) -> None:
    pins = (wheel(tmp_path, {"small/__init__.py": SLOW}), wheel(tmp_path, {"other.py": ""}))
    unpack_wheels(pins, tmp_path, tmp_path / "tree")
    assert sorted(read_tree(tmp_path / "tree")) == ["other.py", "small/__init__.py"]
    assert has_wheel(pins[0], tmp_path) and not fetch_wheel(pins[0], tmp_path)


@pytest.mark.parametrize("name", ["../out.py", "/out.py", "a/../../out.py", "a\\..\\out.py", "C:out.py"])
def test_a_wheel_writes_nothing_outside_its_tree(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    pin = wheel(tmp_path, {name: "x"})
    with pytest.raises(BadInput, match="may not be unpacked"):
        unpack_wheels([pin], tmp_path, tmp_path / "in" / "tree")
    assert not list(tmp_path.rglob("*out.py"))


def test_a_wheel_with_a_link_a_file_twice_or_no_zip_is_refused(tmp_path: Path) -> None:
    linked = wheel(tmp_path, {"a.py": "/etc/passwd"}, mode=stat.S_IFLNK | 0o777)
    plain = wheel(tmp_path, {"a.py": "x"})
    broken = Pin("small", "1.0", hashlib.sha256(b"no zip").hexdigest())
    (tmp_path / f"{broken.sha256}.whl").write_bytes(b"no zip")
    for number, (pins, said) in enumerate(
        (([linked], "may not"), ([plain, plain], "there already"), ([broken], "cannot be unpacked"))
    ):
        with pytest.raises(BadInput, match=said):
            unpack_wheels(pins, tmp_path, tmp_path / f"tree{number}")


def test_a_wheel_that_is_absent_or_has_another_hash_is_refused(tmp_path: Path) -> None:
    pin = wheel(tmp_path, {"a.py": "x"})
    (tmp_path / f"{pin.sha256}.whl").write_bytes(b"changed")
    with pytest.raises(BadInput, match="has the hash"):
        unpack_wheels([pin], tmp_path, tmp_path / "tree")
    with pytest.raises(BadInput, match="fetch"):
        unpack_wheels([Pin("small", "1.0", "0" * 64)], tmp_path, tmp_path / "other")


@pytest.mark.parametrize("wrong", [False, True])
def test_what_pip_downloads_is_kept_only_with_the_pinned_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    asked: list[list[str]] = []

    def downloads(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        Path(command[command.index("--dest") + 1], "small-1.0-py3-none-any.whl").write_bytes(b"wheel")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", downloads)
    pin = Pin(
        "small", "1.0", hashlib.sha256(b"other" if wrong else b"wheel").hexdigest(), "cp311-cp311-linux_x.linux_y"
    )
    if wrong:
        with pytest.raises(BadInput, match="has the hash"):
            fetch_wheel(pin, tmp_path)
    else:
        assert fetch_wheel(pin, tmp_path) and not fetch_wheel(pin, tmp_path)
    assert has_wheel(pin, tmp_path) is not wrong and len(asked) == 1
    assert "--require-hashes" in asked[0] and "--no-deps" in asked[0]
    assert re.search(r"--python-version 3\.11 --abi cp311 --platform linux_x --platform linux_y", " ".join(asked[0]))


@pytest.mark.parametrize("tags", ["py3-none-any", "py2.py3-none-any", "py2-none-any"])
def test_pure_wheels_are_asked_for_as_those_of_this_interpreter(tags: str) -> None:
    assert wheels._of_tags(tags) == []


def test_a_failed_download_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 1, "", "WARNING: x\nERROR: No matching\x1b[31m distribution\nERROR: y"
        )

    monkeypatch.setattr(subprocess, "run", fails)
    with pytest.raises(BadInput, match=r"small 1\.0: No matching") as raised:
        fetch_wheel(Pin("small", "1.0", "0" * 64), tmp_path)
    assert "\x1b" not in str(raised.value) and not has_wheel(Pin("small", "1.0", "0" * 64), tmp_path)
