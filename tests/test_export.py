"""What a run learned is the same model in every format, and what cannot be exported is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

import mlx_lm  # noqa: E402
from mlx_lm.models import llama  # noqa: E402
from mlx_lm.utils import load_model  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.lora import Adapter  # noqa: E402
from gce.adapters.models.formats import base_weights  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.adapters.runs.run_directory import RunDirectory  # noqa: E402
from gce.app import cli  # noqa: E402
from gce.app.settings.records import ModelSettings, TrainSettings  # noqa: E402
from gce.domain.learning import ModelState  # noqa: E402
from gce.domain.serialization import to_plain  # noqa: E402

TOKENS = [[3, 7, 8, 9, 1, 4, 20, 30], [3, 11, 30, 9, 4, 4, 21, 5]]
TOLERANCE = 1e-4
"""Of logits in float32, absolute."""
LINEAR = "model.layers.1.self_attn.q_proj"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Any:
    mx.set_default_device(mx.cpu)
    return write_tiny_llama(tmp_path_factory.mktemp("base"))


def learned(base: Any, seed: int) -> Any:
    """A state of an adapter on all blocks, more linears than PEFT takes by their full names, that does something."""
    adapter = Adapter(load_model(base)[0], LoraSettings(rank=4, layers=(0, 1, 2, 3)), OptimizerSettings(), seed=seed)
    draw = np.random.Generator(np.random.Philox(seed))
    state = adapter.state()
    arrays = {
        name: draw.standard_normal(array.shape).astype(np.float32) * 0.1 if name.endswith("lora_b") else array
        for name, array in state.arrays.items()
    }
    return evolve(state, arrays=arrays)


@pytest.fixture(scope="module")
def finished(base: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of two iterations, of which the first was better on dev problems."""
    root = tmp_path_factory.mktemp("runs") / "run"
    with RunDirectory.create(
        root, {"settings": to_plain(TrainSettings(model=ModelSettings(name=str(base)))), "layers": [0, 1, 2, 3]}
    ) as run:
        for iteration, correct in ((1, 3), (2, 2)):
            dev = {"T0": {"n": 4, "correct": correct, "low": 0.0, "high": 1.0}}
            run.append("iterations", {"iteration": iteration, "dev": dev})
            run.commit(iteration, learned(base, iteration), {})
    return root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Any:
    """A copy of it that a test may damage."""
    return shutil.copytree(finished, tmp_path / "run", symlinks=True)


def export(*arguments: Any) -> int:
    return cli.main(["export", *map(str, arguments)])


def refusal(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    """The one line that a refused export prints."""
    capsys.readouterr()
    assert export(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("gce export: ") and err.count("\n") == 1, err
    return err


def mlx_logits(directory: Path, adapter: Any = None) -> Any:
    model, *_ = mlx_lm.load(str(directory), adapter_path=adapter and str(adapter))
    return np.array(model(mx.array(TOKENS)).astype(mx.float32))


def torch_logits(model: Any) -> Any:
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        return model.eval()(torch.tensor(TOKENS)).logits.float().numpy()


def weights_of(directory: Path) -> dict[Any, Any]:
    return {name: array for path in directory.glob("*.safetensors") for name, array in mx.load(str(path)).items()}


# The same model everywhere


@pytest.fixture(scope="module")
def exported(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run's last checkpoint in every format."""
    root = tmp_path_factory.mktemp("exported")
    for form in ("mlx", "peft", "merged"):
        assert export(finished, "--to", form, "--out", root / form) == 0
    return root


@pytest.fixture(scope="module")
def expected(base: Any, exported: Any) -> Any:
    """Logits of base and adapter in mlx-lm."""
    found = mlx_logits(base, adapter=exported / "mlx")
    assert np.abs(found - mlx_logits(base)).max() > 1, "an adapter that does something"
    return found


def test_mlx_lm_reads_the_merged_model_as_base_and_adapter(exported: Any, expected: str) -> None:
    assert np.abs(expected - mlx_logits(exported / "merged")).max() <= TOLERANCE


def transformers_on_torch() -> Any:
    pytest.importorskip("torch")
    return pytest.importorskip("transformers")


def test_transformers_reads_the_merged_model_as_base_and_adapter(exported: Any, expected: str) -> None:
    transformers = transformers_on_torch()
    merged = transformers.AutoModelForCausalLM.from_pretrained(exported / "merged")
    assert np.abs(expected - torch_logits(merged)).max() <= TOLERANCE


def test_peft_reads_the_adapter(base: Any, exported: Any, expected: str) -> None:
    peft, transformers = pytest.importorskip("peft"), transformers_on_torch()
    plain = transformers.AutoModelForCausalLM.from_pretrained(base)
    adapted = peft.PeftModel.from_pretrained(plain, exported / "peft")
    assert np.abs(expected - torch_logits(adapted)).max() <= TOLERANCE


def test_pefts_files_are_the_adapter_turned_round_with_alpha_as_scale_times_rank(
    base: Any, finished: Path, tmp_path: Path
) -> None:
    assert export(finished, "--to", "peft", "--out", tmp_path / "peft") == 0
    arrays, config = weights_of(tmp_path / "peft"), json.loads((tmp_path / "peft/adapter_config.json").read_text())
    state = learned(base, 2).arrays
    assert len(arrays) == 2 * len(config["target_modules"]) == 56
    for theirs, ours in (("lora_A", "lora_a"), ("lora_B", "lora_b")):
        array = np.array(arrays[f"base_model.model.{LINEAR}.{theirs}.weight"])
        assert np.array_equal(array, state[f"adapter.{LINEAR}.{ours}"].T)
    assert (config["r"], config["lora_alpha"], config["bias"]) == (4, 8, "none")
    assert config["base_model_name_or_path"] == str(base.resolve())


def test_mlxs_files_are_those_of_the_checkpoint_and_no_others(finished: Path, tmp_path: Path) -> None:
    assert export(finished, "--to", "mlx", "--out", tmp_path / "out") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["adapter_config.json", "adapters.safetensors"]
    for path in (tmp_path / "out").iterdir():
        assert path.read_bytes() == (finished / "checkpoints/last" / path.name).read_bytes()


def test_best_is_the_checkpoint_that_was_best_on_dev_problems(finished: Path, tmp_path: Path) -> None:
    assert export(finished, "--to", "mlx", "--out", tmp_path / "best", "--checkpoint", "best") == 0
    assert export(finished / "checkpoints/iteration-0001", "--to", "mlx", "--out", tmp_path / "first") == 0
    names = ("adapters.safetensors", "adapter_config.json")
    best, first = ([(tmp_path / folder / name).read_bytes() for name in names] for folder in ("best", "first"))
    assert best == first == [(finished / "checkpoints/iteration-0001" / name).read_bytes() for name in names]


def test_the_base_is_copied_without_what_tells_of_it_alone(base: Any, finished: Path, tmp_path: Path) -> None:
    own = shutil.copytree(base, tmp_path / "base")
    for name in ("card.json", "README.md", "pytorch_model.bin"):
        (own / name).write_text("of the base")
    (own / "generation_config.json").write_text("{}")
    assert export(finished, "--to", "merged", "--model", own, "--out", tmp_path / "out") == 0
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    untouched = set(weights_of(own)) - {f"{path}.weight" for path in modules_of(finished)}
    merged = weights_of(tmp_path / "out")
    assert untouched and all(mx.array_equal(merged[name], weights_of(own)[name]) for name in untouched)


def modules_of(run: Any) -> Any:
    return json.loads((run / "checkpoints/last/adapter_config.json").read_text())["lora_parameters"]["keys"]


def test_bfloat16_in_two_shards_stays_so_and_is_rounded_once(base: Any, finished: Path, tmp_path: Path) -> None:
    """Each adapted weight is the sum in float32, rounded to bfloat16; a shard without any is copied as it is."""
    own, out = shutil.copytree(base, tmp_path / "base"), tmp_path / "out"
    half = {name: array.astype(mx.bfloat16) for name, array in weights_of(base).items()}
    (own / "model.safetensors").unlink()
    bare = {name: array for name, array in half.items() if "layers" not in name}
    shards = {"model-00001-of-00002.safetensors": bare}
    shards["model-00002-of-00002.safetensors"] = {name: array for name, array in half.items() if name not in bare}
    for shard, arrays in shards.items():
        mx.save_safetensors(str(own / shard), arrays, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: shard for shard, arrays in shards.items() for name in arrays}}
    (own / "model.safetensors.index.json").write_text(json.dumps(index))

    assert export(finished, "--to", "merged", "--model", own, "--out", out) == 0
    merged, state = weights_of(out), learned(base, 2).arrays
    assert {array.dtype for array in merged.values()} == {mx.bfloat16}
    a, b = (mx.array(state[f"adapter.{LINEAR}.{name}"]) for name in ("lora_a", "lora_b"))
    sum_ = half[f"{LINEAR}.weight"].astype(mx.float32) + 2.0 * (a @ b).T
    assert mx.array_equal(merged[f"{LINEAR}.weight"], sum_.astype(mx.bfloat16))
    for name in ("model-00001-of-00002.safetensors", "model.safetensors.index.json"):
        assert (out / name).read_bytes() == (own / name).read_bytes()
    transformers = transformers_on_torch()
    model = transformers.AutoModelForCausalLM.from_pretrained(out)
    assert np.abs(torch_logits(model) - mlx_logits(out)).max() < 0.5, "both compute in bfloat16, each in its own order"


# Where it goes


def test_an_export_goes_into_the_run_and_says_how_to_load_it(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(run, "--to", "merged") == 0
    lines = capsys.readouterr().out.splitlines()
    where = run / "export/merged"
    assert lines[0] == f"{where}: iteration 2 of {run}, 28 linears of rank 4"
    assert f"mlx_lm.load('{where}')" in lines[1] and "compared" in lines[2]
    assert export(run / "checkpoints/last", "--to", "mlx", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["path"], found["base"]) == (str(run.resolve() / "export/mlx"), None)


def test_an_empty_folder_is_taken_and_any_other_is_left_alone(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    assert export(run, "--to", "mlx", "--out", out) == 0
    before = sorted(out.iterdir())
    assert "exists already" in refusal(capsys, run, "--to", "peft", "--out", out)
    assert sorted(out.iterdir()) == before


def test_an_export_that_fails_leaves_nothing_behind(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_base: Any, _adapter: Any, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(base_weights, "write_merged", full)
    (tmp_path / "empty").mkdir()
    assert "No space left" in refusal(capsys, run, "--to", "merged", "--out", tmp_path / "empty" / "out")
    assert not list((tmp_path / "empty").iterdir())


def test_a_run_that_is_being_written_can_be_exported(base: Any, tmp_path: Path) -> None:
    settings = {"settings": to_plain(TrainSettings(model=ModelSettings(name=str(base)))), "layers": [0]}
    with RunDirectory.create(tmp_path / "run", settings) as run:
        run.append("iterations", {"iteration": 1})
        run.commit(1, learned(base, 1), {})
        assert export(tmp_path / "run", "--to", "mlx") == 0


# What is refused


def test_what_is_no_run_and_no_checkpoint_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "found no run.sqlite" in refusal(capsys, tmp_path, "--to", "mlx")


def test_a_run_without_a_checkpoint_or_a_best_one_is_refused(
    base: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "run"
    with RunDirectory.create(root, {"settings": to_plain(TrainSettings(model=ModelSettings(name=str(base))))}) as run:
        assert "has no checkpoint" in refusal(capsys, root, "--to", "mlx")
        run.append("iterations", {"iteration": 1, "dev": {}})
        run.commit(1, learned(base, 1), {})
    assert "no evaluation on dev" in refusal(capsys, root, "--to", "mlx", "--checkpoint", "best")
    assert not (root / "export").exists()


def test_a_damaged_file_is_found_by_its_hash_in_a_run_and_by_its_shape_elsewhere(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = shutil.copytree(run / "checkpoints/last", tmp_path / "alone")
    path = run / "checkpoints/iteration-0002/adapters.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for given in (run, run / "checkpoints/last"):
        assert "does not match its hash" in refusal(capsys, given, "--to", "mlx")
    path = alone / "adapters.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    assert "is damaged" in refusal(capsys, alone, "--to", "mlx")
    (alone / "adapter_config.json").write_text('{"lora_parameters": {"keys": ["lm_head"]}}')
    assert "is damaged" in refusal(capsys, alone, "--to", "mlx")
    (alone / "adapter_config.json").unlink()
    assert "adapter_config.json: No such file" in refusal(capsys, alone, "--to", "mlx")


def test_a_checkpoint_outside_of_a_run_needs_the_base_named(
    base: Any, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = shutil.copytree(run / "checkpoints/last", tmp_path / "alone")
    assert "give --model DIR" in refusal(capsys, alone, "--to", "merged")
    assert export(alone, "--to", "merged", "--model", base) == 0
    assert np.abs(mlx_logits(alone / "export/merged") - mlx_logits(base, adapter=alone)).max() <= TOLERANCE
    assert "leave out --checkpoint" in refusal(capsys, alone, "--to", "mlx", "--checkpoint", "last")


@pytest.mark.parametrize(
    ("made", "words"), [({"hidden": 48}, "made for another base"), ({"layers": 2}, "has no model.")]
)
@pytest.mark.parametrize("form", ["peft", "merged"])
def test_a_base_of_another_shape_is_refused(
    run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], made: dict[str, Any], words: str, form: str
) -> None:
    other = write_tiny_llama(tmp_path / "other", **made)
    assert words in refusal(capsys, run, "--to", form, "--model", other)
    assert not (run / "export").exists()


def test_a_quantized_base_is_refused_by_name(
    base: Any, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = shutil.copytree(base, tmp_path / "base")
    config = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**config, "quantization": {"group_size": 32, "bits": 4}}))
    assert f"the base {own} is quantized" in refusal(capsys, run, "--to", "merged", "--model", own)
    (own / "config.json").write_text(json.dumps(config))
    packed = {**weights_of(base), f"{LINEAR}.weight": mx.zeros((32, 4), mx.uint32)}
    mx.save_safetensors(str(own / "model.safetensors"), packed, {"format": "mlx"})
    assert f"the base {own} is quantized" in refusal(capsys, run, "--to", "merged", "--model", own)


def test_a_base_whose_weights_mlx_lm_changes_on_the_way_is_refused(
    run: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is added to a weight that mlx-lm scales would be scaled again."""
    scaled = {"sanitize": lambda _, weights: {name: 2 * array for name, array in weights.items()}}
    monkeypatch.setattr(llama.Model, "sanitize", scaled["sanitize"])
    assert "as stored: use --to mlx" in refusal(capsys, run, "--to", "merged")


@pytest.mark.parametrize("name", ["toy_task:careless", "owner/model", "missing"])
def test_a_base_that_is_no_directory_is_refused(
    base: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    root = tmp_path / "run"
    with RunDirectory.create(root, {"settings": to_plain(TrainSettings(model=ModelSettings(name=name)))}) as run:
        run.append("iterations", {"iteration": 1})
        run.commit(1, learned(base, 1), {})
    assert f"{name!r} is no directory here" in refusal(capsys, root, "--to", "merged")
    assert export(root, "--to", "peft", "--model", base) == 0
    assert "no config.json" in refusal(capsys, root, "--to", "merged", "--model", tmp_path)


def test_a_model_that_is_not_adapted_by_mlx_has_nothing_to_export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = {"adapter.counts": np.zeros(3), "optimizer.step": np.array(0)}
    with RunDirectory.create(tmp_path / "run", {"settings": to_plain(TrainSettings())}) as run:
        run.commit(1, ModelState(arrays=arrays), {})
    assert "holds no LoRA adapter" in refusal(capsys, tmp_path / "run", "--to", "mlx")


def test_weights_that_are_cut_off_are_refused(
    base: Any, run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(shutil.copytree(base, tmp_path / "base"))
    content = (own / "model.safetensors").read_bytes()
    (own / "model.safetensors").write_bytes(content[: len(content) // 2])
    assert "cannot read the base" in refusal(capsys, run, "--to", "merged", "--model", own)
    (own / "model.safetensors").unlink()
    assert "has no model*.safetensors" in refusal(capsys, run, "--to", "merged", "--model", own)
