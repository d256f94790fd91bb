"""A model on torch keeps to the port, agrees with mlx, and goes on from its checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from test_mlx_model import PROMPTS, TOO_LONG, batch_of, requests_of  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.model import load_mlx_model  # noqa: E402
from gce.adapters.models.backends.torch.decoder import BatchDecoder, SequenceDecoder, decoder_maker  # noqa: E402
from gce.adapters.models.backends.torch.model import load_torch_model  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.adapters.models.local.token_sequences import Example  # noqa: E402
from gce.domain.completions import SampleRequest  # noqa: E402
from gce.domain.learning import Objective  # noqa: E402
from gce.errors import ModelError  # noqa: E402
from gce.testing.contracts.model import assert_same_arrays, check_model  # noqa: E402


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64)


def loaded(load: Any, directory: Path, *layers: Any, **lora: Any) -> Any:
    return load(
        directory,
        device="cpu",
        lora=LoraSettings(rank=4, layers=tuple(layers), **lora),
        optimizer=OptimizerSettings(learning_rate=0.02, tokens_per_pass=128),
        threads=2,
    )


def on_torch(directory: Path, *layers: Any, **lora: Any) -> Any:
    return loaded(load_torch_model, directory, *layers, **lora)


def on_mlx(directory: Path, *layers: Any, **lora: Any) -> Any:
    return loaded(load_mlx_model, directory, *layers, **lora)


def test_it_keeps_to_the_port(directory: Path) -> None:
    check_model(lambda: on_torch(directory, 0, 2), prompts=PROMPTS, too_long=TOO_LONG)


def test_both_backends_start_equal_find_texts_as_likely_and_learn_alike(directory: Path) -> None:
    """After three updates adapters are equal within 2e-4, but for one number in a thousand: AdamW makes a step of a
    gradient that is nothing but rounding, too.
    """
    one, other = on_torch(directory, 0, 2), on_mlx(directory, 0, 2)
    assert_same_arrays(one.state(), other.state())
    batch = batch_of(other)
    for _ in range(3):
        found, expected = one.update(batch), other.update(batch)
        assert found.loss == pytest.approx(expected.loss, rel=1e-4)
        assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-3)
    theirs, ours = one.state().arrays, other.state().arrays
    apart = np.concatenate([np.abs(theirs[name] - array).ravel() for name, array in ours.items() if "adapter." in name])
    assert np.quantile(apart, 0.999) < 2e-4 and apart.max() < 0.02
    for prompt in PROMPTS:
        np.testing.assert_allclose(
            one.log_probabilities(prompt, "w1 w2 w3"), other.log_probabilities(prompt, "w1 w2 w3"), atol=1e-3
        )


SEVERAL_TURNS = [
    Example((5, 6, 7, 8, 9, 10, 11), 2, 0.5, factors=(1.0, 0.0, 0.0, 2.0, 1.0)),
    Example((5, 6, 7, 12), 3, -1.0),
    Example((5, 6, 7, 8, 9), 2, 1.0, factors=(1.0, 1.0, 0.0)),
]


def test_the_loss_of_several_turns_is_the_one_by_hand_and_its_gradient_that_of_mlx(directory: Path) -> None:
    """3 + 1 + 2 trained tokens, their log-probabilities from the whole model's logits."""
    one, other = on_torch(directory, 0, 2).engine, on_mlx(directory, 0, 2).engine
    expected = 0.0
    for example in SEVERAL_TURNS:
        with torch.no_grad():
            logits = one.model(torch.tensor([example.tokens])).logits[0].double()
        for place, factor in enumerate(example.factors or (1.0,), start=example.start):
            found = logits[place - 1].log_softmax(dim=-1)[example.tokens[place]].item()
            expected -= example.weight * factor * found / 6
    loss, norm, _ = one.step(SEVERAL_TURNS, Objective(), rate=1.0)
    assert loss == pytest.approx(expected, abs=1e-5)
    assert (loss, norm) == pytest.approx(other.step(SEVERAL_TURNS, Objective(), rate=1.0)[:2], rel=1e-4)


@pytest.mark.parametrize(
    "more",
    [
        {"clip": 0.2, "clip_high": 0.28},
        {"clip": 0.02, "ratio": "sequence", "normalization": "sequence", "kl": 0.1},
        {"clip": 0.3, "ratio": "product", "normalization": "sequence"},
        {"clip": 0.2, "normalization": "constant", "length": 12},
    ],
    ids=str,
)
@pytest.mark.parametrize("dropout", [0.0, 1e-9], ids=["numpy", "mlx"])
def test_torch_numpy_and_mlx_find_the_same_loss_gradient_and_metrics(
    directory: Path, more: dict[str, Any], dropout: float
) -> None:
    """With log-probabilities at sampling around the model's, so that some ratios are clipped."""
    one, other = on_torch(directory, 0, 2), on_mlx(directory, 0, 2, dropout=dropout)
    drawn, traces = batch_of(other), []
    rng = np.random.Generator(np.random.Philox(5))
    for trace in drawn.traces:
        said = trace.completion
        assert said.log_probabilities is not None
        old = np.array(said.log_probabilities) + rng.normal(0, 0.4, len(said.log_probabilities))
        completion = evolve(said, log_probabilities=tuple(old.tolist()))
        traces.append(evolve(trace, turns=(*trace.turns[:-1], evolve(trace.turns[-1], completion=completion))))
    weights = tuple(1.0 if place % 2 else -0.5 for place in range(len(traces)))
    batch = evolve(drawn, traces=tuple(traces), weights=weights, **more)
    found, expected = (asdict(each.update(batch), filter=lambda _, value: value is not None) for each in (one, other))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert found["clipped_low"] + found["clipped_high"] > 0 and found["approx_kl"] > 1e-2


def test_a_token_that_is_not_trained_has_no_gradient(directory: Path) -> None:
    """The last token is read by nobody: with factor 0 the model learns the same to the bit, without a factor not."""

    def learned(end: int, *factors: float) -> tuple[Any, Any]:
        engine = on_torch(directory, 0, 2).engine
        example = Example((7, 8, 9, 10, end), 2, 1.0, factors=factors)
        return engine.step([example], Objective(), rate=1.0)[:2], engine.state()

    (one, state), (other, other_state) = (learned(end, 1.0, 1.0, 0.0) for end in (11, 12))
    assert one == other
    assert_same_arrays(state, other_state)
    assert learned(11)[0] != learned(12)[0]


def test_both_backends_draw_the_same_tokens(directory: Path) -> None:
    """From the same numbers between 0 and 1; where two tokens are as likely as rounding can tell they may differ."""
    requests = requests_of(12)
    one, other = ({c.key: c for c in make(directory).sample(requests)} for make in (on_torch, on_mlx))
    same = sum(one[request.key].token_ids == other[request.key].token_ids for request in requests)
    assert same >= len(requests) - 1
    probing = [model.activation_statistics(PROMPTS) for model in (on_torch(directory), on_mlx(directory))]
    for found, expected in zip(*probing, strict=True):
        assert found.mean_square == pytest.approx(expected.mean_square, rel=1e-4)
        assert found.update_mean_square == pytest.approx(expected.update_mean_square, rel=1e-4)


def test_a_checkpoint_goes_on_in_the_other_backend(directory: Path) -> None:
    one, other = on_mlx(directory, 1), on_torch(directory)
    batch = batch_of(one)
    one.update(batch)
    other.restore(one.state())
    assert other.info().adapted_layers == (1,)
    assert_same_arrays(other.state(), one.state())
    assert other.update(batch).loss == pytest.approx(one.update(batch).loss, rel=1e-4)
    back = on_mlx(directory)
    back.restore(other.state())
    assert_same_arrays(back.state(), other.state())


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_same_seed_same_bytes_with_and_without_sampling_in_between(directory: Path, dropout: float) -> None:
    quiet, busy = (on_torch(directory, 1, dropout=dropout) for _ in range(2))
    batch = batch_of(quiet)
    for _ in range(2):
        list(busy.sample(requests_of(temperature=0.0)))
        busy.log_probabilities(PROMPTS[0], "w1", adapter=False)
        busy.activation_statistics(PROMPTS)
        assert busy.update(batch) == quiet.update(batch)
    assert_same_arrays(busy.state(), quiet.state())
    assert busy.info() == quiet.info()


def test_rows_and_single_sequences_give_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = on_torch(directory)
    assert isinstance(decoder_maker(model.engine.model)(2, [(4, 5)]), BatchDecoder)
    rows = {c.key: c.token_ids for c in model.sample(requests_of(12))}
    monkeypatch.setattr(
        sys.modules[load_torch_model.__module__],
        "decoder_maker",
        lambda twin: lambda _rows, _prompts: SequenceDecoder(twin),
    )
    single = {c.key: c.token_ids for c in on_torch(directory).sample(requests_of(12))}
    assert rows == single


def test_a_model_with_sliding_windows_is_decoded_one_at_a_time(directory: Path) -> None:
    model = on_torch(directory).engine.model
    model.config.layer_types = ["sliding_attention", "full_attention", "full_attention"]
    model.config.sliding_window = 4
    assert isinstance(decoder_maker(model)(2, [(4, 5)]), SequenceDecoder)


def written(directory: Path, tmp_path: Path, name: Any, config: Any, make: Any) -> Any:
    """A small model of another kind, with the tokenizer of the tiny Llama."""
    import shutil

    place = tmp_path / name
    shutil.copytree(directory, place)
    (place / "model.safetensors").unlink()
    torch.manual_seed(0)
    make(config).save_pretrained(place)
    return place


SMALL = {
    "vocab_size": 25,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "eos_token_id": 1,
    "bos_token_id": None,
    "pad_token_id": 0,
}


def test_scaled_logits_and_eager_attention_keep_to_the_port(directory: Path, tmp_path: Path) -> None:
    """Granite divides its logits; GPT-Neo attends with a kernel of its own, and locally in every other block."""
    from transformers import GPTNeoConfig, GPTNeoForCausalLM, GraniteConfig, GraniteForCausalLM

    granite = GraniteConfig(**SMALL, logits_scaling=4.0)
    scaled = written(directory, tmp_path, "granite", granite, GraniteForCausalLM)
    check_model(lambda: on_torch(scaled, 0), prompts=PROMPTS, too_long=TOO_LONG)
    neo = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4}
    other = GPTNeoConfig(**{**SMALL, **neo})
    local = written(directory, tmp_path, "neo", other, GPTNeoForCausalLM)
    check_model(lambda: on_torch(local, 0), prompts=PROMPTS, too_long=TOO_LONG)


def test_half_precision_keeps_what_was_learned_when_it_samples(directory: Path) -> None:
    """Sampled at the log-probabilities that the model with its adapter has, though the base is bfloat16."""
    from gce.adapters.models.backends.torch.model import TorchEngine

    model = on_torch(directory)
    half = TorchEngine(
        model.engine.model.to(torch.bfloat16),
        LoraSettings(rank=4, layers=(0, 1)),
        OptimizerSettings(learning_rate=1e-3),
        digest="half",
        seed=0,
        max_batch=8,
    )
    model.engine = half
    batch = batch_of(on_mlx(directory))
    for _ in range(3):
        model.update(batch)
    merged = half._adapter.merged()
    kept = [m for m in merged.modules() if type(m).__name__ == "Linear" and hasattr(m, "lora_A")]
    assert len(kept) == len(half.modules), "no adapter was rounded into its base"
    for completion in model.sample(requests_of(4)):
        found = half.scores(
            (*completion.prompt_token_ids, *completion.token_ids), len(completion.prompt_token_ids), adapter=True
        )
        np.testing.assert_allclose(completion.log_probabilities, found, atol=0.05)
    for name, array in half.state().arrays.items():
        assert array.dtype in (np.float32, np.uint64), name


def test_a_model_without_linears_to_adapt_is_one_line(directory: Path, tmp_path: Path) -> None:
    """GPT-2 has convolutions in their place."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=25, n_embd=32, n_layer=2, n_head=4, n_positions=64, eos_token_id=1, bos_token_id=1)
    place = written(directory, tmp_path, "gpt2", config, GPT2LMHeadModel)
    with pytest.raises(ModelError, match="PEFT cannot adapt no linears") as caught:
        on_torch(place, 0)
    assert "\n" not in str(caught.value)


def test_attaching_again_starts_over_and_leaves_the_base_as_it_was(directory: Path) -> None:
    model, fresh = on_torch(directory, 0), on_torch(directory, 2)
    base = model.log_probabilities(PROMPTS[0], "w1 w2")
    model.update(batch_of(model))
    model.attach([2])
    assert_same_arrays(model.state(), fresh.state())
    assert model.log_probabilities(PROMPTS[0], "w1 w2") == base


def test_stop_strings_end_the_text_in_both_backends(directory: Path) -> None:
    for make in (on_torch, on_mlx):
        model = make(directory)
        (free,) = model.sample([SampleRequest("k", PROMPTS[0], 3, 0.0, 12)])
        words = free.text.split()
        stop = words[3]
        (cut,) = model.sample([SampleRequest("k", PROMPTS[0], 3, 0.0, 12, stop=(stop, "never"))])
        assert cut.finish_reason == "stop"
        assert cut.text == free.text[: free.text.find(stop)]
        assert cut.token_ids == free.token_ids[: len(cut.token_ids)] and len(cut.token_ids) < len(free.token_ids)


@pytest.mark.slow
def test_on_a_language_model_both_backends_find_texts_as_likely(capsys: pytest.CaptureFixture[str]) -> None:
    """Within 1e-3 nats a token in the mean, in float32, on worked answers of every tier."""
    from gce.adapters.evaluators.verifier import TaskVerifier
    from gce.app.evaluation.demonstrations import demonstrations
    from gce.app.wiring.models import model_directory
    from gce.domain.tasks import TASKS

    try:
        directory = model_directory("smollm2")
    except ModelError as error:
        pytest.skip(str(error))
    task = TASKS["scheduling"]
    worked = demonstrations(task, TaskVerifier(task), "grounded", ["T0", "T2", "T3", "T4"], 2)
    asked = [(each.problem.prompt, each.text) for examples in worked.values() for each in examples]
    scores = []
    for load in (load_torch_model, load_mlx_model):
        model = load(directory, device="cpu")
        scores.append([value for prompt, text in asked for value in model.log_probabilities(prompt, text)])
    apart = np.abs(np.array(scores[0]) - np.array(scores[1]))
    with capsys.disabled():
        print(f"\n{len(apart)} tokens: mean {apart.mean():.1e}, largest {apart.max():.1e} nats apart")
    assert apart.mean() < 1e-3


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: (d / "config.json").unlink(), "found no config.json there"),
        (lambda d: (d / "model.safetensors").write_bytes(b"\0" * 40), "could not load a model"),
        (lambda d: (d / "tokenizer_config.json").write_text('{"eos_token": "<end>"}'), "chat template"),
    ],
)
def test_what_is_no_model_is_one_line(tmp_path: Path, damage: Callable[..., Any], said: str) -> None:
    directory = write_tiny_llama(tmp_path / "model", layers=1)
    damage(directory)
    with pytest.raises(ModelError, match=said) as caught:
        on_torch(directory)
    assert "\n" not in str(caught.value)


def test_rope_that_depends_on_the_length_ends_the_context_where_it_changes(tmp_path: Path) -> None:
    scaling = {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    directory = write_tiny_llama(tmp_path, context=64, rope_scaling={**scaling, "original_max_position_embeddings": 32})
    assert load_torch_model(directory, device="cpu").info().context == 32
