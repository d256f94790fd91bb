"""On a GPU of NVIDIA, `hf:` models sample and learn as on the CPU: `pytest -m gpu tests/test_gpu.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("tokenizers")

from tiny_llama import TEMPLATE  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

from gce.adapters.models.backends.torch import decoder  # noqa: E402
from gce.adapters.models.backends.torch.data_parallel import backend_for  # noqa: E402
from gce.adapters.models.backends.torch.model import load_torch_model  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.domain.completions import SampleRequest  # noqa: E402
from gce.domain.learning import Trace, TrainingBatch, single_turn  # noqa: E402
from gce.domain.problems import Message  # noqa: E402
from gce.testing.contracts.model import assert_same_arrays, check_model  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of NVIDIA")]

PROMPTS = tuple((Message("user", f"w{number} w{number + 1} w3"),) for number in range(3))
TOO_LONG = (Message("user", "w1 " * 300),)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama, written without mlx, which GPU machines lack."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("model")
    words = ["<pad>", "<end>", "<system>", "<user>", "<assistant>", *(f"w{number}" for number in range(43))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<pad>")
    fast.add_special_tokens({"additional_special_tokens": words[2:5]})
    fast.chat_template = TEMPLATE
    fast.save_pretrained(place)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,
        eos_token_id=1,
        bos_token_id=None,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(place)
    return place


def loaded(directory: Path, **given: Any) -> Any:
    return load_torch_model(
        directory,
        lora=LoraSettings(rank=4, layers=(0, 2)),
        optimizer=OptimizerSettings(learning_rate=0.01, tokens_per_pass=256),
        **given,
    )


def requests_of(count: int = 12, *, temperature: float = 0.8, tokens: int = 150) -> list[SampleRequest]:
    """Long enough for buffers to grow, so that several graphs are recorded."""
    return [
        SampleRequest(str(place), PROMPTS[place % len(PROMPTS)], place, temperature, tokens - 7 * (place // 3))
        for place in range(count)
    ]


def texts(model: Any, requests: list[SampleRequest]) -> dict[str, tuple[int, ...]]:
    return {each.key: each.token_ids for each in model.sample(requests)}


def batch_of(model: Any) -> TrainingBatch:
    requests = requests_of(6, tokens=12)
    found = {each.key: each for each in model.sample(requests)}
    traces = tuple(
        Trace(each.key, each.key, "", 1, single_turn(each.messages, found[each.key]), (), each.key) for each in requests
    )
    return TrainingBatch(traces=traces, weights=(1.0, -0.5, 0.3, -1.0, 0.7, 0.2), clip=0.2)


def alike(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The share of answers that are equal, token for token."""
    return float(np.mean([one[key] == other[key] for key in one]))


def test_it_keeps_to_the_port(directory: Path) -> None:
    check_model(lambda: loaded(directory), prompts=PROMPTS, too_long=TOO_LONG)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_it_samples_as_on_the_cpu_and_with_graphs_as_without(
    directory: Path, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same seeds; rounding may separate one answer of twelve."""
    requests = requests_of(temperature=temperature)
    recorded: list[int] = []
    record = decoder.BatchDecoder._recorded

    def counted(self: Any, **given: Any) -> Any:
        recorded.append(1)
        return record(self, **given)

    monkeypatch.setattr(decoder.BatchDecoder, "_recorded", counted)
    model = loaded(directory)
    with_graphs = texts(model, requests)
    assert len(recorded) > 1 and model.sample(requests[:1])
    assert texts(model, requests) == with_graphs
    monkeypatch.setattr(decoder, "_recordable", lambda _: False)
    without = texts(loaded(directory), requests)
    on_cpu = texts(loaded(directory, device="cpu"), requests)
    assert alike(with_graphs, without) >= 11 / 12
    assert alike(with_graphs, on_cpu) >= 11 / 12


def test_a_model_that_cannot_be_recorded_is_sampled_without_graphs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that the model's code asks of the device ends the recording, not the sampling."""
    expected = texts(loaded(directory), requests_of())
    model = loaded(directory)
    compute = decoder.BatchDecoder._compute

    def asking(self: Any, given: Any, **more: Any) -> Any:
        given.sum().item()
        return compute(self, given, **more)

    monkeypatch.setattr(decoder.BatchDecoder, "_compute", asking)
    assert alike(texts(model, requests_of()), expected) >= 11 / 12


def test_it_learns_as_on_the_cpu(directory: Path) -> None:
    gpu, cpu = loaded(directory), loaded(directory, device="cpu")
    batch = batch_of(cpu)
    for _ in range(3):
        found, expected = gpu.update(batch), cpu.update(batch)
        assert found.loss == pytest.approx(expected.loss, rel=1e-3, abs=1e-5)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-2)
    ours, theirs = gpu.state().arrays, cpu.state().arrays
    apart = np.concatenate([np.abs(ours[name] - theirs[name]).ravel() for name in ours if "adapter." in name])
    assert np.quantile(apart, 0.99) < 1e-3


def test_it_goes_on_from_a_checkpoint_of_the_cpu(directory: Path) -> None:
    cpu, gpu = loaded(directory, device="cpu"), loaded(directory)
    cpu.update(batch_of(cpu))
    gpu.restore(cpu.state())
    assert_same_arrays(gpu.state(), cpu.state())


@pytest.mark.parametrize("checkpointing", [False, True])
def test_bfloat16_learns_nearly_the_same(directory: Path, checkpointing: bool) -> None:
    plain, other = loaded(directory), loaded(directory, bf16=True, gradient_checkpointing=checkpointing)
    batch = batch_of(plain)
    expected, found = plain.update(batch), other.update(batch)
    assert found.loss == pytest.approx(expected.loss, rel=0.05, abs=0.02)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=0.2)


def test_weights_that_are_stored_in_bfloat16_sample_and_learn_in_it(directory: Path, tmp_path: Path) -> None:
    import shutil

    half = tmp_path / "half"
    shutil.copytree(directory, half)
    LlamaForCausalLM.from_pretrained(directory, dtype=torch.bfloat16).save_pretrained(half)
    model = loaded(half, bf16=True)
    assert model.engine.model.dtype == torch.bfloat16
    batch = batch_of(model)
    losses = [model.update(batch).loss for _ in range(5)]
    assert losses[-1] < losses[0]
    assert texts(model, requests_of()) == texts(model, requests_of())


def test_nccl_sums_the_gradients_of_one_process() -> None:
    """More processes need more GPUs."""
    import torch.distributed as dist

    device = torch.device("cuda", 0)
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    dist.init_process_group(backend_for(device), store=store, rank=0, world_size=1)
    try:
        total = torch.arange(5, dtype=torch.float64, device=device)
        dist.broadcast(total, src=0)
        dist.reduce(total, dst=0)
        assert total.tolist() == [0, 1, 2, 3, 4]
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_learn_as_one(directory: Path) -> None:
    one, two = loaded(directory), loaded(directory, processes=2)
    batch = batch_of(one)
    for _ in range(5):
        assert two.update(batch).loss == pytest.approx(one.update(batch).loss, rel=1e-4)
    two.engine.processes.close()


@pytest.mark.skipif(importlib.util.find_spec("bitsandbytes") is None, reason="needs bitsandbytes")
def test_four_bits_learn(directory: Path) -> None:
    model = loaded(directory, load_in_4bit=True)
    batch = batch_of(model)
    losses = [model.update(batch).loss for _ in range(5)]
    assert losses[-1] < losses[0]
