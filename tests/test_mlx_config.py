"""What mlx-lm is told of a config.json: the settings that transformers reads, or a refusal by the setting's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.config import families  # noqa: E402
from gce.adapters.models.backends.mlx.model import load_mlx_model  # noqa: E402
from gce.domain.problems import Message  # noqa: E402
from gce.errors import ModelError  # noqa: E402

PROMPT, REPLY = (Message("user", "w1 w2 w3 w4 w5 w6 w7 w8"),), "w9 w10 w11"
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


def scores(directory: Path) -> tuple[float, ...]:
    found: tuple[float, ...] = load_mlx_model(directory, device="cpu").log_probabilities(PROMPT, REPLY)
    return found


def written(directory: Path, **changed: Any) -> Path:
    """A model whose config.json has these settings, None for none, and whose weights are always the same."""
    write_tiny_llama(directory)
    path = directory / "config.json"
    config = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return directory


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"rope_theta": 500.0}, {"rope_type": "default", "rope_theta": 500.0}),
        (
            {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
            {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0},
        ),
        ({"rope_scaling": {**LLAMA3, "rope_type": "llama3"}}, {**LLAMA3, "rope_type": "llama3", "rope_theta": 1e4}),
    ],
)
def test_rope_of_transformers_4_and_5_is_the_same_and_counts(
    before: dict[str, Any], now: dict[str, Any], tmp_path: Path
) -> None:
    expected = scores(written(tmp_path / "before", **before))
    assert scores(written(tmp_path / "now", rope_theta=None, rope_parameters=now)) == expected
    assert scores(written(tmp_path / "plain")) != pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_parameters.rope_type = 'dynamic'"),
        (
            {"rope_scaling": {"type": "yarn", "factor": 2.0, "attention_factor": 1.5}},
            "rope_parameters.attention_factor = 1.5",
        ),
        ({"model_type": "gpt_oss"}, "model_type = 'gpt_oss'"),
        ({"model_type": "no such family"}, "model_type = 'no such family'"),
        ({"model_type": None}, "model_type"),
    ],
)
def test_a_setting_that_mlx_lm_does_not_follow_is_refused_by_name(
    changed: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError) as refused:
        load_mlx_model(written(tmp_path, **changed), device="cpu")
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_setting_that_transformers_ignores_is_not_passed_on(tmp_path: Path) -> None:
    plain, odd = written(tmp_path / "plain"), written(tmp_path / "odd", rope_traditional=True)
    assert scores(odd) == scores(plain)


def test_a_window_that_mlx_lm_does_not_apply_is_the_context(tmp_path: Path) -> None:
    window: dict[str, Any] = {"sliding_window": 20, "use_sliding_window": True, "max_window_layers": 0}
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("on", window, 20),
        ("off", window | {"use_sliding_window": False}, 256),
    ]
    for name, changed, context in cases:
        path = write_tiny_llama(tmp_path / name, family="qwen2", **changed)
        model = load_mlx_model(path, device="cpu")
        assert model.info().context == context
        assert ("sliding window of 20 tokens" in model.info().note) == (context == 20)


def test_a_text_beyond_the_context_is_not_scored(tmp_path: Path) -> None:
    model = load_mlx_model(write_tiny_llama(tmp_path, context=16), device="cpu")
    with pytest.raises(ModelError, match="expected at most 16 tokens, the context of the model, got"):
        model.log_probabilities(PROMPT, "w1 " * 20)


def test_docs_list_the_families_that_were_compared() -> None:
    text = (Path(__file__).parents[1] / "docs" / "reference" / "backends.md").read_text(encoding="utf-8")
    listed = text.partition("Compared: ")[2].partition(".")[0].replace("\n", " ")
    assert [name.strip(" `") for name in listed.split(",")] == sorted(families())
