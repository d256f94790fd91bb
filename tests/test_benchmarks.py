"""The benchmarks run from the checkout, and contestants take turns fairly."""

from __future__ import annotations

import importlib.util
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks import soak

ROOT = Path(__file__).parent.parent


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_one_row_of_the_table(tmp_path: Path) -> None:
    """The machine's limits and the row: rates, rounds, and the ratio between its lowest and highest."""
    out = tmp_path / "results.jsonl"
    done = python("-m", "benchmarks", "imports", "--rounds", "2", "--out", str(out))
    assert done.returncode == 0, done.stderr
    machine, row = (json.loads(line) for line in out.read_text().splitlines())
    assert machine["gigaflops"] > 0 and machine["gigabytes_a_second"] > 0
    assert (row["row"], row["rounds"]) == ("imports", 2)
    assert 0 < row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]
    assert row["ours"]["units_a_second"] > 0
    assert 5 < row["theirs"]["peak_megabytes"] < 200, "the parent's memory is not the contestant's"
    assert (row["target"], row["met"]) == (None, None)


@pytest.mark.slow
def test_two_evaluations_of_one_model_seldom_differ_and_ten_points_are_found(tmp_path: Path) -> None:
    """Samples of 40 problems a tier, solved with chances of 0 to 1: the lower bound of A/A rejections is below 5 %."""
    rng = random.Random(0)
    lines = [
        json.dumps({"tier": tier, "problem": f"{tier}/{number}", "right": rng.random() < number / 39})
        for tier in ("T0", "T1", "T2")
        for number in range(40)
        for _ in range(4)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    done = python("-m", "benchmarks.calibration", str(tmp_path / "answers.jsonl"))
    assert done.returncode == 0, done.stderr
    rows = {(row["what"], row["test"]): row for row in map(json.loads, done.stdout.splitlines())}
    assert len(rows) == 2 * 5
    for (what, test), row in rows.items():
        if what == "A/A":
            assert row["low"] <= 0.05, row
        elif "alone" not in test:
            assert row["share"] >= 0.8, row
    (tmp_path / "answers.jsonl").write_text(lines[0])
    assert "expected as many samples" in python("-m", "benchmarks.calibration", str(tmp_path / "answers.jsonl")).stderr


def test_an_unknown_row_is_named() -> None:
    done = python("-m", "benchmarks", "speed")
    assert done.returncode == 2
    assert "no row 'speed': choose of verifier," in done.stderr


@pytest.mark.slow
def test_contestants_take_turns_and_who_fails_is_named() -> None:
    """Each of two rounds starts with another contestant; a turn that raises ends the contest."""
    code = """
from benchmarks.contest import Contestant, compete
ours, theirs = compete([Contestant("a", "benchmarks.imports:interpreter", {"code": "pass"}),
                        Contestant("b", "benchmarks.imports:interpreter", {"code": "import time; time.sleep(0.1)"})], 2)
assert [len(o.turns) for o in (ours, theirs)] == [2, 2]
assert ours.against(theirs)[1] > 1, ours.against(theirs)
try:
    compete([Contestant("slow", "benchmarks.imports:interpreter", {"code": "pass"}),
             Contestant("broken", "benchmarks.imports:nobody")], 1)
except RuntimeError as error:
    assert str(error) == "broken (benchmarks.imports:nobody) has failed"
else:
    raise SystemExit("expected an error")
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_how_cost_grows_is_measured_and_drawn(tmp_path: Path) -> None:
    """Four numbers of jobs, each judged right; with matplotlib also a picture."""
    drawn = importlib.util.find_spec("matplotlib") is not None
    pictures = ("--pictures", str(tmp_path)) if drawn else ()
    done = python("-m", "benchmarks.growth", "verifier-jobs", *pictures)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["jobs"] for row in rows] == [10, 100, 1_000, 10_000]
    assert all(row["seconds"] > 0 for row in rows)
    assert (tmp_path / "verifier-jobs.svg").exists() == drawn


def test_an_unknown_question_is_named() -> None:
    done = python("-m", "benchmarks.growth", "speed")
    assert done.returncode == 2
    assert "no question 'speed': choose of verifier-length," in done.stderr


def test_a_soak_is_told_in_a_table() -> None:
    looks = [
        {"seconds": 10.0 * n, "iterations": n, "memory": 10**8, "files": 7, "threads": 12, "disk": n * 10**6}
        for n in range(19)
    ]
    iterations = [{"seconds": 2.0, "read": 0.0}, {"seconds": 3.0, "read": 1.0}, {"seconds": 9.0, "read": 0.5}]
    lines = soak.table(looks, iterations).splitlines()
    assert lines[1].split() == ["0.0", "0", "100", "7", "12", "0.0"]
    assert lines[9].split() == ["3.0", "18", "100", "7", "12", "18.0"]
    assert lines[10] == "MB more an iteration, after the first fifth: memory 0.00, disk 1.00"
    assert lines[11] == "seconds an iteration, read all along: median 3.0 (3.0-3.0, n = 1)"
    assert lines[12] == "seconds an iteration, not read: median 2.0 (2.0-2.0, n = 1)"


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_a_short_soak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("mlx.core")
    monkeypatch.setattr(soak, "LOOK_SECONDS", 0.5)
    looks, _ = soak.soak(tmp_path / "run", 4.0)
    assert len(looks) >= 3 and {"memory", "files", "threads", "disk"} <= set(looks[0])


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_nothing_grows_in_two_hours() -> None:
    pytest.importorskip("mlx.core")
    done = python("-m", "benchmarks.soak", "--minutes", "120")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_structure_of_a_source_tree_is_counted(tmp_path: Path) -> None:
    """A package of two modules that import each other, with lengths that can be counted by hand."""
    package = tmp_path / "package"
    (package / "app").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "app" / "__init__.py").write_text("")
    texts = {
        "a": ["from package.app import b", "", "", "def f(model):", "    return getattr(model, 'x')"],
        "b": ["from package.app.a import f", "", "", "class Task:", "    x: int", "    y: ClassVar[int]"],
    }
    for name, lines in texts.items():
        (package / "app" / f"{name}.py").write_text("\n".join(lines) + "\n")
    done = python("-m", "benchmarks.structure", str(package))
    assert done.returncode == 0, done.stderr
    found = dict(re.split(r"  +", line, maxsplit=1) for line in done.stdout.splitlines())
    assert found == {
        "files that are not empty": "2",
        "files at the top of adapters/": "0",
        "files at the top of app/": "2",
        "longest file (app/b.py)": "6",
        "file length: median, 90th percentile": "5.5, 5.9",
        "function length: median, 90th percentile": "2, 2",
        "longest function": "2",
        "fields of Task": "1",
        "fields of the largest record (Task)": "1",
        "getattr or hasattr on a model": "1",
        "import circles (modules in them)": "1 (2)",
        "lines in app": "11",
        "lines in all": "11",
    }


@pytest.mark.slow
def test_simulated_data_sets_without_a_difference_are_seldom_rejected() -> None:
    """Ten small data sets for each of seventeen tests: none rejects most of them."""
    done = python("-m", "benchmarks.calibration", "--simulated", "--n", "30", "--repetitions", "10")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 17 and all(row["of"] == 10 for row in rows)
    assert all(row["rejected"] <= 4 for row in rows if "differ much" not in row["what"])
    assert "expected either" in python("-m", "benchmarks.calibration").stderr


def test_agreement_is_a_mean_over_tokens_with_an_interval_over_problems() -> None:
    """Two problems, of one and three tokens: the mean is that of four tokens; a resample may hold either one twice."""
    pytest.importorskip("safetensors")
    from benchmarks.agreement import interval

    assert interval([np.array([1.0]), np.array([0.0, 0.0, 0.0])]) == (0.25, 0.0, 1.0)
    assert interval([np.array([0.5, 0.5])]) == (0.5, 0.5, 0.5)


def test_the_time_of_a_part_is_not_that_of_the_part_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outer from 0 to 10 with inner parts from 1 to 3 and from 4 to 8, of which 5 to 6 are a third part."""
    pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from benchmarks import decoding

    times = iter([0, 1, 3, 4, 5, 6, 8, 10])
    monkeypatch.setattr(time, "thread_time", lambda: next(times))
    clock = decoding.Clock()
    with clock.part("outer"):
        with clock.part("inner", 7):
            pass
        with clock.part("inner", 5), clock.part("third"):
            pass
    assert clock.seconds == {"outer": 4, "inner": 5, "third": 1}
    assert clock.operations["inner"] == 12
