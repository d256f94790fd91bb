"""A checkpoint's adapter as a GGUF file: what llama.cpp reads is what the checkpoint holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

gguf = pytest.importorskip("gguf")

from gce.adapters.models.backends.llama_cpp.lora import adapter_of, write_adapter  # noqa: E402
from gce.adapters.models.formats.adapter_files import LowRank  # noqa: E402
from gce.domain.learning import ModelState  # noqa: E402
from gce.errors import ModelError  # noqa: E402

HEADS = {"attn_q": 2, "attn_k": 1}
PATHS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.down_proj")


def an_adapter(*paths: str, rank: int = 3, outputs: int = 8) -> LowRank:
    draw = np.random.Generator(np.random.Philox(1))
    return LowRank(
        rank,
        1.5,
        0.0,
        {
            path: (
                draw.standard_normal((6, rank)).astype(np.float32),
                draw.standard_normal((rank, outputs)).astype(np.float32),
            )
            for path in paths
        },
    )


def written(path: Path, adapter: LowRank, architecture: str) -> tuple[Any, dict[str, np.ndarray]]:
    write_adapter(path, adapter, architecture=architecture, blocks=2, heads=HEADS)
    reader = gguf.GGUFReader(path)
    facts = {name: entry.contents() for name, entry in reader.fields.items()}
    return facts, {tensor.name: np.array(tensor.data).reshape(tuple(tensor.shape)[::-1]) for tensor in reader.tensors}


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_the_file_has_every_array_transposed_and_says_what_it_is(tmp_path: Path, architecture: str) -> None:
    adapter = an_adapter(*(f"model.layers.1.{path}" for path in PATHS))
    facts, arrays = written(tmp_path / "adapter.gguf", adapter, architecture)
    assert (facts["general.type"], facts["adapter.type"]) == ("adapter", "lora")
    assert facts["general.architecture"] == architecture
    assert facts["adapter.lora.alpha"] == 1.5 * 3
    names = dict(zip(PATHS, ("attn_q", "attn_k", "attn_v", "ffn_down"), strict=True))
    assert len(arrays) == 2 * len(PATHS)
    for path, name in names.items():
        a, b = adapter.pairs[f"model.layers.1.{path}"]
        np.testing.assert_array_equal(arrays[f"blk.1.{name}.weight.lora_a"], a.T)
        if architecture == "qwen2" or name not in HEADS:
            np.testing.assert_array_equal(arrays[f"blk.1.{name}.weight.lora_b"], b.T)


def test_rows_of_queries_and_keys_are_interleaved_by_hand(tmp_path: Path) -> None:
    """Two heads of four: rows 0 1 | 2 3 of a head become 0 2 1 3. One head of eight: 0 4 1 5 2 6 3 7."""
    adapter = an_adapter("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.k_proj")
    _, arrays = written(tmp_path / "adapter.gguf", adapter, "llama")
    (_, of_queries), (_, of_keys) = adapter.pairs.values()
    np.testing.assert_array_equal(arrays["blk.0.attn_q.weight.lora_b"], of_queries.T[[0, 2, 1, 3, 4, 6, 5, 7]])
    np.testing.assert_array_equal(arrays["blk.0.attn_k.weight.lora_b"], of_keys.T[[0, 4, 1, 5, 2, 6, 3, 7]])


@pytest.mark.parametrize(
    ("adapter", "architecture", "error", "said"),
    [
        (an_adapter("model.layers.0.mlp.down_proj"), "mamba", ModelError, "fit the architectures llama, .*got 'mamba'"),
        (an_adapter("model.layers.2.mlp.down_proj"), "llama", ValueError, "2 blocks has no model.layers.2.mlp.down"),
        (an_adapter("model.layers.0.self_attn.q_proj", outputs=6), "llama", ValueError, "2 heads of even size, got 6"),
    ],
)
def test_an_adapter_that_cannot_fit_is_refused(
    tmp_path: Path, adapter: LowRank, architecture: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        write_adapter(tmp_path / "adapter.gguf", adapter, architecture=architecture, blocks=2, heads=HEADS)


def test_an_adapter_is_read_from_a_state() -> None:
    expected = an_adapter("model.layers.0.mlp.down_proj")
    ((path, (a, b)),) = expected.pairs.items()
    shape = {"rank": 3, "scale": 1.5, "dropout": 0.1, "keys": [path]}
    state = ModelState(
        {f"adapter.{path}.lora_a": a, f"adapter.{path}.lora_b": b, "optimizer.step": np.array(3)},
        {"layers": [0], "adapter_config": {"lora_parameters": shape}},
    )
    found = adapter_of(state)
    assert (found.rank, found.scale, list(found.pairs)) == (3, 1.5, [path])
    assert found.pairs[path][0] is a and found.pairs[path][1] is b
    for lacking in (evolve(state, settings={}), evolve(state, arrays={})):
        with pytest.raises(ValueError, match="expected a state with a LoRA adapter"):
            adapter_of(lacking)
