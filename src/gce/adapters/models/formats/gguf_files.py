"""Convert a GGUF file of a Llama-type model to a directory in the Hugging Face layout, in float32.

GGUF keeps a model in one file: metadata, a tokenizer, and tensors that are often quantized in small groups. It
interleaves the rows of the query and key projections for its form of RoPE; the conversion restores the order of the
Hugging Face layout. Dequantized numbers are exact, so nothing is lost beyond the quantization itself. Does not hold
models in memory.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from gce.adapters.models.formats.model_files import file_digest
from gce.adapters.models.local.token_sampling import Array
from gce.errors import MissingExtra, ModelError, one_line

try:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file
except ImportError as error:
    raise MissingExtra("safetensors", "gguf") from error

__all__ = ["directory_of_gguf"]

_VERSION = 2
"""Version of the converted files; files of another version are converted again."""
_QUANTIZATIONS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
_MODULES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
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
_ENDS = ("eos", "eot", "eom")
"""End of text, of turn and of message."""
_READ = frozenset(
    {
        *("context_length", "embedding_length", "block_count", "feed_forward_length", "vocab_size"),
        *("attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length"),
        *("attention.layer_norm_rms_epsilon", "rope.dimension_count", "rope.freq_base"),
    }
)
"""Metadata of a Llama that the conversion heeds; anything else could change what the model computes."""
_OFF = (0, False, "", "none")
_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens that are matched literally in a text."""

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS: Mapping[str, list[dict[str, Any]]] = {
    "gpt-2": [_BYTES],
    "smollm": [{"type": "Digits", "individual_digits": True}, _BYTES],
    "llama-bpe": [
        {"type": "Split", "pattern": {"Regex": _LLAMA_3}, "behavior": "Isolated", "invert": False},
        {**_BYTES, "use_regex": False},
    ],
}
"""How text is split before byte pairs are merged, by `tokenizer.ggml.pre`."""


def directory_of_gguf(path: Path, cache: Path) -> Path:
    """Return the Hugging Face directory of a GGUF file's model; it is created under `cache` on first use.

    Takes four bytes of disk for each parameter. Requires the package gguf.

    Raises:
        ModelError: the file is missing or damaged, or its architecture, tokenizer or quantization is unsupported; the
            message names it.
    """
    target = cache / f"{path.stem}-{file_digest(path)[:16]}-{_VERSION}"
    if (target / "config.json").is_file():
        return target
    reader = _opened(path)
    facts = _Facts(path, {name: entry.contents() for name, entry in reader.fields.items()})
    try:
        config = _config(facts)
        files = {**_tokenizer(facts), "config.json": config}
        weights = _weights(facts, reader.tensors, config)
    except (ValueError, LookupError, ArithmeticError) as error:
        raise ModelError(f"the metadata of {path} is inconsistent: {one_line(error)}") from error
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f"{target.name}.", dir=cache, ignore_cleanup_errors=True) as half:
            whole = Path(half, "whole")
            _write(whole, files, weights)
            whole.rename(target)
    except (OSError, SafetensorError) as error:
        if not (target / "config.json").is_file():  # Another process may have written it first.
            raise ModelError(f"could not write the model of {path} to {target}: {error}") from error
    return target


class _Facts:
    """The metadata of a file, by name."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values = values

    def get(self, name: str, kind: Callable[[Any], Any], default: Any = None) -> Any:
        """Return a value converted by `kind`; it is required unless there is a default."""
        value = self._values.get(name, default)
        if value is None:
            raise ModelError(f"expected {name} in the metadata of {self.path}, it is missing")
        try:
            return kind(value)
        except (TypeError, ValueError):
            raise ModelError(f"{self.path} has {name} = {value!r}, expected a number") from None

    def has(self, name: str) -> bool:
        return name in self._values

    def of(self, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield the values whose names begin with `prefix`, with the rest of their names."""
        return ((name.removeprefix(prefix), value) for name, value in self._values.items() if name.startswith(prefix))

    def token(self, kind: str) -> int | None:
        """Return the id of a special token, such as `eos`, None if the file names none; ValueError if it is none."""
        if not self.has(name := f"tokenizer.ggml.{kind}_token_id"):
            return None
        found, tokens = int(self.get(name, int)), self.get("tokenizer.ggml.tokens", list)
        if not 0 <= found < len(tokens):
            raise ValueError(f"{name} is {found}, which is not among its {len(tokens):,} tokens")
        return found


def _opened(path: Path) -> Any:
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise MissingExtra("gguf", "gguf") from error
    try:
        return GGUFReader(path)
    except Exception as error:  # A damaged file may raise anything.
        raise ModelError(f"{path} is not a complete GGUF file: {one_line(error)}") from error


def _config(facts: _Facts) -> dict[str, Any]:
    architecture = facts.get("general.architecture", str)
    if architecture != "llama":
        raise ModelError(f"{facts.path} has the architecture {architecture!r}, expected 'llama'")
    for name, value in facts.of("llama."):
        if name not in _READ and value not in _OFF:
            raise ModelError(f"{facts.path} has {name}, which a plain Llama does not have: expected a file without it")
    heads = facts.get("llama.attention.head_count", int)
    width = facts.get("llama.embedding_length", int)
    size = facts.get("llama.attention.key_length", int, width // max(1, heads))
    for name in ("rope.dimension_count", "attention.value_length"):
        if (found := facts.get(f"llama.{name}", int, size)) != size:
            raise ModelError(f"{facts.path} has {name} = {found}, expected {size}, the size of each head")
    # Without all of them, a model that ends its turns with another token than its texts would go on.
    ends = [each for each in map(facts.token, _ENDS) if each is not None]
    if not ends:
        raise ModelError(f"expected tokenizer.ggml.eos_token_id in the metadata of {facts.path}, it is missing")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "float32",
        "hidden_size": width,
        "num_hidden_layers": facts.get("llama.block_count", int),
        "intermediate_size": facts.get("llama.feed_forward_length", int),
        "num_attention_heads": heads,
        "num_key_value_heads": facts.get("llama.attention.head_count_kv", int, heads),
        "head_dim": size,
        "max_position_embeddings": facts.get("llama.context_length", int),
        "rms_norm_eps": facts.get("llama.attention.layer_norm_rms_epsilon", float),
        "rope_theta": facts.get("llama.rope.freq_base", float, 10000.0),
        "tie_word_embeddings": True,  # Unless the tensors include a separate head.
        "bos_token_id": facts.token("bos"),
        "eos_token_id": ends[0] if len(ends) == 1 else ends,
    }


def _weights(facts: _Facts, tensors: Any, config: dict[str, Any]) -> dict[str, Array]:
    """Return arrays by their names in the Hugging Face layout; note in `config` a head separate from the embedding."""
    from gguf.quants import dequantize

    found: dict[str, Array] = {}
    for tensor in tensors:
        stem, _, last = tensor.name.rpartition(".")
        parts = stem.split(".")
        module = _MODULES.get(parts[-1])
        if module is None or last != "weight":
            raise ModelError(f"{facts.path} has the tensor {tensor.name!r}, which a plain Llama does not have")
        if tensor.tensor_type.name not in _QUANTIZATIONS:
            kinds = ", ".join(_QUANTIZATIONS)
            raise ModelError(f"{tensor.name} in {facts.path} is {tensor.tensor_type.name}, expected one of {kinds}")
        array = np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32)
        for kind, heads in (("attn_q", "num_attention_heads"), ("attn_k", "num_key_value_heads")):
            if parts[-1] == kind:
                array = _halves_apart(array, config[heads])
        place = f"model.layers.{parts[1]}.{module}" if parts[0] == "blk" else module
        found[f"{place}.weight"] = np.ascontiguousarray(array)
    config["tie_word_embeddings"] = "lm_head.weight" not in found
    expected = 2 + (not config["tie_word_embeddings"]) + 9 * config["num_hidden_layers"]
    if len(found) != expected:
        raise ModelError(f"{facts.path} has {len(found)} tensors, expected {expected}")
    config["vocab_size"] = len(found["model.embed_tokens.weight"])
    return found


def _halves_apart(rows: Array, heads: int) -> Array:
    """Reorder each head's rows from interleaved pairs to first halves before second halves."""
    size = rows.shape[0] // heads
    swapped: Array = rows.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)
    return swapped


def _tokenizer(facts: _Facts) -> dict[str, Any]:
    """Return the contents of the tokenizer's files by name."""
    kind, cut = facts.get("tokenizer.ggml.model", str), facts.get("tokenizer.ggml.pre", str, "gpt-2")
    if kind != "gpt2" or cut not in _SPLITS:
        raise ModelError(
            f"{facts.path} has a tokenizer of kind {kind}/{cut}, expected gpt2 with one of {', '.join(_SPLITS)}"
        )
    tokens = facts.get("tokenizer.ggml.tokens", list)
    kinds = facts.get("tokenizer.ggml.token_type", list)
    merges = facts.get("tokenizer.ggml.merges", list)
    added = [
        {
            "id": place,
            "content": token,
            "special": each == _CONTROL,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
        }
        for place, (token, each) in enumerate(zip(tokens, kinds, strict=True))
        if each in (_CONTROL, _USER_DEFINED)
    ]
    model = {
        "type": "BPE",
        "vocab": {token: place for place, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in merges],
        "byte_fallback": False,
        "ignore_merges": cut == "llama-bpe",
    }
    bos, eos, pad = map(facts.token, ("bos", "eos", "padding"))
    begins = bos is not None and facts.get("tokenizer.ggml.add_bos_token", bool, cut == "llama-bpe")
    whole = {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _SPLITS[cut]},
        "post_processor": _begins_with(tokens[bos], bos) if begins and bos is not None else None,
        "decoder": _BYTES,
        "model": model,
    }
    named = {"bos_token": bos, "eos_token": eos, "pad_token": eos if pad is None else pad}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{kind: tokens[i] for kind, i in named.items() if i is not None},
        "clean_up_tokenization_spaces": False,
    }
    keys = {"default": "tokenizer.chat_template", "tool_use": "tokenizer.chat_template.tool_use"}
    templates = {name: facts.get(key, str) for name, key in keys.items() if facts.has(key)}
    if templates:
        several = [{"name": name, "template": template} for name, template in templates.items()]
        settings["chat_template"] = templates.get("default", several) if len(templates) == 1 else several
    return {"tokenizer.json": whole, "tokenizer_config.json": settings}


def _begins_with(token: str, i: int) -> dict[str, Any]:
    """Return the step of a tokenizer that puts a token before texts which are no conversations."""
    single: list[dict[str, Any]] = [
        {"SpecialToken": {"id": token, "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ]
    special = {token: {"id": token, "ids": [i], "tokens": [token]}}
    pair = [*single, {"Sequence": {"id": "B", "type_id": 1}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


def _write(directory: Path, files: Mapping[str, Any], weights: dict[str, Array]) -> None:
    directory.mkdir()
    for name, content in files.items():
        (directory / name).write_text(json.dumps(content, indent=None if name == "tokenizer.json" else 1))
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
