"""What a user names is read within bounds, and values in files have bounds too."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("safetensors", reason="checkpoints are safetensors")

from gce.adapters.datasets.record_files import read_records
from gce.adapters.models.formats.gguf_files import directory_of_gguf
from gce.adapters.models.scripted import scripted_by_file
from gce.adapters.runs.run_directory import RunDirectory
from gce.adapters.system.input_files import open_input, parse_json, read_input, read_standard_input
from gce.app import cli
from gce.app.commands.generate import plain_problem
from gce.app.settings.records import TrainSettings
from gce.app.wiring.runs import find_adapter
from gce.app.wiring.tasks import MANY, say_if_many
from gce.domain.serialization import to_plain
from gce.domain.tasks import TASKS, draw_problem
from gce.domain.tasks.scheduling.instance import MOST, Job
from gce.errors import BadInput, GceError


@pytest.fixture(params=["/dev/zero", "pipe", "directory", "socket", "link", "nothing"])
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What cannot be read to its end, or at all."""
    path = tmp_path / str(request.param).removeprefix("/dev/")
    match request.param:
        case "/dev/zero":
            return Path("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path)[-100:] if len(str(path)) < 100 else os.path.relpath(path))
        case "link":
            path.symlink_to("/dev/zero")
    return path


def test_what_has_no_end_is_refused_before_it_is_read(endless: Path) -> None:
    with pytest.raises(BadInput, match="cannot read") as caught:
        read_input(endless, 10)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "reader", [read_records, scripted_by_file, lambda path: directory_of_gguf(path, path.parent / "cache")]
)
def test_every_reader_of_a_file_that_a_user_names_refuses_it(endless: Path, reader: Callable[..., Any]) -> None:
    with pytest.raises(GceError, match="cannot read"):
        reader(endless)


def test_a_checkpoint_that_leads_to_a_device_is_refused(tmp_path: Path) -> None:
    for name in ("adapters.safetensors", "optimizer.safetensors", "state.json"):
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(BadInput, match="expected a regular file, got a device: give a run's checkpoints/last"):
        find_adapter(tmp_path)


def test_commands_refuse_what_has_no_end_in_one_line(endless: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["verify", str(endless), "x"],
        ["generate", "--task", f"programs@{endless}"],
        ["evaluate", "--model", f"scripted:{endless}", "--n", "1"],
        ["evaluate", "--adapter", str(endless), "--n", "1"],
    ):
        assert cli.main(arguments) == 2, arguments
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1) and "cannot read" in err


def test_a_file_may_have_as_many_bytes_as_it_may_have(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    assert read_input(path, 10) == b"x" * 10
    with pytest.raises(BadInput, match="has 10 bytes: expected at most 9"):
        open_input(path, 9)


def test_a_file_that_hides_its_size_is_bounded_while_it_is_read() -> None:
    """As those of /proc, which say that they have no bytes."""
    path = Path("/proc/self/maps")
    if not path.exists():
        pytest.skip("no /proc here")
    assert path.stat().st_size == 0
    with pytest.raises(BadInput, match="has more than 10 bytes"):
        read_input(path, 10)


def test_a_compressed_file_is_bounded_by_what_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gce.adapters.datasets.record_files.MOST_BYTES", 1000)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 10**6))
    assert path.stat().st_size < 1200
    with pytest.raises(BadInput, match=r"holds more than 1,000 bytes|expected at most 1,000"):
        read_records(path)


def test_standard_input_without_an_end_is_read_no_further_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            assert size is not None and 0 <= size <= 11
            return b"x" * size

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(Endless()))
    with pytest.raises(BadInput, match="standard input has more than 10 bytes"):
        read_standard_input(10)


@pytest.mark.slow
def test_standard_input_that_is_closed_is_one_line() -> None:
    command = [sys.executable, "-m", "gce.app.cli", "verify"]
    ran = subprocess.run(["sh", "-c", '"$@" <&-', "sh", *command], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (2, "gce verify: cannot read standard input: it is closed\n")


# Values in files


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "[Infinity]", '{"a": -Infinity}', "1e400", "[-1e400]", "1" + "0" * 5000, "[" * 100_000, "", "{"),
        *('{"a": 1', "'a'", b"\xff\xfe", "[" * 900 + "NaN" + "]" * 900),
    ],
)
def test_json_has_finite_numbers_and_an_end(text: str | bytes) -> None:
    with pytest.raises(BadInput, match="it is not JSON") as caught:
        parse_json(text, "it")
    assert len(str(caught.value)) < 300


def put(problem: Any, where: str, value: str) -> str:
    """The problem's JSON with something else in one place."""
    marked = json.loads(json.dumps(problem))
    place = marked
    *path, last = where.split(".")
    for name in path:
        place = place[int(name)] if isinstance(place, list) else place[name]
    place[int(last) if isinstance(place, list) else last] = "HERE"
    return json.dumps(marked).replace('"HERE"', value)


PLACES = [
    *("instance.jobs.0.duration", "instance.jobs.0.deadline", "instance.jobs.0.demands.0", "instance.horizon"),
    *("instance.resources.0.capacity", "instance.jobs", "instance.precedence", "instance.jobs.0.label", "tier", "key"),
]
VALUES = [
    *("1" + "0" * 400, "1" + "0" * 4999, "NaN", "Infinity", "-Infinity", "1e400", "-1", "-0.0", "1.5", "true", '"1"'),
    *("[" * 900 + "]" * 900, "[" * 5000 + "]" * 5000, "{}", '"\\u0000"', '"' + "x" * 5000 + '"'),
]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value:.20}")
def test_a_problem_with_a_strange_value_is_bad_input_never_a_wrong_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str, value: str
) -> None:
    """Exit status 1 would say that the answer was wrong."""
    drawn = draw_problem(TASKS["scheduling"], "grounded", "T2", "train", 0)
    answer = ", ".join(f"{label} {place}" for place, label in enumerate(drawn.instance.labels))
    (tmp_path / "answer").write_text(f"Answer: {answer}")
    (tmp_path / "problem").write_text(put(plain_problem(drawn), where, value))
    status = cli.main(["verify", str(tmp_path / "problem"), str(tmp_path / "answer")])
    err = capsys.readouterr().err
    is_label = where == "instance.jobs.0.label" and "u0000" not in value
    if (where in ("tier", "key") or is_label) and value.startswith('"'):
        assert status in (0, 1), "another problem, and a sound one"
        return
    assert status == 2, (status, err)
    assert err.startswith("gce verify: ") and err.count("\n") == 1 and len(err) < 1000


def test_a_project_s_numbers_have_a_ceiling() -> None:
    assert Job("A", MOST).duration == MOST
    with pytest.raises(ValueError, match="job A: duration must be at most 1,000,000,000,000,000, got more"):
        Job("A", MOST + 1)


# What the system refuses


@pytest.mark.slow
@pytest.mark.parametrize("command", [["path"], ["generate", "--tiers", "T0", "--json"], ["models", "--json"]])
def test_a_full_standard_output_is_one_line(command: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "gce.app.cli", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120
        )
    assert (ran.returncode, ran.stderr) == (2, f"gce {command[0]}: No space left on device\n")


def test_a_folder_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system says; root could read it, so the system is stood in for."""

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(tmp_path))

    monkeypatch.setattr("gce.app.reports.report.sections_of", denied)
    assert cli.main(["report", str(tmp_path)]) == 2
    assert capsys.readouterr() == ("", f"gce report: Permission denied: {tmp_path}\n")


def test_a_defect_is_a_traceback_and_no_status_that_means_something(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In gce verify 1 means a wrong answer, and 2 bad input."""

    def broken(*_: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr("gce.app.commands.path.shipped_model_path", broken)
    assert cli.main(["path"]) == cli.DEFECT == 70
    assert "OverflowError: int too large" in capsys.readouterr().err


@pytest.mark.parametrize(
    "card", ["", "[]", '{"policy": NaN}', '{"policy": null}', '{"policy": null, "lines": [{}], "words": []}', "device"]
)
def test_a_validity_card_that_is_damaged_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], card: str
) -> None:
    with RunDirectory.create(tmp_path / "run", {"settings": to_plain(TrainSettings())}):
        pass
    (tmp_path / "run" / "validity.json").write_text(card)
    assert cli.main(["report", str(tmp_path / "run"), "--format", "md"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "validity.json" in err


def test_no_command_reads_a_file_in_another_way() -> None:
    """But for the package's own data, and answers, which are checked before they are opened."""
    app = Path(str(cli.__file__)).parent
    reading = re.compile(r"\.read_bytes\(|\.read_text\(|\bopen\(|\.open\(\"rb")
    found = {
        path.name for path in app.glob("*.py") if reading.search(path.read_text().replace("RunDirectory.open", ""))
    }
    assert found <= {"answer_file.py", "cli.py", "mode_tables.py", "new_task.py"}


def test_a_large_count_is_announced_before_problems_are_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gce.app.evaluation.run.drawn", lambda *_, **__: ())
    cli.main(["evaluate", "--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--n", "10000"])
    assert capsys.readouterr().err.startswith("drawing 10,000 test problems per tier takes 1 to 100 ms per problem")
    say_if_many({"--n": MANY, "--pool": None})
    assert capsys.readouterr().err == ""
