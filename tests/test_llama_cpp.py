"""A GGUF file in llama.cpp keeps to the port, agrees with mlx, and takes the adapters that mlx trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp")
pytest.importorskip("gguf")
pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("safetensors")

from test_gguf_files import write_gguf
from test_mlx_model import batch_of
from tiny_llama import write_tiny_llama

from gce.adapters.models.backends.llama_cpp.model import load_llama_model
from gce.adapters.models.backends.mlx.model import load_mlx_model
from gce.adapters.models.formats.gguf_files import directory_of_gguf
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.wrappers.other_sampler import WithSampler
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.wiring.models import find_learning_model, find_model
from gce.domain.completions import SampleRequest
from gce.domain.learning import ModelState
from gce.domain.problems import Message
from gce.domain.tasks import TASKS
from gce.errors import BadInput, ModelError
from gce.ports.model import Learner, Probe
from gce.testing.contracts.model import assert_same_arrays, check_model

TOKENS = ["<|pad|>", "<|im_start|>", "<|im_end|>", *"abcdefghijklmnop", "ab"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
PROMPTS = tuple((Message("user", text),) for text in ("abcd", "mnop", "aabbccdd"))
TOLERANCE = 0.02
"""Of a log-probability in nats: llama.cpp keeps keys and values in float16."""
TOO_LONG = (Message("user", "c" * 300),)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    base = write_tiny_llama(folder / "base", layers=3, words=len(TOKENS) - 5, context=128, eos_token_id=2)
    return write_gguf(folder / "tiny.gguf", base, tokens=TOKENS, template=TEMPLATE)


def on_llama(path: Path, **options: Any) -> Any:
    return load_llama_model(path, device="cpu", threads=2, **options)


def on_mlx(path: Path, *layers: int) -> Any:
    return load_mlx_model(
        directory_of_gguf(path, path.parent / "cache"),
        device="cpu",
        lora=LoraSettings(rank=4, layers=layers),
        optimizer=OptimizerSettings(learning_rate=0.02),
        threads=2,
    )


def requests_of(count: int, *, temperature: float = 1.0, max_tokens: int = 40) -> list[SampleRequest]:
    return [
        SampleRequest(f"{i}", PROMPTS[i % len(PROMPTS)], 7 + i, temperature, max_tokens + i % 3) for i in range(count)
    ]


def sampled(model: Any, requests: Sequence[SampleRequest]) -> dict[str, Any]:
    return {completion.key: completion for completion in model.sample(requests)}


def learned(path: Path) -> ModelState:
    """An adapter after some steps that move it far."""
    model = on_mlx(path, 0, 2)
    for _ in range(3):
        model.update(batch_of(model))
    state: ModelState = model.state()
    return state


def with_adapter(path: Path, state: ModelState) -> Any:
    model = on_llama(path)
    model.restore(state)
    return model


def test_it_keeps_to_the_port_with_and_without_an_adapter(path: Path) -> None:
    check_model(lambda: on_llama(path), prompts=PROMPTS, too_long=TOO_LONG, max_tokens=60)
    state = learned(path)
    check_model(lambda: with_adapter(path, state), prompts=PROMPTS, too_long=TOO_LONG, max_tokens=60)


def test_it_neither_learns_nor_probes(path: Path) -> None:
    model = on_llama(path)
    assert not isinstance(model, Learner) and not isinstance(model, Probe)


def test_texts_are_as_likely_as_with_mlx(path: Path) -> None:
    one, other, state = on_llama(path), on_mlx(path, 0, 2), learned(path)
    for _ in range(2):
        for prompt in PROMPTS:
            assert one.prompt_tokens(prompt) == other.prompt_tokens(prompt)
            for adapter in (True, False):
                found, expected = (m.log_probabilities(prompt, "hgfedcba", adapter=adapter) for m in (one, other))
                np.testing.assert_allclose(found, expected, atol=TOLERANCE)
        one.restore(state)
        other.restore(state)


@pytest.mark.parametrize(("family", "facts"), [("qwen2", {}), ("qwen3", {"head_dim": 8})])
def test_an_adapter_of_another_architecture_is_as_with_mlx(tmp_path: Path, family: str, facts: dict[str, Any]) -> None:
    base = write_tiny_llama(tmp_path / "base", layers=2, words=len(TOKENS) - 5, family=family, eos_token_id=2, **facts)
    path = write_gguf(tmp_path / "tiny.gguf", base, architecture=family, tokens=TOKENS, template=TEMPLATE)
    other = load_mlx_model(
        base, device="cpu", lora=LoraSettings(rank=4, layers=(1,)), optimizer=OptimizerSettings(learning_rate=0.1)
    )
    for _ in range(3):
        other.update(batch_of(other))
    one, tokens = with_adapter(path, other.state()), (1, 5, 9, 2, 1, 7, 3, 12, 4, 2)
    for adapter in (True, False):
        found, expected = (m.engine.scores(tokens, 4, adapter=adapter) for m in (one, other))
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert np.abs(np.subtract(found, one.engine.scores(tokens, 4, adapter=True))).max() > 10 * TOLERANCE


def test_the_same_numbers_draw_the_same_tokens_as_with_mlx(path: Path) -> None:
    """Where two tokens are as likely as rounding can tell they may differ."""
    requests = requests_of(24)
    one, other = (sampled(make(path), requests) for make in (on_llama, on_mlx))
    same = [one[r.key].token_ids == other[r.key].token_ids for r in requests]
    assert sum(same) >= len(requests) - 3
    for r, equal in zip(requests, same, strict=True):
        if equal:
            assert one[r.key].text == other[r.key].text
            np.testing.assert_allclose(one[r.key].log_probabilities, other[r.key].log_probabilities, atol=TOLERANCE)


@pytest.mark.parametrize("max_batch", [1, 4, 9])
def test_a_completion_is_the_same_whatever_shares_its_batch(path: Path, max_batch: int) -> None:
    requests = requests_of(20)
    one, other = (sampled(on_llama(path, max_batch=rows), requests) for rows in (max_batch, 64))
    assert sum(one[r.key].token_ids == other[r.key].token_ids for r in requests) >= len(requests) - 1


def test_unfinished_sampling_keeps_its_adapter(path: Path) -> None:
    model, requests = on_llama(path), requests_of(6)
    expected = sampled(model, requests)
    unfinished = model.sample(requests)
    found = [next(unfinished)]
    model.restore(learned(path))
    other = sampled(model, requests)
    found += unfinished
    assert {completion.key: completion for completion in found} == expected
    assert {c.policy for c in other.values()} == {model.info().identity} != {c.policy for c in found}


def test_a_long_prompt_is_decoded_in_parts(tmp_path: Path) -> None:
    """Of 700 tokens, which exceed a call's 512: as likely, token by token, as with mlx."""
    base = write_tiny_llama(tmp_path / "base", layers=2, words=len(TOKENS) - 5, context=1024, eos_token_id=2)
    path = write_gguf(tmp_path / "tiny.gguf", base, tokens=TOKENS, template=TEMPLATE, context=1024)
    prompt, text = (Message("user", "cdefghi" * 100),), "hg" * 20
    one, other = on_llama(path), on_mlx(path)
    np.testing.assert_allclose(
        one.log_probabilities(prompt, text), other.log_probabilities(prompt, text), atol=TOLERANCE
    )
    request = [SampleRequest("long", prompt, 1, 1.0, 30)]
    assert sampled(one, request)["long"].token_ids == sampled(other, request)["long"].token_ids


def test_an_adapter_of_another_model_is_refused_and_changes_nothing(path: Path, tmp_path: Path) -> None:
    base = write_tiny_llama(tmp_path / "base", hidden=64, layers=3, words=len(TOKENS) - 5, eos_token_id=2)
    wider = write_gguf(tmp_path / "wider.gguf", base, tokens=TOKENS, template=TEMPLATE)
    model = on_llama(path)
    before, found = model.info(), model.log_probabilities(PROMPTS[0], "abc")
    with pytest.raises(ValueError, match=r"llama\.cpp could not load the adapter: .*incorrect shape"):
        model.restore(on_mlx(wider, 1).state())
    assert (model.info(), model.log_probabilities(PROMPTS[0], "abc")) == (before, found)


def test_what_is_no_model_is_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes()[:2000])
    for where, said in ((damaged, "llama.cpp could not load"), (tmp_path / "none.gguf", "cannot read|No such file")):
        with pytest.raises(ModelError, match=said) as caught:
            on_llama(where)
        assert "\n" not in str(caught.value)


def test_it_stands_behind_its_name_but_not_for_training(path: Path) -> None:
    settings = TrainSettings(model=ModelSettings(name=f"llama:{path}", device="cpu"))
    assert find_model(settings, TASKS["scheduling"]).info().capabilities == {"sample", "score"}
    with pytest.raises(BadInput, match="cannot be trained, only evaluated"):
        find_learning_model(settings, TASKS["scheduling"])


def test_as_a_sampler_it_follows_the_learner_to_the_byte(path: Path) -> None:
    """A second pair that takes the first one's state goes on as the first does, and unlike before the update."""
    one, other = (WithSampler(on_mlx(path, 0, 2), on_llama(path)) for _ in range(2))
    before = sampled(one, requests_of(6))
    one.update(batch_of(one))
    other.restore(one.state())
    found = sampled(one, requests_of(6))
    assert sampled(other, requests_of(6)) == found != before
    reports = [model.update(batch_of(model)) for model in (one, other)]
    assert reports[0] == reports[1]
    assert_same_arrays(one.state(), other.state())
