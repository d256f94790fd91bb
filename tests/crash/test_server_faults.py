"""A run whose server, network or own process breaks in the middle of an answer ends as a quiet one: the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("mlx.core")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx2")

from crash.killing import MEMORY
from crash.server_faults import KINDS, break_and_compare


@pytest.mark.slow
def test_eight_faults_around_a_model_server_change_nothing() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        report = break_and_compare(Path(home), 8, seed=0)
    assert [report.faults[kind] for kind in KINDS] == [2, 2, 2, 2]
    assert not report.differences and not report.lost and not report.doubled, report
