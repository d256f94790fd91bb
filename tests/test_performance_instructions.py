"""Counts of instructions: what cachegrind prints, the ratio, and, where valgrind is installed, real counts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve
from performance_tasks import small_task

from gce.adapters.performance.instruction_counts import counted_in, instructions_of, why_no_counts
from gce.app.performance.admitting import counting, with_instructions
from gce.domain.performance.decision import Comparison, Instructions, Verdict
from gce.domain.performance.task import PerformanceTask

RECORDED = b"""==7== Cachegrind, a cache and branch-prediction profiler
==7== Command: /tmp/bin/python3 -s -S -P /work/count.py 5 run /work/code
==7==
==7== I   refs:      126,418,002
"""


def test_the_count_is_the_last_that_cachegrind_printed() -> None:
    assert counted_in(RECORDED) == 126_418_002
    assert counted_in(b"==7== I   refs:      1\n" + RECORDED) == 126_418_002
    assert counted_in(b"Traceback (most recent call last):\nI refs: 12\n") is None


@pytest.mark.parametrize(
    ("verdict", "counts", "expected"),
    [
        ("partial", {"base": 300, "code": 100, "human": 50}, Instructions(300, 100, 50)),
        ("partial", {"base": 300, "code": 100, "human": None}, Instructions(300, 100, None)),
        ("partial", {"base": 300, "code": None, "human": 50}, None),
        ("incorrect", {"base": 300, "code": 100, "human": 50}, None),
    ],
)
def test_correct_candidates_that_could_be_counted_have_counts(
    tmp_path: Path, verdict: Verdict, counts: dict[str, int | None], expected: Instructions | None
) -> None:
    task = small_task(tmp_path / "task")
    seeds = set()

    def count(_: PerformanceTask, tree: Path, seed: int) -> int | None:
        seeds.add(seed)
        return counts[tree.name]

    trees = [tmp_path / name for name in ("base", "code")]
    found = with_instructions(Comparison("t", verdict), task, *trees, human=tmp_path / "human", count=count, seed=1)
    assert found.instructions == expected and len(seeds) <= 1
    assert expected is None or found.instructions is None or found.instructions.gain == 3.0


def test_without_valgrind_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert counting(True) is None
    assert "instructions are not counted: valgrind is not installed" in capsys.readouterr().err
    assert counting(False) is None and capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_human_form_needs_fewer_instructions_and_what_fails_has_no_count(tmp_path: Path) -> None:
    reason = why_no_counts()
    if reason:
        pytest.skip(reason)
    task = small_task(tmp_path / "task")
    short = evolve(task, workload=task.workload.replace("10**6, 11 * 10**5", "10**4, 11 * 10**3"))
    slow, fast = (instructions_of(short, tmp_path / "task" / name, 5) for name in ("base", "human"))
    assert slow is not None and fast is not None and slow > 2 * fast
    broken = evolve(short, workload=short.workload.replace("from small", "from absent"))
    assert instructions_of(broken, tmp_path / "task" / "base", 5) is None
