"""A model directory is computed as transformers computes it, or refused in one line that names the setting."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

mx = pytest.importorskip("mlx.core")
torch = pytest.importorskip("torch")
for package in ("mlx_lm", "tokenizers", "transformers", "peft"):
    pytest.importorskip(package)

from tiny_llama import TEMPLATE  # noqa: E402

from attacks.model_families import (  # noqa: E402
    COMMON,
    TOLERANCE,
    save_random,
    tiny_config,
    transformers_scores,
    variations,
)
from gce.adapters.models.backends.mlx.config import families  # noqa: E402
from gce.adapters.models.backends.mlx.model import load_mlx_model  # noqa: E402
from gce.adapters.models.backends.torch.model import load_torch_model  # noqa: E402
from gce.adapters.models.formats.adapter_files import peft_files, read_adapter  # noqa: E402
from gce.adapters.models.formats.base_weights import check_fits  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings  # noqa: E402
from gce.domain.completions import Completion, SampleRequest  # noqa: E402
from gce.domain.learning import Trace, TrainingBatch, single_turn  # noqa: E402
from gce.domain.problems import Message  # noqa: E402
from gce.errors import BadInput, ModelError  # noqa: E402

FAMILIES = sorted(families())
PROMPT = (Message("user", "say it"),)
PROMPTS = [(Message("user", "say it" + " now" * (n % 3)),) for n in range(6)]
SHORT, LONG = "ab", "the quick brown fox jumps over the lazy dog " * 2
"""Continuations within and beyond the sliding window of tiny models."""
SPECIAL = ["<pad>", "<system>", "<end>", "<user>", "<assistant>", "<|endoftext|>"]
TOKENS = [*SPECIAL, *"abcdefghijklmnopqrstuvwxyz0123456789Ġ"]


@pytest.fixture(autouse=True)
def _on_the_cpu() -> None:
    mx.set_default_device(mx.cpu)


def as_before(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json as transformers 4 wrote it."""
    rope = config.pop("rope_parameters", None)
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if not rope:
        return config
    if any(isinstance(value, dict) for value in rope.values()):
        config["rope_parameters"] = rope
        return config
    scaling = {name: value for name, value in rope.items() if name not in ("rope_theta", "partial_rotary_factor")}
    if scaling.pop("rope_type", "default") != "default":
        config["rope_scaling"] = {**scaling, "type": rope["rope_type"], "rope_type": rope["rope_type"]}
    return {**config, **{name: rope[name] for name in ("rope_theta", "partial_rotary_factor") if name in rope}}


def write_tokenizer(directory: Path) -> None:
    """Write a tokenizer of single characters, which transformers reads for every family as it is."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {token: place for place, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {"tokenizer_class": "TokenizersBackend", "eos_token": "<end>", "pad_token": "<pad>"}
    (directory / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": TEMPLATE}))


def saved(directory: Path, config: Any, *, before: bool = False) -> Any:
    """Save a random model with a tokenizer, and return transformers' own."""
    model = save_random(config, directory)
    write_tokenizer(directory)
    if before:
        path = directory / "config.json"
        path.write_text(json.dumps(as_before(json.loads(path.read_text()))))
    return model


def difference(model: Any, reference: Any, continuation: str) -> float:
    """Return the largest difference of log-probabilities between a model of ours and transformers' own, in nats."""
    prompt, written = model.prompt_tokens(PROMPT), model.text_tokens(continuation, end=True)
    expected = transformers_scores(reference, (*prompt, *written))[len(prompt) - 1 : -1]
    expected = expected[np.arange(len(written)), list(written)]
    return float(np.abs(np.array(model.log_probabilities(PROMPT, continuation)) - expected).max())


def sampled(model: Any) -> list[Completion]:
    """Sample, and assert that the log-probabilities are those that the model gives to the same tokens."""
    requests = [SampleRequest(f"{n}", prompt, n, temperature=1.0, max_tokens=6) for n, prompt in enumerate(PROMPTS)]
    completions = list(model.sample(requests))
    for completion in completions:
        assert completion.prompt_token_ids is not None and completion.token_ids is not None
        tokens = (*completion.prompt_token_ids, *completion.token_ids)
        scores = np.array(model.engine.scores(tokens, len(completion.prompt_token_ids), adapter=True))
        np.testing.assert_allclose(np.array(completion.log_probabilities), scores, atol=TOLERANCE)
    return completions


def agrees(directory: Path, reference: Any) -> bool:
    """Assert that a directory's model is that of transformers or refused; return whether it was computed."""
    try:
        model = load_mlx_model(directory, device="cpu")
    except ModelError as refused:
        assert "config.json has " in str(refused) and "\n" not in str(refused), refused
        return False
    context = model.info().context
    assert difference(model, reference, SHORT) < TOLERANCE
    if context is not None and context < 80:
        with pytest.raises(ModelError, match=f"at most {context} tokens"):
            model.log_probabilities(PROMPT, LONG)
    else:
        assert difference(model, reference, LONG) < TOLERANCE
    return True


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_settings_that_a_family_follows_give_log_probabilities_of_transformers(family: str, tmp_path: Path) -> None:
    base = tiny_config(family)
    draw, changes = random.Random(family), list(variations(base, COMMON))
    computed = 0
    for number, before in itertools.product(range(6), (False, True)):
        followed = [pair for pair in changes if pair[0] in families()[family].follows or pair[0].startswith("rope:")]
        chosen: dict[str, Any] = {}
        for _, changed in draw.sample(followed, min(number, len(followed))):
            chosen |= changed
        try:
            reference = saved(directory := tmp_path / f"{number}{before}", tiny_config(family, **chosen), before=before)
            transformers_scores(reference, [5, 6, 7])
        except Exception:  # transformers takes no such combination.
            continue
        computed += agrees(directory, reference)
    assert computed >= 3


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_setting_that_a_family_does_not_follow_is_refused_by_name(family: str, tmp_path: Path) -> None:
    for number, (name, changed) in enumerate(variations(tiny_config(family), COMMON)):
        if name in families()[family].follows:
            continue
        try:
            reference = saved(directory := tmp_path / str(number), tiny_config(family, **changed))
            transformers_scores(reference, [5, 6, 7])
        except Exception:  # transformers takes no such value.
            continue
        agrees(directory, reference)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The following .*_pattern keys:RuntimeWarning")  # PEFT's own, of experts
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_sampled_probed_trained_exported_and_reloaded(family: str, tmp_path: Path) -> None:
    import peft

    reference = saved(tmp_path / "base", tiny_config(family, vocab_size=len(TOKENS)))
    everything = tuple(range(reference.config.num_hidden_layers))

    model = load_mlx_model(tmp_path / "base", device="cpu", lora=LoraSettings(rank=2, layers=everything))
    completions = sampled(model)
    statistics = model.activation_statistics([PROMPT])
    assert len(statistics) == len(everything) and all(block.mean_square > 0 for block in statistics)
    completion = max(completions, key=lambda completion: len(completion.token_ids or ()))
    prompt = PROMPTS[int(completion.key)]
    trace = Trace("a", "p", "T0", 0, single_turn(prompt, completion), (), "a")
    for _ in range(3):
        model.update(TrainingBatch((trace,), (1.0,)))
    assert difference(model, reference, SHORT) > TOLERANCE
    state = model.state()
    again = load_mlx_model(tmp_path / "base", device="cpu", lora=LoraSettings(rank=2))
    again.restore(state)
    np.testing.assert_allclose(
        again.log_probabilities(PROMPT, SHORT), model.log_probabilities(PROMPT, SHORT), atol=1e-5
    )
    config = state.settings["adapter_config"]
    arrays = {
        name.removeprefix("adapter."): value for name, value in state.arrays.items() if name.startswith("adapter")
    }
    adapter = read_adapter(
        {"adapter_config.json": json.dumps(config).encode(), "adapters.safetensors": save(arrays)}, ""
    )
    try:
        check_fits(tmp_path / "base", adapter)
    except BadInput:
        return  # mlx-lm changes the weights when it loads them, so the adapter means something else elsewhere.
    (tmp_path / "peft").mkdir()
    for name, content in peft_files(adapter, "base").items():
        (tmp_path / "peft" / name).write_bytes(content)
    try:
        learned = peft.PeftModel.from_pretrained(reference, tmp_path / "peft").eval()
    except (ValueError, UserWarning) as refused:  # Where PEFT reads another adapter or none, `gce export` refuses too.
        words = ("incompatible", "not supported", "not found", "missing adapter keys")
        assert any(each in str(refused) for each in words), refused
        return
    assert difference(model, learned, SHORT) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_backend_gives_its_own_log_probabilities(family: str, tmp_path: Path) -> None:
    reference = saved(tmp_path, tiny_config(family))
    model = load_torch_model(tmp_path, device="cpu")
    assert max(difference(model, reference, text) for text in (SHORT, LONG)) < TOLERANCE
    try:
        sampled(model)
    except ModelError as refused:  # transformers keeps the state of some families in a cache of another kind.
        assert "can be scored, but not sampled" in str(refused) and family in ("mamba", "falcon_mamba")
