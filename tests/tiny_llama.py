"""A tiny random Llama, or a relative of it, in the layout that mlx-lm loads, for tests."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}> {{ message['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write_tiny_llama(
    directory: Path,
    *,
    hidden: int = 32,
    layers: int = 4,
    heads: int = 4,
    kv_heads: int = 2,
    words: int = 40,
    context: int = 256,
    tied: bool = True,
    seed: int = 0,
    scale: float = 0.25,
    template: str | None = TEMPLATE,
    family: str = "llama",
    **config: Any,
) -> Path:
    """Write config, random weights and a word-level tokenizer with chat template and `<end>`; return `directory`.

    `family` is a module of mlx-lm's models that is made like a Llama; `config` adds what it needs.
    """
    mx = pytest.importorskip("mlx.core")
    pytest.importorskip("tokenizers")
    from mlx.utils import tree_flatten
    from tokenizers import Tokenizer, models, pre_tokenizers

    directory.mkdir(parents=True, exist_ok=True)
    specials = ["<pad>", "<end>", "<system>", "<user>", "<assistant>"]
    vocabulary = {word: i for i, word in enumerate([*specials, *(f"w{i}" for i in range(words))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(specials)
    tokenizer.save(str(directory / "tokenizer.json"))
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "pad_token": "<pad>"}
    if template is not None:
        tokenizer_config["chat_template"] = template
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))

    full = {
        "model_type": family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": 3 * hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-5,
        "vocab_size": len(vocabulary),
        "rope_theta": 10000.0,
        "max_position_embeddings": context,
        "tie_word_embeddings": tied,
        "eos_token_id": vocabulary["<end>"],
        **config,
    }
    (directory / "config.json").write_text(json.dumps(full))
    draw = np.random.Generator(np.random.Philox(seed))
    kind = importlib.import_module(f"mlx_lm.models.{family}")
    model = kind.Model(kind.ModelArgs.from_dict(full))
    weights = {}
    for path, array in dict(tree_flatten(model.parameters())).items():
        noise: np.ndarray[Any, Any] = draw.standard_normal(array.shape) * scale
        weights[path] = mx.array((1 + noise if "norm" in path else noise).astype(np.float32))
    mx.save_safetensors(str(directory / "model.safetensors"), weights, {"format": "mlx"})
    return directory
