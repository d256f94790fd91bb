"""What training takes on more workers: `gce.domain.scaling` and `gce plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gce.app.cli import main
from gce.app.training.planning import MEASURED, plan
from gce.domain.scaling import Cluster, Iteration, forecast, resized, shares_of
from gce.errors import BadInput

ONE = Iteration(
    rollouts=400,
    shares=4,
    sampling=40.0,
    learning=10.0,
    dev_shares=2,
    evaluating=8.0,
    tokens=300.0,
    parameters=1e9,
    adapter_bytes=1e8,
    record_bytes=1e4,
)


def test_two_workers_by_hand() -> None:
    found = forecast(ONE, Cluster(2, driver=0.01, bandwidth=1e9, price=3.0))
    # Two shares of four each; the driver's 4 s pass meanwhile; two rounds of sending 0.1 s.
    assert found.seconds == {"sample": 20.0, "driver": 4.0, "learn": 10.0, "evaluate": 4.0, "send": 0.2}
    assert found.total == pytest.approx(34.2)
    assert found.speedup == pytest.approx(58 / 34.2)
    assert found.tokens == pytest.approx(400 * 300 / 34.2)
    assert found.busy == pytest.approx(48 / (2 * 34.2))
    assert found.sent == 2e8 + 400 * 1e4
    assert found.price == pytest.approx(3 * 3.0 * 34.2 / 3600)
    assert found.bound == "sampling"


@pytest.mark.parametrize(
    ("iteration", "cluster", "bound"),
    [
        (ONE, Cluster(1), "sampling"),
        (ONE, Cluster(3), "sampling"),
        (ONE, Cluster(4), "shares"),
        (resized(ONE, rollouts=40_000), Cluster(4, driver=1.0), "driver"),
        (ONE, Cluster(4, driver=0.2), "driver"),
        (ONE, Cluster(1, bandwidth=1e6), "network"),
    ],
)
def test_what_bounds_it(iteration: Iteration, cluster: Cluster, bound: str) -> None:
    assert forecast(iteration, cluster).bound == bound


def test_many_shares_make_the_learner_the_bound_and_learners_help() -> None:
    many = evolve(ONE, shares=64)
    found = forecast(many, Cluster(64))
    assert found.bound == "learner"
    assert forecast(many, Cluster(64, learners=4)).total == pytest.approx(found.total - 7.5)


def test_another_model_and_longer_answers_by_hand() -> None:
    found = resized(ONE, parameters=8e9, rollouts=800, tokens=600.0)
    assert found.sampling == 40 * 8 * 2 * 2 and found.learning == 10 * 8 * 2 * 2 and found.evaluating == 8 * 8 * 2
    assert found.adapter_bytes == pytest.approx(4e8) and found.record_bytes == 2e4
    assert resized(ONE) == ONE


@given(st.integers(1, 500), st.integers(1, 64), st.floats(0.1, 1e4), st.floats(0.0, 1e4), st.floats(0.1, 10.0))
def test_more_workers_never_take_longer(
    workers: int, shares: int, sampling: float, learning: float, speed: float
) -> None:
    one = Iteration(rollouts=100, shares=shares, sampling=sampling, learning=learning)
    fewer, more = (forecast(one, Cluster(count, speed=speed)) for count in (workers, workers + 1))
    assert more.total <= fewer.total * (1 + 1e-12)
    assert fewer.total >= sampling / speed / workers - 1e-9
    assert 0 < fewer.busy <= 1 + 1e-9
    assert fewer.speedup <= max(workers, 1) * speed + 1e-9


def test_the_command_says_what_the_function_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--workers", "1,8", "--model-size", "7b", "--rollouts", "800", "--price", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = plan(workers=[1, 8], model_size=7e9, rollouts=800, price=2.0)
    assert [row["total"] for row in found["rows"]] == [row.total for row in expected.rows]
    assert found["iteration"]["shares"] == shares_of(800) == 8
    assert main(["plan"]) == 0
    shown = capsys.readouterr().out
    assert "1,000" in shown and "price" not in shown and f"{MEASURED.rollouts:,} rollouts" in shown


@pytest.mark.slow
def test_a_run_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlx.core")
    run = tmp_path / "run"
    sizes = ["--iterations", "1", "--problems", "5", "--rollouts", "4", "--updates", "1", "--batch", "2", "--test", "1"]
    assert main(["train", *sizes, "--dev", "1", "--shifts", "0", "--threads", "1", "--run-dir", str(run)]) == 0
    capsys.readouterr()
    found = plan(run, workers=[1, 2])
    assert found.iteration.rollouts == 20 and found.iteration.shares == 2 and found.iterations == 1
    assert found.iteration.parameters > 1e6
    assert found.iteration.adapter_bytes > 1e4 and found.iteration.record_bytes > 100
    one, two = found.rows
    assert two.seconds["sample"] == pytest.approx(one.seconds["sample"] / 2)
    assert main(["plan", str(run)]) == 0
    assert f"as measured in {run}" in capsys.readouterr().out


def test_an_unfinished_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        plan(tmp_path / "nothing")
