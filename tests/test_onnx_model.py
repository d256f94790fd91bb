"""ONNX exports keep to the port, agree with mlx and torch, and are refused in one line if they are something else."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("transformers")
pytest.importorskip("safetensors")

import onnx
from transformers import AutoTokenizer

from benchmarks.onnx_export import export_llama
from gce.adapters.models.backends.onnx.model import load_onnx_model
from gce.adapters.models.local.chat_template import TemplateSettings
from gce.app.settings.records import ModelSettings, TrainSettings
from gce.app.wiring.models import find_learning_model, find_model, shipped_model_path
from gce.domain.completions import SampleRequest
from gce.domain.problems import Message
from gce.domain.tasks import TASKS
from gce.errors import BadInput, GceError, ModelError
from gce.ports.model import Adaptable, Learner, Probe
from gce.testing.contracts.model import check_model

PROMPTS = tuple((Message("user", text),) for text in ("Plan 3 jobs.", "A takes 2, B takes 3.", "List the deadlines"))
OPTIMUM = Path(__file__).parent / "optimum_llama"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_llama(shipped_model_path(), tmp_path_factory.mktemp("shipped") / "export")


@pytest.fixture(scope="module")
def optimum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("optimum") / "export"
    shutil.copytree(OPTIMUM, folder)
    (folder / "model.onnx").write_bytes(gzip.decompress((folder / "model.onnx.gz").read_bytes()))
    return folder


@pytest.mark.parametrize("name", ["qwen3", "llama3_2", "zephyr"])
def test_prompts_are_those_of_transformers(optimum: Path, name: str) -> None:
    source = Path(__file__).parent / "chat_templates" / f"{name}.jinja"
    model = load_onnx_model(optimum, template=TemplateSettings(str(source), {"enable_thinking": False}))
    tokenizer = AutoTokenizer.from_pretrained(optimum)
    tokenizer.chat_template = source.read_text()
    for messages in PROMPTS:
        asked = [{"role": each.role, "content": each.content} for each in messages]
        options = {"add_generation_prompt": True, "return_dict": False, "enable_thinking": False}
        assert list(model.prompt_tokens(messages)) == tokenizer.apply_chat_template(asked, **options)


def test_a_token_beyond_the_logits_is_named(shipped: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(shipped, tmp_path / "export")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<tool>"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(ModelError, match=r"the token '<tool>' \(2816\) of .* has no embedding"):
        load_onnx_model(folder)


def sampled(model: Any, requests: Sequence[SampleRequest]) -> dict[str, Any]:
    return {completion.key: completion for completion in model.sample(requests)}


def requests_of(count: int) -> list[SampleRequest]:
    return [SampleRequest(f"{i}", PROMPTS[i % len(PROMPTS)], 7 + i, 1.0, 20 + i % 7) for i in range(count)]


@pytest.mark.slow
def test_the_shipped_model_keeps_to_the_port(shipped: Path) -> None:
    too_long = (Message("user", "c " * 5000),)
    model = load_onnx_model(shipped, threads=1)
    assert not isinstance(model, Adaptable | Learner | Probe)
    check_model(lambda: load_onnx_model(shipped, threads=1), prompts=PROMPTS, too_long=too_long, max_tokens=200)


@pytest.mark.slow
def test_an_export_of_optimum_keeps_to_the_port_and_scores_as_torch(optimum: Path) -> None:
    prompts = [(Message("user", text),) for text in ("w1 w2", "w3 w4 w5 w6")]
    too_long = (Message("user", "w7 " * 200),)
    check_model(lambda: load_onnx_model(optimum, threads=1), prompts=prompts, too_long=too_long, max_tokens=60)
    model, expected = load_onnx_model(optimum), json.loads((optimum / "expected.json").read_text())
    found = model.engine.scores(expected["tokens"], 1, adapter=True)
    np.testing.assert_allclose(found, expected["log_probabilities"], atol=1e-4)
    assert vars(model.engine)["_max_batch"] == 64
    assert (model.engine.blocks, model.info().context) == (2, 128)


@pytest.mark.slow
def test_it_samples_and_scores_as_mlx(shipped: Path) -> None:
    pytest.importorskip("mlx.core")
    pytest.importorskip("mlx_lm")
    from gce.adapters.models.backends.mlx.model import load_mlx_model

    one, other = load_onnx_model(shipped, threads=1), load_mlx_model(shipped_model_path(), device="cpu", threads=1)
    long = "Job A takes 3. " * 150  # More than the 512 tokens that are read at once.
    for text in ("A 0, B 2", long):
        found, expected = (model.log_probabilities(PROMPTS[0], text) for model in (one, other))
        np.testing.assert_allclose(found, expected, atol=2e-3)
    assert len(found) > 512
    requests = requests_of(24)
    ours, theirs = (sampled(model, requests) for model in (one, other))
    assert sum(ours[r.key].token_ids == theirs[r.key].token_ids for r in requests) >= len(requests) - 2


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_completion_is_the_same_whatever_shares_its_batch(shipped: Path, rows: int) -> None:
    requests = requests_of(20)
    one, other = (sampled(load_onnx_model(shipped, threads=1, max_batch=most), requests) for most in (rows, 64))
    assert sum(one[r.key].token_ids == other[r.key].token_ids for r in requests) >= len(requests) - 1


def changed(source: Path, target: Path, change: Callable[[Any], None]) -> Path:
    """A copy of an export whose graph `change` has altered."""
    shutil.copytree(source, target)
    model = onnx.load(target / "model.onnx")
    change(model.graph)
    onnx.save(model, target / "model.onnx")
    return target


def ignore_the_mask(graph: Any) -> None:
    node = next(each for each in graph.node if "attention_mask" in each.input and each.op_type == "Unsqueeze")
    node.input[0] = "all"
    graph.node.insert(0, onnx.helper.make_node("Equal", ["attention_mask", "attention_mask"], ["all"]))


def put_new_keys_first(graph: Any) -> None:
    node = next(each for each in graph.node if each.output[0] == "present.0.key")
    node.input[0], node.input[1] = node.input[1], node.input[0]


def forget_positions(graph: Any) -> None:
    graph.input.remove(next(each for each in graph.input if each.name == "position_ids"))
    for node in graph.node:
        for place, name in enumerate(node.input):
            if name == "position_ids":
                node.input[place] = "input_ids"


def want_a_branch(graph: Any) -> None:
    graph.input.append(onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]))


def return_no_value(graph: Any) -> None:
    graph.output.remove(next(each for each in graph.output if each.name == "present.4.value"))


def be_of_any_size(graph: Any) -> None:
    each = next(each for each in graph.input if each.name == "past_key_values.3.key")
    each.type.tensor_type.shape.dim[3].dim_param = "size"


def lose_a_weight(graph: Any) -> None:
    del graph.initializer[0]


def test_a_graph_that_reads_no_padding_is_sampled_one_row_at_a_time(shipped: Path, tmp_path: Path) -> None:
    folder = changed(shipped, tmp_path / "export", ignore_the_mask)
    model = load_onnx_model(folder, threads=1)
    assert vars(model.engine)["_max_batch"] == 1
    requests = requests_of(6)
    expected = sampled(load_onnx_model(shipped, threads=1), requests)
    assert [c.token_ids for _, c in sorted(sampled(model, requests).items())] == [
        c.token_ids for _, c in sorted(expected.items())
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put_new_keys_first, "logits with a cache differ from those without"),
        (forget_positions, "there is no input position_ids"),
        (want_a_branch, "there is an input use_cache_branch"),
        (return_no_value, r"there is no output present\.4\.value"),
        (be_of_any_size, r"past_key_values\.3\.key is a tensor\(float\) of shape"),
        (lose_a_weight, "ONNX Runtime could not load"),
    ],
)
def test_another_layout_is_refused(shipped: Path, tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        load_onnx_model(changed(shipped, tmp_path / "export", change), threads=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.onnx", None, r"found no model\.onnx in"),
        ("config.json", None, r"found no config\.json in"),
        ("tokenizer.json", None, r"found no tokenizer\.json in"),
        ("model.onnx", b"hello", "is not an ONNX model"),
        ("model.onnx", b"", "ONNX Runtime could not load|is not laid out"),
        ("config.json", b"[" * 100_000, "is not JSON"),
        ("config.json", b"[]", "expected a JSON object"),
        ("tokenizer.json", b"{", "could not load a tokenizer"),
        ("tokenizer_config.json", b"{}", "chat template"),
    ],
)
def test_a_missing_or_damaged_file_is_named(
    shipped: Path, tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    folder = tmp_path / "export"
    shutil.copytree(shipped, folder)
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(GceError, match=said) as caught:
        load_onnx_model(folder, threads=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("location", ["../weights", "/dev/zero", "link", "a\0b", "x" * 5000, "deep/../../weights"])
def test_data_outside_the_directory_are_refused_before_they_are_read(tmp_path: Path, location: str) -> None:
    folder = export_llama(shipped_model_path(), tmp_path / "export", external=True)
    shutil.copyfile(folder / "model.onnx_data", tmp_path / "weights")
    os.symlink(tmp_path / "weights", folder / "link")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    tensor = next(each for each in model.graph.initializer if each.external_data)
    next(entry for entry in tensor.external_data if entry.key == "location").value = location
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="outside the directory") as caught:
        load_onnx_model(folder, threads=1)
    assert "\n" not in str(caught.value)


def test_a_model_file_that_is_a_link_to_elsewhere_is_refused(shipped: Path, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    shutil.copytree(shipped, folder)
    (folder / "model.onnx").unlink()
    os.symlink(shipped / "model.onnx", folder / "model.onnx")
    with pytest.raises(ModelError, match=r"outside the directory: 'model\.onnx'"):
        load_onnx_model(folder, threads=1)


def test_external_data_are_read_and_are_part_of_the_identity(shipped: Path, tmp_path: Path) -> None:
    folder = export_llama(shipped_model_path(), tmp_path / "export", external=True)
    model = load_onnx_model(folder, threads=1)
    inside = load_onnx_model(shipped, threads=1)
    found, expected = (each.log_probabilities(PROMPTS[0], "A 0, B 2") for each in (model, inside))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert model.info().parameters == inside.info().parameters
    data = bytearray((folder / "model.onnx_data").read_bytes())
    data[100] ^= 1
    (folder / "model.onnx_data").write_bytes(data)
    assert load_onnx_model(folder, threads=1).info().identity != model.info().identity
    (folder / "model.onnx_data").unlink()
    with pytest.raises(ModelError, match=r"lacks its external data: no file 'model\.onnx_data'"):
        load_onnx_model(folder, threads=1)


@pytest.mark.slow
def test_it_stands_behind_its_name_but_not_for_training(shipped: Path) -> None:
    settings = TrainSettings(model=ModelSettings(name=f"onnx:{shipped}", threads=1))
    assert find_model(settings, TASKS["scheduling"]).info().capabilities == {"sample", "score"}
    with pytest.raises(BadInput, match="cannot be trained, only evaluated"):
        find_learning_model(settings, TASKS["scheduling"])


@pytest.mark.slow
def test_the_command_line_evaluates_it_and_refuses_in_one_line(shipped: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gce.app.cli"]
    options = ["--model", f"onnx:{shipped}", "--n", "2", "--max-tokens", "30", "--json"]
    done = subprocess.run([*command, "evaluate", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    for verb, name in (("train", shipped), ("evaluate", tmp_path / "none")):
        given = [*command, verb, "--model", f"onnx:{name}"]
        done = subprocess.run(given, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert done.stderr.strip().splitlines()[-1].startswith("gce"), done.stderr
