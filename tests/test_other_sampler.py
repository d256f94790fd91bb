"""One engine generates and another learns: together they are a model like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from test_mlx_model import PROMPTS, TOO_LONG, batch_of, requests_of
from tiny_llama import write_tiny_llama

from gce.adapters.models.backends.mlx.model import load_mlx_model
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.scripted import ScriptedModel
from gce.adapters.models.wrappers.other_sampler import WithSampler
from gce.testing.contracts.model import check_model


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64)


def local(directory: Path, *layers: int) -> Any:
    return load_mlx_model(
        directory,
        device="cpu",
        lora=LoraSettings(rank=4, layers=layers),
        optimizer=OptimizerSettings(learning_rate=0.02, tokens_per_pass=128),
        threads=2,
    )


def both(directory: Path) -> Any:
    return WithSampler(local(directory, 0, 2), local(directory))


@pytest.mark.slow
def test_it_keeps_to_the_port(directory: Path) -> None:
    check_model(lambda: both(directory), prompts=PROMPTS, too_long=TOO_LONG)


def test_after_an_update_the_sampler_has_the_new_adapter(directory: Path) -> None:
    """With the same engine on both sides, completions are those of the learner alone, but for their policy."""
    model, alone = both(directory), local(directory, 0, 2)
    assert model.info().identity != alone.info().identity
    batch = batch_of(alone)
    for _ in range(2):
        model.update(batch)
        alone.update(batch)
        found, expected = ({c.key: c for c in each.sample(requests_of(6))} for each in (model, alone))
        assert {k: c.token_ids for k, c in found.items()} == {k: c.token_ids for k, c in expected.items()}
        assert {c.policy for c in found.values()} == {model.info().identity}


def test_another_sampler_is_another_identity(directory: Path) -> None:
    scripted: Any = ScriptedModel(lambda request: "w1")
    one, other = WithSampler(scripted, local(directory)), WithSampler(scripted, scripted)
    assert len({one.info().identity, other.info().identity, scripted.info().identity}) == 3
