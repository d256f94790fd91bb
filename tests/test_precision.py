"""Sampling in bfloat16: what is rounded, what that costs, what `auto` takes, and that a run resumes exactly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
torch = pytest.importorskip("torch")

import toy_task  # noqa: E402
from test_mlx_model import PROMPTS, TOO_LONG, batch_of, requests_of  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

import gce  # noqa: E402
from gce.adapters.models.backends.mlx.files import load_base  # noqa: E402
from gce.adapters.models.backends.mlx.model import LoraSettings, OptimizerSettings, load_mlx_model  # noqa: E402
from gce.adapters.models.backends.numpy import precision  # noqa: E402
from gce.adapters.models.backends.numpy.precision import Comparison, chosen_precision, compare, lower  # noqa: E402
from gce.adapters.models.backends.torch.bfloat16 import Bfloat16Matrix  # noqa: E402
from gce.adapters.models.scripted import ScriptedModel  # noqa: E402
from gce.adapters.models.wrappers.other_sampler import WithSampler  # noqa: E402
from gce.app.cli import main  # noqa: E402
from gce.errors import BadInput, MissingExtra, ModelError, SettingError  # noqa: E402
from gce.ports.model import Learner  # noqa: E402
from gce.testing.contracts.model import assert_same_arrays, check_model  # noqa: E402

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere mlx samples")
SMALL: Any = {
    **{"problems": 3, "samples": 2, "max_tokens": 6, "updates": 1, "test": 1, "dev": 0, "layers": 1, "rank": 4},
    **{"admission": "all", "progress": False},
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small weights: rounding changes the log-probabilities of a model little whose logits are small."""
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64, scale=0.1)


def load(directory: Path, *layers: int, precision: Any = "bfloat16", threads: int = 2) -> Any:
    return load_mlx_model(
        directory,
        device="cpu",
        lora=LoraSettings(rank=4, layers=layers),
        optimizer=OptimizerSettings(learning_rate=0.02, tokens_per_pass=128),
        threads=threads,
        precision=precision,
    )


def plain(directory: Path) -> Any:
    return load_base(directory, single_precision=True).weights.plain


def measured(monkeypatch: pytest.MonkeyPatch, *, speed: float = 2.0, difference: float = 0.001) -> None:
    """Let the comparison find this."""
    monkeypatch.setattr(precision, "compare", lambda _: Comparison(speed, 0.99, difference))


def test_a_product_rounds_both_factors_and_sums_in_float32() -> None:
    """1 + 2^-8 lies halfway between two numbers of 8 significant bits, and goes to the even one, 1; 3 is exact.

    The product is rounded to bfloat16 too: 255 + 255 = 510 needs 8 bits, 257 would need 9.
    """
    matrix = Bfloat16Matrix(np.array([[1 + 2**-8, 3.0], [0.0, 1.0]], np.float32))
    found = np.array([[1.0, 2.0], [170.0, 0.0]], np.float32) @ matrix
    assert found.dtype == np.float32
    assert found.tolist() == [[1.0, 5.0], [170.0, 510.0]]


def test_in_bfloat16_it_keeps_to_the_port(directory: Path) -> None:
    check_model(lambda: load(directory, 0, 2), prompts=PROMPTS, too_long=TOO_LONG, tolerance=0.05)


def test_it_learns_in_float32_and_says_how_far_its_sampler_is_from_that(directory: Path) -> None:
    """On the same batch to the same bytes; its own rollouts are a little more or less probable to the learner."""
    exact, rounded = load(directory, 0, 2, precision="float32"), load(directory, 0, 2)
    batch = batch_of(exact)
    assert exact.update(batch) == rounded.update(batch)
    assert_same_arrays(exact.state(), rounded.state())
    assert exact.info().precision == "float32" and rounded.info().precision == "bfloat16"
    assert exact.info().identity != rounded.info().identity
    assert "samples in bfloat16" in rounded.info().note and not exact.info().note
    report = rounded.update(batch_of(rounded))
    assert 1e-5 < report.logp_difference <= precision.MOST_DIFFERENCE


def test_samples_depend_on_neither_threads_nor_earlier_samples(directory: Path) -> None:
    one, two = load(directory, 1, threads=1), load(directory, 1, threads=2)
    requests = requests_of(40)
    first = {c.key: c for c in one.sample(requests)}
    assert first == {c.key: c for c in two.sample(requests)} == {c.key: c for c in one.sample(requests)}


def test_matrices_without_an_adapter_are_converted_once(directory: Path) -> None:
    lowered = lower(plain(directory))
    first, again = lowered.like(lowered.base), lowered.like(lowered.base)
    assert first.head is lowered.base.head, "logits stay float32"
    assert first.blocks[0].down is again.blocks[0].down is not lowered.base.blocks[0].down
    adapted = evolve(lowered.base, blocks=(evolve(lowered.base.blocks[0], down=lowered.base.blocks[0].down + 1),))
    assert lowered.like(adapted).blocks[0].down is not first.blocks[0].down
    assert first.embedding is lowered.base.embedding


def test_the_comparison_finds_the_same_of_the_same_weights(directory: Path) -> None:
    """And what it finds besides speed is the same every time."""
    lowered = lower(plain(directory))
    found, again = compare(lowered), compare(lowered)
    assert (found.agreement, found.difference) == (again.agreement, again.difference)
    assert 0.9 < found.agreement <= 1 and 0 < found.difference < precision.MOST_DIFFERENCE


@pytest.mark.parametrize(
    ("speed", "difference", "taken"), [(1.19, 0.001, False), (1.2, 0.02, True), (3.0, 0.021, False)]
)
def test_auto_takes_what_is_faster_and_accurate(
    directory: Path, monkeypatch: pytest.MonkeyPatch, speed: float, difference: float, taken: bool
) -> None:
    measured(monkeypatch, speed=speed, difference=difference)
    lowered, said = chosen_precision(plain(directory), "auto")
    assert (lowered is not None) is taken is bool(said)


def test_what_cannot_be_lowered_is_refused_and_auto_leaves_it(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_precision(None, "auto") == (None, "")
    with pytest.raises(ModelError, match="cannot sample in bfloat16"):
        chosen_precision(None, "bfloat16")
    measured(monkeypatch, difference=0.06)
    with pytest.raises(ModelError, match=r"by 0\.06 nats on average, more than 0\.05"):
        chosen_precision(plain(directory), "bfloat16")

    def missing(_: Any) -> Any:
        raise MissingExtra("torch", "hf")

    monkeypatch.setattr(precision, "lower", missing)
    assert chosen_precision(plain(directory), "auto") == (None, "")
    with pytest.raises(MissingExtra, match="torch is not installed"):
        chosen_precision(plain(directory), "bfloat16")


def test_a_sampler_says_its_precision_beside_a_learner(directory: Path) -> None:
    both = WithSampler(load(directory, 1, precision="float32"), load(directory))
    assert both.info().precision == "bfloat16"


@pytest.mark.parametrize("command", ["train", "evaluate"])
@pytest.mark.parametrize("model", ["hf:gce-tiny", "llama:smollm2", "scripted:answers.jsonl", "http://127.0.0.1:9/v1#m"])
def test_other_backends_refuse_it_in_one_line(command: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--model", model, "--precision", "bfloat16"]) == 2
    error = capsys.readouterr().err
    assert f"model {model} takes no --precision: it is for gce-tiny, smollm2," in error and error.count("\n") == 1


@pytest.mark.parametrize("use", [gce.train, gce.evaluate])
def test_a_model_of_ones_own_refuses_it(use: Any) -> None:
    with pytest.raises(SettingError, match=r"takes no model\.precision"):
        use(task=toy_task.ADDITION, model=ScriptedModel(lambda _: "x"), precision="bfloat16", progress=False)


def test_a_run_resumes_to_the_same_bytes_and_remembers_what_auto_chose(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second machine would choose otherwise; the run goes on as it began."""
    measured(monkeypatch, speed=2.0)
    given = {**SMALL, "task": toy_task.ADDITION, "model": str(directory), "precision": "auto"}
    again: Any = {"task": toy_task.ADDITION, "progress": False}
    whole = gce.train(run=tmp_path / "whole", iterations=2, **given)
    gce.train(run=tmp_path / "parts", iterations=1, **given)
    measured(monkeypatch, speed=0.5)
    with pytest.raises(BadInput, match="keeps its settings"):
        gce.resume(tmp_path / "parts", {"model.precision": "float32"}, **again)
    parts = gce.resume(tmp_path / "parts", iterations=2, **again)
    trained = (result.model.model for result in (whole, parts))
    assert_same_arrays(*(model.state() for model in trained if isinstance(model, Learner)))
    for result in (whole, parts):
        assert result.summary["config"]["model"]["precision"] == "bfloat16"
    slow = gce.train(run=tmp_path / "slow", iterations=1, **given)
    assert "precision" not in slow.summary["config"]["model"], "float32 is the default"
