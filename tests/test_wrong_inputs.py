"""Wrong inputs, one parameter each: one clear line, exit status 2, no traceback, and nothing written."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gce.app.cli import main

ALL_INSTALLED = all(find_spec(name) for name in ("mlx", "gguf", "httpx2", "ortools"))
"""Where something is not, the error may be that it is missing."""
FILES = {
    "text.txt": b"Answer: A 0\n",
    "bad.json": b"not json\n",
    "object.json": b"{}",
    "binary.json": b"\xff\xfe",
    "void.json": b"",
    "records.jsonl": b'{"task_id": 1}\n',
    "number.py": b"x = 1\n",
    "raises.py": b'raise RuntimeError("boom")\n',
}
COMMANDS = {
    "": "COMMAND",
    "bogus": "bogus",
    # tasks, presets and tiers
    "train --task nothing": "no task 'nothing': choose one of scheduling, ",
    "train --task number:x": "number:x is int, expected a gce.Task",
    "train --task number:y": "module number has no 'y'",
    "train --task raises:x": "RuntimeError: boom",
    "train --task missing:x": "No module named 'missing'",
    "train --preset nope": "no preset 'nope': choose one of grounded, ",
    "evaluate --tiers T9": "no tier 'T9': choose from T0, ",
    "evaluate --tiers T0 T1": "several values are one argument, as T0,T1",
    "evaluate --task programs@records.jsonl": "record 1: expected 'tests'",
    "evaluate --task programs@missing.jsonl": "cannot read missing.jsonl: No such file or directory",
    "evaluate --task scheduling@records.jsonl": "expected .sm or .rcp files, got a record",
    "evaluate --task faster@records.jsonl": "takes no problems from a file",
    # models and adapters
    "train --model nope": "got 'nope'",
    "train --model ./folder": "found no config.json there",
    "train --model bad.json": "got 'bad.json'",
    "train --model missing.gguf": "cannot read missing.gguf: No such file or directory",
    "train --model scripted:missing.json": "cannot read missing.json: No such file or directory",
    "train --model scripted:bad.json": "bad.json, line 1: expected {",
    "train --model number:x": "number:x is int",
    "train --model http://": "http://HOST:PORT/v1#MODEL",
    "train --model http://127.0.0.1:1/v1": "expected a model's name after the server",
    "train --model http://127.0.0.1:1/v1#m": "cannot be trained, only evaluated",
    "train --adapter folder": "cannot read folder/adapters.safetensors: No such file or directory",
    # places
    "train --run-dir text.txt": "cannot start a run in text.txt: Not a directory",
    "train --run-dir folder --resume": "found no run.sqlite in folder",
    "train --resume": "--resume needs --run-dir",
    "evaluate --answers folder": "expected a regular file, got a directory",
    "evaluate --answers missing/answers.jsonl": "missing is no directory",
    "report missing": "expected a run directory, found none at missing",
    "report folder": "expected a run or a study with finished runs in folder, found neither",
    "rescore text.txt": "line 1 of text.txt is no answer of an evaluation: expected a run, or a file of answers of gce",
    "analyze missing": "expected a run, a file of answers that gce evaluate keeps, or a folder of them, got missing",
    "analyze folder": "expected a run, a file of answers that gce evaluate keeps, or a folder of them, got folder",
    "analyze text.txt": "line 1 of text.txt is no answer of an evaluation",
    "analyze text.txt --recompute sometimes": "expected",
    "analyze text.txt --recompute never": "what is never computed has to be kept: give --keep",
    "analyze text.txt --adapter folder": "is for the model that scores: give --model",
    "analyze text.txt --keep bad.json": "and this command did not write it: give another --keep",
    "analyze text.txt --out bad.json": "bad.json exists already, and this command did not write it: give another --out",
    "validity folder": "found no run.sqlite in folder",
    "export folder --to peft": "found no run.sqlite in folder",
    "traces folder": "found no run.sqlite in folder",
    # numbers
    "train --iterations 0": "--iterations must be at least 1 without a warm-up (--warm-up), got 0",
    "train --iterations x": "expected a whole number from 0 to 1,000,000, got 'x'",
    "train --temperature nan": "expected 0, or a finite number from 1e-06 to 100, got 'nan'",
    "train --batch -1": "expected a whole number from 1 to 10,000, got '-1'",
    "evaluate --n 10000000000000000000000": "expected a whole number from 1 to 10,000",
    "evaluate --samples 4": "--samples above 1 needs --temperature above 0",
    # names of entries, and options
    "train --algorithm none": "expected one of raft, ",
    "train --evaluator number:x": "number:x is int, expected a function of task and runner",
    "train --strategy number:x": "number:x is int, expected a gce.Strategy",
    "evaluate --metrics number:x": "number:x is int, expected a gce.Metric",
    "evaluate --strategies trained": "needs --adapter",
    "train --bogus 1": "--bogus",
    "ablate --conditions nope": "no condition 'nope': choose from full, ",
    # problems and answers
    "verify bad.json text.txt": "bad.json is not JSON",
    "verify object.json text.txt": "expected a problem as `gce generate --json` prints it",
    "verify binary.json text.txt": "binary.json is not JSON",
    "verify void.json text.txt": "void.json is not JSON",
    "verify folder text.txt": "expected a regular file, got a directory",
}


def listing(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by path, but for what Python compiled."""
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files above, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    for name in ("number", "raises"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_says_what_was_expected(command: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = listing(place)
    status = main(command.split())
    printed, said = capsys.readouterr()
    *usage, error = said.splitlines()
    assert status == 2
    assert not printed
    assert error.startswith("gce") and len(error) < 1_000
    assert COMMANDS[command] in error or ("pip install" in error and not ALL_INSTALLED)
    assert len(usage) <= 1 and all(line.startswith("usage: ") for line in usage)
    assert listing(place) == before
