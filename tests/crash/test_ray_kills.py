"""A run on a cluster whose parts are killed ends as one in a single process, with the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ray")

from crash.killing import MEMORY
from crash.ray_kills import KINDS, kill_and_compare

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.mark.slow
def test_forty_kills_of_workers_nodes_and_drivers_and_full_stores_change_nothing() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as home:
        report = kill_and_compare(Path(home), 40, seed=1)
    assert report.kills.total() == 40 and all(report.kills[kind] for kind in KINDS) and report.runs > 2
    assert not report.differences and not report.lost and not report.doubled, report
