"""Probes on hidden states: no prediction sees its own problem, and gains are found where they are and only there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gce.app import cli
from gce.app.evaluation import probing
from gce.app.evaluation.checkpoints import arrays_digest, restore
from gce.app.wiring.runs import find_adapter
from gce.domain.evaluators.probes import FixedTexts, cross_fitted, internalisation, transfer

PROBLEMS = [f"p{number}" for number in range(40) for _ in range(5)]


def texts(*, learned: bool, seed: int = 0) -> FixedTexts:
    """Scores a and b share a factor, c is apart. States show it after training, if learned, and the prompt always."""
    rng = np.random.default_rng(seed)
    prompt, factor, own = (
        np.repeat(rng.normal(size=(40, 6)), 5, axis=0),
        rng.normal(size=200),
        rng.normal(size=(200, 3)),
    )
    before = np.hstack([100.0 * prompt, rng.normal(size=(200, 6))])
    after = before.copy()
    after[:, -1] += 3.0 * factor * learned
    both = {"a": factor + 0.3 * own[:, 0], "b": factor + 0.3 * own[:, 1], "c": own[:, 2]}
    scores = {name: np.clip(0.5 + 0.1 * values, 0, 1) for name, values in both.items()}
    return FixedTexts(PROBLEMS, rng.normal(size=(200, 1)), before, after, scores | {"same": np.ones(200)})


def test_a_prediction_never_uses_a_text_of_its_own_problem() -> None:
    found = cross_fitted(np.random.default_rng(0).normal(size=(200, 4)), PROBLEMS, 0)
    own = np.array(PROBLEMS)[:, None] == np.array(PROBLEMS)
    assert (found[own] == 0.0).all()
    assert found.sum(axis=1) == pytest.approx(np.ones(200)), "equal scores are predicted as they are"


def test_a_ridge_regression_by_hand() -> None:
    """Ten problems, x = +-1 in turn: outside each fold the slope of y = x is n / (n + n) = 1/2."""
    x = np.array([[1.0], [-1.0]] * 5)
    m = cross_fitted(x, range(10), 0)
    for row, used in zip(m, m != 0.0, strict=True):
        inside = x[used, 0]
        place = int(np.flatnonzero((m == row).all(axis=1))[0])
        slope = 0.5 * (x[place, 0] - inside.mean())
        assert row @ x[:, 0] == pytest.approx(inside.mean() + slope)


def test_a_gain_that_is_there_is_found_and_only_there() -> None:
    rows = {
        each.evaluator: each for each in internalisation(texts(learned=True), np.random.default_rng(0), resamples=99)
    }
    assert [*rows] == ["a", "b", "c"], "a score that never varies has no row"
    assert rows["a"].gain.low > 0.3 and rows["a"].p == 0.01 and rows["a"].pairs == 400
    assert rows["a"].pairwise[1] > 0.7 and rows["a"].auroc[1] > 0.8 > 0.6 > abs(rows["a"].auroc[0])
    assert rows["c"].gain.low < 0.05 and rows["c"].p > 0.05
    assert rows["a"].gain.value == pytest.approx(rows["a"].after - rows["a"].before)


def test_nothing_learned_is_no_gain() -> None:
    for row in internalisation(texts(learned=False), np.random.default_rng(0), resamples=19):
        assert (row.gain.value, row.gain.low, row.gain.high, row.p) == (0.0, 0.0, 0.0, 1.0)


def test_path_b_by_arithmetic_and_by_training() -> None:
    """Evaluators with a shared factor: one predicts the other with nothing learned; probes do after training alone."""
    given = texts(learned=True)
    rng = np.random.default_rng(0)
    found = transfer(given, ["a"], "b", rng)
    assert found is not None and found.consensus == pytest.approx(
        np.corrcoef(given.scores["a"], given.scores["b"])[0, 1]
    )
    assert found.closed_form == pytest.approx(found.consensus), "one teaching evaluator: the correlation itself"
    assert found.consensus > 0.85 and abs(found.before) < 0.2 and found.gain.low > 0.5
    apart = transfer(given, ["a", "b"], "c", rng)
    assert apart is not None and abs(apart.consensus) < 0.2 and apart.gain.low < 0.1
    assert transfer(given, ["a"], "same", rng) is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("safetensors")
    made = tmp_path_factory.mktemp("runs") / "run"
    options = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--dev", "0", "--iterations", "4")
    more = ("--problems", "6", "--rollouts", "4", "--test", "0", "--sampling", "uniform", "--keep-every", "1")
    scores = ("--evaluators", "verifier,length", "--hold-out-evaluators", "format")
    assert cli.main(("train", *options, *more, *scores, "--run-dir", str(made))) == 0
    return made


@pytest.mark.slow
def test_runs_are_probed_and_their_hidden_path_is_exported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(each.name for each in (run / "checkpoints").glob("iteration-*")) == [
        f"iteration-000{number}" for number in range(1, 5)
    ]
    capsys.readouterr()
    assert cli.main(("probe", str(run), str(run), "--n", "20", "--samples", "2", "--json")) == 0
    found: Any = json.loads(capsys.readouterr().out)
    assert [each["run"] for each in found] == [str(run)] * 2 and found[0]["rows"] == found[1]["rows"]
    assert cli.main(("probe", str(run), str(run), "--n", "20", "--samples", "2")) == 0
    assert "gain in R^2 over 2 runs" in capsys.readouterr().out
    out = tmp_path / "hidden.json"
    assert cli.main(("geometry", str(run), "--hidden", "--out", str(out))) == 0
    plain = json.loads(out.read_text())
    assert plain["run_metadata"]["scalar_source"] == "replayed" and plain["evaluators"]["professors"] == []
    assert plain["run_metadata"]["checkpoints"] == [0, 1, 2, 3, 4]
    assert {*plain["scalars"]["dimensions"]} == {"h1/texts", "h2/texts"}, "the token itself never moves"


def test_what_cannot_be_probed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert cli.main(("probe", str(run), "--n", "2")) == 2
    assert "texts of at least 20 problems" in (error := capsys.readouterr().err) and "Traceback" not in error


@pytest.mark.slow
def test_a_run_that_began_with_an_adapter_is_probed_from_there(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts and states before training are those of its start."""
    adapter, later = tmp_path / "adapter", tmp_path / "later"
    shutil.copytree(run / "checkpoints" / "last", adapter)
    options = ("--task", "toy_task:ADDITION", "--model", "toy_task:careless", "--dev", "0", "--iterations", "1")
    more = ("--problems", "4", "--rollouts", "2", "--test", "0", "--sampling", "uniform")
    given = (*options, *more, "--evaluators", "verifier,length", "--adapter", str(adapter))
    assert cli.main(("train", *given, "--run-dir", str(later))) == 0
    placed: list[str] = []

    def noted(model: Any, state: Any, *named: str) -> None:
        placed.append(arrays_digest(state))
        restore(model, state, *named)

    monkeypatch.setattr(probing, "restore", noted)
    capsys.readouterr()
    assert cli.main(("probe", str(later), "--n", "20", "--samples", "2", "--json")) == 0
    texts, before, after = placed
    assert texts == before == arrays_digest(find_adapter(adapter)) != after
    assert cli.main(("probe", str(run), str(later), "--n", "20", "--samples", "2")) == 2
    assert "starting adapter" in capsys.readouterr().err
    shutil.rmtree(adapter)
    shutil.copytree(later / "checkpoints" / "last", adapter)
    assert cli.main(("probe", str(later), "--n", "20", "--samples", "2")) == 2
    assert "is not the adapter that" in capsys.readouterr().err
