"""A GGUF file becomes the model that it was made from, and what is no such file is refused by name."""

from __future__ import annotations

import importlib.util
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("safetensors")
tokenizers = pytest.importorskip("tokenizers")

from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.model import load_mlx_model  # noqa: E402
from gce.adapters.models.formats.gguf_files import directory_of_gguf  # noqa: E402
from gce.domain.completions import SampleRequest  # noqa: E402
from gce.domain.problems import Message  # noqa: E402
from gce.errors import ModelError  # noqa: E402

BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *BYTES, "ab"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HEADS = {"q_proj": 4, "k_proj": 2}
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
F32 = gguf.GGMLQuantizationType.F32


def gguf_name(name: str) -> str:
    stem, _, last = name.rpartition(".")
    if stem.startswith("model.layers."):
        _, _, block, rest = stem.split(".", 3)
        return f"blk.{block}.{NAMES[rest]}.{last}"
    return f"{NAMES[stem]}.{last}"


def turned(name: str, array: np.ndarray) -> np.ndarray:
    """Rows as GGUF has them: each head's first half beside its second."""
    heads = HEADS.get(name.split(".")[-2])
    if heads is None:
        return array
    return array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "head of its own"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(
        tmp_path_factory.mktemp("base"),
        layers=2,
        words=len(TOKENS) - 5,
        context=128,
        tied=request.param,
        eos_token_id=2,
    )


def write_gguf(path: Path, base: Path, kind: Any = F32, *, architecture: str = "llama", **facts: Any) -> Path:
    """The base in a file; matrices as `kind`, and `facts` in place of what is right."""
    config = json.loads((base / "config.json").read_text())
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(facts.get("context", 128))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(facts.get("heads", 4))
    writer.add_head_count_kv(facts.get("kv_heads", 2))
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_tokenizer_model(facts.get("tokenizer", "gpt2"))
    writer.add_tokenizer_pre(facts.get("pre", "smollm"))
    tokens = facts.get("tokens", TOKENS)
    writer.add_token_list(tokens)
    writer.add_token_types(facts.get("kinds", [3, 3, 3] + [1] * (len(tokens) - 3)))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    if facts.get("end", 2):
        writer.add_eos_token_id(facts.get("end", 2))
    for name in {"eot", "eom", "padding"} & facts.keys():
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", facts[name])
    if "add_bos" in facts:
        writer.add_add_bos_token(facts["add_bos"])
    writer.add_chat_template(facts.get("template", TEMPLATE))
    if "experts" in facts:
        writer.add_expert_count(facts["experts"])
    if "logit_scale" in facts:
        writer.add_logit_scale(facts["logit_scale"])
    for name, array in mx.load(str(base / "model.safetensors")).items():
        array = turned(name, np.array(array)) if architecture == "llama" else np.array(array)
        if array.ndim == 2 and kind != F32:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name(name), array)
    if "tensor" in facts:
        writer.add_tensor(facts["tensor"], np.zeros((2, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def arrays_of(directory: Path) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in mx.load(str(directory / "model.safetensors")).items()}


def test_a_model_comes_back_to_the_bit(base: Any, tmp_path: Path) -> None:
    directory = directory_of_gguf(write_gguf(tmp_path / "tiny.gguf", base), tmp_path / "cache")
    found, expected = arrays_of(directory), arrays_of(base)
    assert found.keys() == expected.keys()
    assert all((found[name] == array).all() for name, array in expected.items())
    config, original = (json.loads((place / "config.json").read_text()) for place in (directory, base))
    for name in ("hidden_size", "num_key_value_heads", "vocab_size", "tie_word_embeddings", "eos_token_id"):
        assert config[name] == original[name], name


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0", "Q4_1"])
def test_quantized_weights_are_what_their_blocks_stand_for(base: Any, tmp_path: Path, kind: str) -> None:
    """Within half a step of each block of 32, the whole range of which has 255 or 15 steps."""
    written = write_gguf(tmp_path / "tiny.gguf", base, gguf.GGMLQuantizationType[kind])
    found, expected = arrays_of(directory_of_gguf(written, tmp_path)), arrays_of(base)
    steps = {"F16": 2000, "Q8_0": 254, "Q4_0": 15, "Q4_1": 15}[kind]
    for name, array in expected.items():
        if array.ndim == 1:
            assert (found[name] == array).all()
            continue
        blocks, errors = (a.reshape(-1, 32) for a in (array, found[name] - array))
        step = 2 * np.abs(blocks).max(axis=1) / steps
        assert (np.abs(errors).max(axis=1) <= (1.01 if kind == "Q4_0" else 0.51) * step + 1e-3).all(), name


def test_blocks_by_hand() -> None:
    """Q8_0 is d and 32 bytes, d * q; Q4_1 is d, m and 16 bytes, d * nibble + m, low nibbles first."""
    eight = np.frombuffer(struct.pack("<e32b", 0.5, *range(-16, 16)), np.uint8)[None]
    found = gguf.quants.dequantize(eight, gguf.GGMLQuantizationType.Q8_0)
    assert found.tolist() == [[0.5 * q for q in range(-16, 16)]]
    four = np.frombuffer(struct.pack("<ee16B", 0.25, -1.0, *[0x21] * 16), np.uint8)[None]
    found = gguf.quants.dequantize(four, gguf.GGMLQuantizationType.Q4_1)
    assert found.tolist() == [[0.25 * 1 - 1] * 16 + [0.25 * 2 - 1] * 16]


def test_it_talks(base: Any, tmp_path: Path) -> None:
    """Chat template, end token and digits one by one, as its facts say."""
    model = load_mlx_model(directory_of_gguf(write_gguf(tmp_path / "tiny.gguf", base), tmp_path), device="cpu")
    prompt = model.prompt_tokens([Message("user", "12")])
    words = "".join(TOKENS[token] for token in prompt)
    assert words == "<|im_start|>userĊ12<|im_end|>Ċ<|im_start|>assistantĊ"
    (completion,) = model.sample([SampleRequest("k", (Message("user", "ab"),), 1, 0.8, 6)])
    assert completion.token_ids and completion.finish_reason in ("stop", "length")


def test_theta_counts_and_gives_the_log_probabilities_of_the_directory(tmp_path: Path) -> None:
    scores = []
    for theta in (10_000.0, 500.0):
        base = write_tiny_llama(tmp_path / f"{theta}", words=len(TOKENS) - 5, rope_theta=theta, eos_token_id=2)
        path = write_gguf(tmp_path / f"{theta}.gguf", base)
        models = [load_mlx_model(place, device="cpu") for place in (base, directory_of_gguf(path, tmp_path / "cache"))]
        own, converted = (np.array(model.engine.scores(range(3, 23), 1, adapter=True)) for model in models)
        np.testing.assert_allclose(own, converted, atol=1e-5)
        scores.append(own)
    assert np.abs(scores[0] - scores[1]).max() > 1e-2


def test_it_is_made_once(base: Any, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", base)
    first = directory_of_gguf(path, tmp_path / "cache")
    made = (first / "model.safetensors").stat().st_mtime_ns
    assert directory_of_gguf(path, tmp_path / "cache") == first
    assert (first / "model.safetensors").stat().st_mtime_ns == made
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [first.name], "nothing half-made is left"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"architecture": "mamba"}, "architecture 'mamba', expected 'llama'"),
        ({"tokenizer": "llama"}, "tokenizer of kind llama/smollm, expected gpt2"),
        ({"pre": "klingon"}, "tokenizer of kind gpt2/klingon, expected gpt2 with one of gpt-2, smollm, llama-bpe"),
        ({"end": False}, "expected tokenizer.ggml.eos_token_id in the metadata"),
        ({"experts": 8}, "expert_count, which a plain Llama does not have"),
        ({"logit_scale": 2.0}, "logit_scale, which a plain Llama does not have"),
        ({"tensor": "blk.0.ssm_a.weight"}, "the tensor 'blk.0.ssm_a.weight', which a plain Llama does not have"),
        ({"tensor": "blk.7.attn_v.weight"}, "tensors, expected"),
        ({"heads": 3}, "is inconsistent"),
        ({"kv_heads": 0}, "is inconsistent"),
        ({"end": 9999}, "is inconsistent"),
        ({"kinds": [3]}, "is inconsistent"),
    ],
)
def test_another_kind_of_model_is_refused_by_name(base: Any, tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    path = write_gguf(tmp_path / "odd.gguf", base, **facts)
    with pytest.raises(ModelError, match=said) as caught:
        directory_of_gguf(path, tmp_path / "cache")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache").exists() or not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9])
def test_a_damaged_file_is_one_line(base: Any, tmp_path: Path, share: float) -> None:
    whole = write_gguf(tmp_path / "tiny.gguf", base).read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelError, match=r"cut\.gguf") as caught:
        directory_of_gguf(path, tmp_path / "cache")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read .*gone\.gguf: No such file"):
        directory_of_gguf(tmp_path / "gone.gguf", tmp_path)


def test_a_cache_that_cannot_be_written_is_one_line(base: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(ModelError, match="could not write the model of"):
        directory_of_gguf(write_gguf(tmp_path / "tiny.gguf", base), tmp_path / "cache")


def test_tokens_that_end_turns_and_messages_end_texts_too(base: Any, tmp_path: Path) -> None:
    """The file's end of text is another token than the one with which its template ends a turn."""
    path = write_gguf(tmp_path / "eot.gguf", base, end=3, eot=2, eom=4)
    directory = directory_of_gguf(path, tmp_path / "cache")
    assert json.loads((directory / "config.json").read_text())["eos_token_id"] == [3, 2, 4]
    model = load_mlx_model(directory, device="cpu")
    assert model._stop == {2, 3, 4} and model._end == 2
    assert model.text_tokens("a", end=True)[-1] == 2
    assert load_mlx_model(directory_of_gguf(write_gguf(tmp_path / "eos.gguf", base), tmp_path), device="cpu")._stop == {
        2
    }


def test_a_file_without_end_of_text_ends_with_its_end_of_turn(base: Any, tmp_path: Path) -> None:
    directory = directory_of_gguf(write_gguf(tmp_path / "eot.gguf", base, end=False, eot=2), tmp_path)
    assert json.loads((directory / "config.json").read_text())["eos_token_id"] == 2


@pytest.mark.parametrize("kind", ["end", "eot", "padding"])
def test_a_special_token_that_does_not_exist_is_named(base: Any, tmp_path: Path, kind: str) -> None:
    name = {"end": "eos"}.get(kind, kind)
    with pytest.raises(
        ModelError, match=f"is inconsistent: tokenizer.ggml.{name}_token_id is 9999, which is not among"
    ):
        facts: dict[str, Any] = {kind: 9999}
        directory_of_gguf(write_gguf(tmp_path / "odd.gguf", base, **facts), tmp_path)


def test_a_text_begins_with_the_token_that_the_file_adds(base: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    found = {}
    for add in (True, False):
        path = write_gguf(tmp_path / f"{add}.gguf", base, add_bos=add)
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory_of_gguf(path, tmp_path))
        found[add] = tokenizer.encode("ab", add_special_tokens=True)
        assert tokenizer.encode("ab", add_special_tokens=False) == [TOKENS.index("ab")]
    assert found == {True: [1, TOKENS.index("ab")], False: [TOKENS.index("ab")]}


def test_a_token_beyond_the_embedding_is_named(base: Any, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "more.gguf", base, tokens=[*TOKENS, "<tool>"])
    with pytest.raises(ModelError, match=f"the token '<tool>' \\({len(TOKENS)}\\) of .* has no embedding"):
        load_mlx_model(directory_of_gguf(path, tmp_path), device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["", '{"enable_thinking": true}', '{"enable_thinking": false}'])
def test_a_file_and_its_directory_write_the_same_prompt_with_every_backend(
    base: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """mlx-lm's tokenizers decide about thinking by themselves where a vocabulary has these tokens."""
    pytest.importorskip("peft")
    import gce

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    template = (Path(__file__).parent / "chat_templates" / "qwen3.jinja").read_text()
    tokens = [*TOKENS[:-4], "<think>", "</think>", *TOKENS[-2:]]
    kinds = [3, 3, 3, *([1] * (len(tokens) - 7)), 4, 4, 1, 1]
    path = write_gguf(tmp_path / "tiny.gguf", base, template=template, tokens=tokens, kinds=kinds)
    directory = directory_of_gguf(path, tmp_path)
    messages = (Message("system", "aa"), Message("user", "ab"))
    names = [str(path), str(directory), f"hf:{directory}"]
    if importlib.util.find_spec("llama_cpp"):
        names.append(f"llama:{path}")
    models: list[Any] = [gce.load_model(name, device="cpu", chat_template_kwargs=arguments).model for name in names]
    prompts = [model.prompt_tokens(messages) for model in models]
    thought = [tokens.index("<think>"), tokens.index("</think>")]
    assert all(each == prompts[0] for each in prompts)
    assert all((each in prompts[0]) == ("false" in arguments) for each in thought)
