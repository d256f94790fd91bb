"""A model loaded with mlx keeps to the port, says what it is, and refuses what it cannot use in one line."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

mx = pytest.importorskip("mlx.core")
nn = pytest.importorskip("mlx.nn")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

from mlx.utils import tree_flatten  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.model import LoraSettings, OptimizerSettings, load_mlx_model  # noqa: E402
from gce.domain.completions import Completion, SampleRequest  # noqa: E402
from gce.domain.learning import Trace, TrainingBatch, Turn, single_turn, trained_turn  # noqa: E402
from gce.domain.problems import Message, ToolCall  # noqa: E402
from gce.errors import ModelError  # noqa: E402
from gce.ports.model import Learner, Probe, Sampler, Scorer  # noqa: E402
from gce.testing.contracts.model import assert_same_arrays, check_model  # noqa: E402

PROMPTS = [(Message("user", "w1 w2"),), (Message("system", "w3"), Message("user", "w4 w5 w6"))]
TOO_LONG = (Message("user", "w1 " * 70),)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64)


def load(directory: Path, *layers: Any, seed: int = 0, threads: int = 2, **lora: Any) -> Any:
    return load_mlx_model(
        directory,
        device="cpu",
        lora=LoraSettings(rank=4, layers=tuple(layers), **lora),
        optimizer=OptimizerSettings(learning_rate=0.02, tokens_per_pass=128),
        seed=seed,
        threads=threads,
    )


def requests_of(count: int = 6, *, temperature: float = 0.8) -> list[SampleRequest]:
    return [SampleRequest(f"{i}", PROMPTS[i % 2], i, temperature, 12) for i in range(count)]


def batch_of(model: Any, count: int = 6) -> TrainingBatch:
    requests = {request.key: request for request in requests_of(count)}
    found = sorted(model.sample(list(requests.values())), key=lambda completion: completion.key)
    traces = [Trace(c.key, "p", "T0", 0, single_turn(requests[c.key].messages, c), (), c.key) for c in found]
    return TrainingBatch(tuple(traces), (1.0,) * len(traces))


def without_tokens(batch: Any) -> Any:
    """As from a backend that tells nothing but text."""
    bare = {"prompt_token_ids": None, "token_ids": None, "log_probabilities": None}
    traces = tuple(
        evolve(trace, turns=single_turn(trace.messages, evolve(trace.completion, **bare))) for trace in batch.traces
    )
    return evolve(batch, traces=traces)


@pytest.mark.slow
def test_it_has_all_four_capabilities_and_keeps_to_the_port(directory: Path) -> None:
    model = load(directory)
    assert isinstance(model, Sampler) and isinstance(model, Scorer)
    assert isinstance(model, Learner) and isinstance(model, Probe)
    check_model(lambda: load(directory, 0, 2), prompts=PROMPTS, too_long=TOO_LONG)


@pytest.mark.slow
@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("lowest", [0, 1])
def test_same_seed_same_bytes_with_and_without_sampling_in_between(
    directory: Path, dropout: float, lowest: int
) -> None:
    """Two updates; one model is evaluated before, between and after them, greedily and not, on other threads."""
    quiet, busy = (load(directory, lowest, 2, dropout=dropout, threads=threads) for threads in (2, 1))
    batch = batch_of(quiet)
    for _ in range(2):
        list(busy.sample(requests_of(temperature=0.0)))
        busy.log_probabilities(PROMPTS[0], "w1", adapter=False)
        busy.activation_statistics(PROMPTS)
        assert busy.update(batch) == quiet.update(batch)
    list(busy.sample(requests_of()))
    assert_same_arrays(busy.state(), quiet.state())
    assert busy.info() == quiet.info()
    other = load(directory, 0, 2, seed=1)
    assert other.info().identity != load(directory, 0, 2).info().identity


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere mlx learns")
def test_a_plain_llama_on_a_linux_cpu_learns_by_numpy_unless_it_drops_out(directory: Path) -> None:
    """To the same adapter within rounding, as an update by mlx shows."""
    by_numpy, by_mlx = load(directory, 1), load(directory, 1)
    assert by_numpy.engine.learner is not None
    assert load(directory, 1, dropout=0.1).engine.learner is None
    by_mlx.engine.learner = None
    batch = batch_of(by_numpy)
    found, expected = by_numpy.update(batch), by_mlx.update(batch)
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=1e-4)


def test_learning_makes_the_traces_likelier(directory: Path) -> None:
    model = load(directory, 0, 1, 2)
    batch = batch_of(model)
    losses = [model.update(batch).loss for _ in range(6)]
    assert losses[-1] < losses[0] - 0.1


def test_traces_without_token_ids_are_read_from_their_text(directory: Path) -> None:
    """Chat template, then the text, then the end token where the model stopped by itself: the same numbers."""
    with_ids, with_text = load(directory, 1), load(directory, 1)
    batch = batch_of(with_ids)
    assert {trace.completion.finish_reason for trace in batch.traces} == {"stop", "length"}
    report = with_ids.update(batch)
    unknown = dict.fromkeys(("approx_kl", "logp_difference", "max_logp_difference"))
    assert with_text.update(without_tokens(batch)) == evolve(report, **unknown)
    assert report.max_logp_difference < 1e-4, "the learner finds tokens as likely as the sampler"
    assert_same_arrays(with_text.state(), with_ids.state())


def test_an_empty_completion_trains_nothing(directory: Path) -> None:
    model = load(directory, 1)
    (completion,) = model.sample([SampleRequest("k", TOO_LONG, 0)])
    trace = Trace("k", "p", "T0", 0, single_turn(PROMPTS[0], evolve(completion, token_ids=())), (), "k")
    report = model.update(TrainingBatch((trace,), (1.0,)))
    assert report.tokens == 0


def test_an_update_needs_an_adapter(directory: Path) -> None:
    model = load(directory)
    with pytest.raises(ModelError, match="call attach"):
        model.update(batch_of(model))


def test_sampling_uses_the_adapter(directory: Path) -> None:
    model = load(directory, 0, 1, 2)
    batch = batch_of(model)
    for _ in range(5):
        model.update(batch)
    for completion in model.sample(requests_of()):
        prompt = PROMPTS[int(completion.key) % 2]
        scores = model.log_probabilities(prompt, completion.text)[: len(completion.token_ids)]
        assert completion.log_probabilities == pytest.approx(scores, abs=1e-3)
        bare = model.log_probabilities(prompt, completion.text, adapter=False)[: len(completion.token_ids)]
        assert completion.log_probabilities != pytest.approx(bare, abs=1e-2)


def test_the_policy_names_base_and_adapter(directory: Path, tmp_path: Path) -> None:
    model = load(directory, 1)
    before = model.info().identity
    batch = batch_of(model)
    assert {trace.completion.policy for trace in batch.traces} == {before}
    model.update(batch)
    assert model.info().identity != before
    other = write_tiny_llama(tmp_path, layers=3, words=20, context=64, seed=9)
    assert load(other).info().identity != load(directory).info().identity
    assert load(directory).info() == load(shutil.copytree(directory, tmp_path / "copy")).info()


def test_parameters_are_counted(directory: Path) -> None:
    """Rank 4 on q, o (32 x 32), k, v (32 x 16), gate, up (32 x 96) and down (96 x 32) of one block.

    The base: 25 x 32 embeddings; three blocks of these matrices and two norms of 32; a last norm.
    """
    model = load(directory, 1)
    adapter = 4 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 96))
    block = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 96 + 2 * 32
    info = model.info()
    assert info.trainable_parameters == adapter
    assert info.parameters == adapter + 25 * 32 + 3 * block + 32
    assert (info.layers, info.adapted_layers, info.context, len(info.adapted_modules)) == (3, (1,), 64, 7)


def test_prompts_go_through_the_chat_template(directory: Path) -> None:
    model = load(directory)
    vocabulary = model._tokenizer.get_vocab()
    words = ["<system>", "w3", "<end>", "<user>", "w4", "w5", "w6", "<end>", "<assistant>"]
    assert model.prompt_tokens(PROMPTS[1]) == tuple(vocabulary[word] for word in words)
    assert model.text_tokens("w1 w2", end=True) == tuple(vocabulary[word] for word in ("w1", "w2", "<end>"))


def test_activation_statistics_are_mean_squares_of_block_outputs(directory: Path) -> None:
    model = load(directory)
    llama = model.engine.model.model
    outs, adds = np.zeros((2, 3)), np.zeros((2, 3))
    counts = []
    for row, prompt in enumerate(PROMPTS):
        tokens = model.prompt_tokens(prompt)
        hidden = llama.embed_tokens(mx.array([tokens]))
        for layer, block in enumerate(llama.layers):
            out = block(hidden, "causal", None)
            outs[row, layer] = np.square(np.array(out)).mean()
            adds[row, layer] = np.square(np.array(out - hidden)).mean()
            hidden = out
        counts.append(len(tokens))
    found = model.activation_statistics(PROMPTS)
    assert [record.mean_square for record in found] == pytest.approx(np.average(outs, axis=0, weights=counts))
    assert [record.update_mean_square for record in found] == pytest.approx(np.average(adds, axis=0, weights=counts))
    assert [type(block) for block in llama.layers] == [type(llama.layers[0])] * 3
    assert all(record.mean_square == 0 for record in model.activation_statistics([]))


@pytest.mark.parametrize("option", ["threads", "max_batch"])
def test_no_thread_and_no_row_is_too_few(directory: Path, option: str) -> None:
    given: dict[str, Any] = {option: 0}
    with pytest.raises(ValueError, match=f"expected {option} of at least 1, got 0"):
        load_mlx_model(directory, **given)


def test_a_name_that_is_no_directory_and_no_repository_is_refused(tmp_path: Path) -> None:
    for name in (str(tmp_path / "absent"), "absent", "a/b/c"):
        with pytest.raises(ModelError, match="expected a model's directory or a name like 'owner/model', got"):
            load_mlx_model(name)


def test_a_repository_that_cannot_be_fetched_is_refused() -> None:
    with pytest.raises(ModelError, match="no directory 'nobody/nothing' here, and no such model fetched"):
        load_mlx_model("nobody/nothing", device="cpu")


@pytest.mark.parametrize("gone", ["config.json", "model.safetensors"])
def test_a_directory_without_a_model_is_refused_and_what_is_missing_named(
    directory: Path, tmp_path: Path, gone: str
) -> None:
    copy = shutil.copytree(directory, tmp_path / "model")
    (copy / gone).unlink()
    with pytest.raises(ModelError, match="expected a model in the Hugging Face layout in") as caught:
        load(copy)
    assert str(caught.value).endswith(f"found no {gone.replace('model', 'model*')} there")


@pytest.mark.parametrize("broken", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_refused(directory: Path, tmp_path: Path, broken: str) -> None:
    copy = shutil.copytree(directory, tmp_path / "model")
    (copy / broken).write_bytes(b"{" * 100)
    with pytest.raises(ModelError, match="could not load a model from"):
        load(copy)


WITH_TOOLS = (
    "{% for tool in tools or [] %}<system> {{ tool.function.name }} <end> {% endfor %}"
    "{% for message in messages %}<{{ 'user' if message.role == 'tool' else message.role }}> "
    "{{ message.name }} {{ message.content.split('w0')[-1] if not loop.last else message.content }} "
    "{% for call in message.tool_calls %}{{ call.function.name }} "
    "{% for name, value in call.function.arguments.items() %}{{ name }} {{ value }} {% endfor %}{% endfor %}"
    "<end> {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
"""Tools, calls with their arguments, results with the tool's name; what is before `w0` is not shown again."""
CALL = Message("assistant", "", (ToolCall("1", "w5", '{"w6": "w7"}'),))
RESULT = Message("tool", "w8", tool_call_id="1")
TOOLS = ({"type": "function", "function": {"name": "w5"}},)


@pytest.fixture(scope="module")
def with_tools(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_tiny_llama(tmp_path_factory.mktemp("tools"), layers=3, words=20, context=24, template=WITH_TOOLS)


def test_tools_their_calls_and_results_go_through_the_chat_template(with_tools: Any) -> None:
    model = load_mlx_model(with_tools, device="cpu")
    messages = (Message("user", "w1"), CALL, RESULT)
    expected = "<system> w5 <end> <user> w1 <end> <assistant> w5 w6 w7 <end> <user> w5 w8 <end> <assistant>"
    assert model.prompt_tokens(messages, TOOLS) == model.text_tokens(expected, end=False)
    assert model.turn_tokens(messages[:2], TOOLS) == model.text_tokens("w5 w6 w7", end=True)
    with pytest.raises(ValueError, match="the chat template does not tell the tokens of a turn"):
        model.turn_tokens((Message("user", "w9 w0 w1"), CALL))


def test_a_conversation_with_tools_learns_what_the_model_wrote_in_it(with_tools: Any) -> None:
    """The loss is that of the call and of the answer, each after what was read before it."""
    model = load_mlx_model(with_tools, device="cpu", lora=LoraSettings(rank=4, layers=(1,)))
    call = Turn("policy", CALL, Completion("c", "", "stop", "p"), trained=True)
    turns = (Turn("user", Message("user", "w1")), call, Turn("tool", RESULT))
    answer = trained_turn(Completion("a", "w9", "stop", "p"))
    trace = Trace("k", "p", "T0", 0, (*turns, answer), (), "d", tools=TOOLS)
    asked = model.prompt_tokens([Message("user", "w1")], TOOLS)
    written = model.turn_tokens((Message("user", "w1"), CALL), TOOLS)
    read = model.prompt_tokens((Message("user", "w1"), CALL, RESULT), TOOLS)
    said = model.text_tokens("w9", end=True)
    scores = (
        *model.engine.scores((*asked, *written), len(asked), adapter=True),
        *model.engine.scores((*read, *said), len(read), adapter=True),
    )
    report = model.update(TrainingBatch((trace,), (1.0,)))
    assert report.tokens == len(scores) == 4 + 2
    assert report.loss == pytest.approx(-sum(scores) / len(scores), abs=1e-4)


def test_reasoning_that_the_template_drops_is_learned_in_a_sequence_of_its_own(with_tools: Any) -> None:
    """Both turns together would not fit into the context; a sequence that does not is left out alone."""
    model = load_mlx_model(with_tools, device="cpu", lora=LoraSettings(rank=4, layers=(1,)))
    thought = trained_turn(Completion("a", "w3 " * 8 + "w0 w1", "stop", "p"))
    short, long = (trained_turn(Completion("b", text, "stop", "p")) for text in ("w2", "w2 " * 20))
    opening = (Turn("user", Message("user", "w1")), thought, Turn("user", Message("user", "w4")))
    traces = [Trace("k", "p", "T0", 0, (*opening, last), (), "d") for last in (short, long)]
    reports = [model.update(TrainingBatch((trace,), (1.0,))) for trace in traces]
    assert [(report.tokens, report.dropped) for report in reports] == [(11 + 2, 0), (11, 1)]


def test_a_divergence_from_the_base_looks_at_trained_tokens_only(with_tools: Any) -> None:
    """The same tokens with one and with two trained turns: what is kept of the base for one is not taken for two."""
    model = load_mlx_model(with_tools, device="cpu", lora=LoraSettings(rank=4, layers=(1,)))
    turns = (
        Turn("user", Message("user", "w1")),
        trained_turn(Completion("a", "w2 w3", "stop", "p")),
        Turn("user", Message("user", "w4")),
        trained_turn(Completion("b", "w5", "stop", "p")),
    )
    both = Trace("k", "p", "T0", 0, turns, (), "d")
    one = evolve(both, turns=(turns[0], evolve(turns[1], trained=False), *turns[2:]))
    for trace, tokens in ((both, 3 + 2), (one, 2), (both, 3 + 2)):
        report = model.update(TrainingBatch((trace,), (0.0,), kl=1.0))
        assert report.tokens == tokens and report.loss == pytest.approx(0.0, abs=1e-2)


def test_a_model_without_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="chat template"):
        load(write_tiny_llama(tmp_path, layers=1, template=None))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere weights stay as they are")
def test_weights_of_fewer_bits_become_float32_on_a_linux_cpu(directory: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(directory, tmp_path / "model")
    weights = {name: array.astype(mx.bfloat16) for name, array in mx.load(str(copy / "model.safetensors")).items()}
    mx.save_safetensors(str(copy / "model.safetensors"), weights, {"format": "mlx"})
    assert load(copy).engine.model.model.norm.weight.dtype == mx.float32


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere quantized weights stay as they are")
def test_quantized_weights_become_float32_on_a_linux_cpu_and_it_is_said(tmp_path: Path) -> None:
    """The model of the file: what its dequantized weights say, within rounding; and it can learn."""
    from mlx_lm.utils import load_model, quantize_model, save_config, save_model

    base = write_tiny_llama(tmp_path / "base", layers=2, hidden=64, words=27)
    packed = tmp_path / "packed"
    shutil.copytree(base, packed)
    model, config = load_model(base)
    model, config = quantize_model(model, config, group_size=32, bits=4)
    (packed / "model.safetensors").unlink()
    save_model(packed, model)
    save_config(config, packed / "config.json")
    loaded = load(packed, 1)
    assert "dequantized to float32" in loaded.info().note and load(base).info().note == ""
    assert {array.dtype for _, array in dict(tree_flatten(loaded.engine.model.parameters())).items()} == {mx.float32}
    tokens = [2, 3, 7, 9, 11]
    expected = -mx.stack(
        [
            nn.losses.cross_entropy(row, mx.array(token))
            for row, token in zip(model(mx.array([tokens[:-1]]))[0], tokens[1:], strict=True)
        ]
    )
    np.testing.assert_allclose(loaded.engine.scores(tokens, 1, adapter=True), np.array(expected), atol=1e-3)
    assert loaded.update(batch_of(loaded)).gradient_norm > 0


def test_a_token_that_transformers_adds_for_a_family_is_refused_only_where_it_occurs(tmp_path: Path) -> None:
    model = load_mlx_model(write_tiny_llama(tmp_path, family="qwen2"), device="cpu")
    assert model.prompt_tokens((Message("user", "w1"),))
    with pytest.raises(ModelError, match=r"the token '<\|endoftext\|>' \(45\) has no embedding: the model has 45"):
        model.prompt_tokens((Message("user", "<|endoftext|>"),))
