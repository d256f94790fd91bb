"""A run that was killed and resumed ends as one that was not: the same bytes, the same records, times aside."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from tiny_llama import write_tiny_llama

from crash.killing import MEMORY, Report, kill_and_compare


def killed(kills: int, seed: int) -> Report:
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        return kill_and_compare(write_tiny_llama(Path(home) / "base", layers=2), Path(home), kills, seed)


@pytest.mark.slow
def test_ten_kills_change_nothing() -> None:
    report = killed(10, seed=0)
    assert len(report.kills) == 10 and report.resumes >= 8
    assert not report.differences, report


@pytest.mark.slow
def test_a_hundred_kills_change_nothing() -> None:
    report = killed(100, seed=1)
    assert len(report.kills) == 100
    assert {kill.step for kill in report.kills} >= {
        "hold",
        "file",
        "rename",
        "rows",
        "commit",
        "head",
        "link",
        "delete",
    }
    assert not report.differences, report
