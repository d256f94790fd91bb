"""An adapter written by one model is what another one answers with."""

from __future__ import annotations

import pytest

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

from tiny_llama import write_tiny_llama

from gce.adapters.mlx_model import LoraSettings, OptimizerSettings, load_mlx_model
from gce.domain.types import Completion, Message, Trace, TrainingBatch
from gce.errors import ModelError

ASKED = (Message("user", "w1 w2"),)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64)


def load(directory, *layers, rank):
    lora = LoraSettings(rank=rank, layers=tuple(layers))
    return load_mlx_model(directory, device="cpu", lora=lora, optimizer=OptimizerSettings(learning_rate=0.1))


def test_a_model_answers_with_an_adapter_of_other_blocks_and_another_rank(directory, tmp_path):
    """Scores equal those of the model that learned, and differ from the bare base's."""
    learned = load(directory, 0, 2, rank=4)
    trace = Trace("k", "p", "T0", 1, ASKED, Completion("k", "w3 w4", "stop", policy=""), (), "d")
    learned.update(TrainingBatch((trace,), (1.0,)))
    learned.write_checkpoint(tmp_path)
    other = load(directory, rank=8)
    bare = other.log_probabilities(ASKED, "w3 w4")
    other.load_adapter(tmp_path)
    assert other.log_probabilities(ASKED, "w3 w4") == pytest.approx(learned.log_probabilities(ASKED, "w3 w4"), abs=1e-4)
    assert other.log_probabilities(ASKED, "w3 w4") != pytest.approx(bare, abs=1e-2)


def test_no_adapter_is_one_line_and_leaves_the_base(directory, tmp_path):
    """Nothing is half-loaded."""
    model = load(directory, rank=4)
    bare = model.log_probabilities(ASKED, "w3")
    with pytest.raises(ModelError, match="could not load an adapter"):
        model.load_adapter(tmp_path / "none")
    assert model.log_probabilities(ASKED, "w3") == bare
