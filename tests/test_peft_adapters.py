"""Adapters that PEFT saved are the same model here, and LoRA adapts the linears that are named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

from test_mlx_model import batch_of, requests_of  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.llama_cpp.lora import adapter_of  # noqa: E402
from gce.adapters.models.backends.mlx.model import load_mlx_model  # noqa: E402
from gce.adapters.models.formats.adapter_files import LowRank, peft_files, read_adapter, read_peft, state_of  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings, targeted  # noqa: E402
from gce.adapters.runs.checkpoint_files import files_of_state  # noqa: E402
from gce.app import cli  # noqa: E402
from gce.app.evaluation.checkpoints import shape_of  # noqa: E402
from gce.app.web.policy.adapters import Policy  # noqa: E402
from gce.app.wiring import comparison  # noqa: E402
from gce.app.wiring.runs import find_adapter, open_run  # noqa: E402
from gce.errors import BadInput, DamagedStore, ModelError  # noqa: E402

TOKENS = [3, 7, 8, 9, 1, 4, 20, 30, 3, 11, 30, 9, 4, 4, 21, 5]
Load = Callable[..., Any]


def load_torch(directory: Path, **given: Any) -> Any:
    pytest.importorskip("peft")
    from gce.adapters.models.backends.torch.model import load_torch_model

    return load_torch_model(directory, **given)


BACKENDS = pytest.mark.parametrize("load", [load_mlx_model, load_torch], ids=["mlx", "torch"])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("base"))


def loaded(load: Load, base: Path, **lora: Any) -> Any:
    optimizer = OptimizerSettings(learning_rate=0.02)
    return load(base, device="cpu", lora=LoraSettings(**lora), optimizer=optimizer, threads=2)


def restored(load: Load, base: Path, adapter: Path) -> Any:
    state = find_adapter(adapter)
    shape = shape_of(state)
    model = loaded(load, base, rank=shape["rank"], scale=shape["scale"])
    model.restore(state)
    return model


def scores(model: Any) -> Any:
    return np.array(model.engine.scores(TOKENS, 1, adapter=True))


def written(folder: Path, adapter: LowRank, **config: Any) -> Path:
    """PEFT's files of an adapter, with these fields in its config."""
    folder.mkdir()
    for name, content in peft_files(adapter, "base").items():
        (folder / name).write_bytes(content)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return folder


def drawn(*paths: str, rank: int = 4, seed: int = 0) -> LowRank:
    draw = np.random.Generator(np.random.Philox(seed))
    sizes = ((32, rank), (rank, 32))
    pairs = {path: tuple(draw.standard_normal(size).astype(np.float32) for size in sizes) for path in paths}
    return LowRank(rank, 2.0, 0.0, pairs)  # type: ignore[arg-type]


Q1, O2 = "model.layers.1.self_attn.q_proj", "model.layers.2.self_attn.o_proj"


# Target modules


@BACKENDS
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("q_proj", "v_proj"), {"self_attn.q_proj", "self_attn.v_proj"}),
        (("mlp.down_proj",), {"mlp.down_proj"}),
        (("layers.2.mlp.up_proj", "q_proj"), {"self_attn.q_proj", "mlp.up_proj"}),
    ],
)
def test_target_modules_are_the_ends_of_paths_in_every_backend(
    base: Path, load: Load, names: tuple[str, ...], expected: set[str]
) -> None:
    modules = loaded(load, base, layers=(0, 2), target_modules=names).info().adapted_modules
    assert {re.sub(r"^model\.layers\.\d\.", "", path) for path in modules} == expected
    assert ("model.layers.0.mlp.up_proj" in modules) is False


@BACKENDS
@pytest.mark.parametrize("name", ["q_prj", "proj", "attn.q_proj", "layers.1.self_attn.q_proj", "lm_head"])
def test_a_target_module_that_matches_nothing_is_refused_with_those_there_are(
    base: Path, load: Load, name: str
) -> None:
    with pytest.raises(ModelError) as caught:
        loaded(load, base, layers=(0, 2), target_modules=("q_proj", name))
    known = "down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
    assert str(caught.value) == f"expected target modules among {known}, or all-linear, got {name!r}"


PARTS = st.sampled_from(["q", "k", "qk", "mlp", "0", "1"])
PATHS = st.lists(PARTS, min_size=1, max_size=4).map(".".join)


@given(st.lists(PATHS, unique=True), st.lists(PATHS, min_size=1, max_size=3))
def test_names_match_as_in_peft(paths: list[str], names: list[str]) -> None:
    """PEFT takes a module whose path is a name, or ends with a dot and the name."""
    expected = [path for path in paths if path in names or any(path.endswith(f".{name}") for name in names)]
    useless = [name for name in names if not any(path == name or path.endswith(f".{name}") for path in paths)]
    if paths and useless:
        with pytest.raises(ModelError, match=re.escape(f"got {useless[0]!r}")):
            targeted(paths, names)
    else:
        assert targeted(paths, names) == expected
    assert targeted(paths, ["all-linear", *names]) == paths


@BACKENDS
def test_an_adapter_of_some_linears_learns_and_goes_on_from_its_state(base: Path, load: Load) -> None:
    """Restored by a model whose settings name other linears, or none."""
    one = loaded(load, base, rank=4, layers=(1, 3), target_modules=("q_proj", "up_proj"))
    batch = batch_of(one)
    one.update(batch)
    other = loaded(load, base, rank=4)
    other.restore(one.state())
    assert other.info().adapted_modules == one.info().adapted_modules and len(one.info().adapted_modules) == 4
    assert other.update(batch) == one.update(batch)
    assert other.info().identity == one.info().identity
    parameters = one.state().settings["adapter_config"]["lora_parameters"]
    assert parameters["target_modules"] == ["q_proj", "up_proj"]


@pytest.mark.slow
def test_two_learner_processes_learn_an_adapter_of_some_linears_as_one(base: Path) -> None:
    lora = LoraSettings(rank=4, layers=(0, 2), target_modules=("v_proj",))
    given = {"device": "cpu", "optimizer": OptimizerSettings(learning_rate=0.02, tokens_per_pass=32), "threads": 1}
    one, two = load_torch(base, lora=lora, **given), load_torch(base, lora=LoraSettings(rank=4), **given, processes=2)
    two.restore(one.state())
    batch = batch_of(one)
    assert two.update(batch).loss == pytest.approx(one.update(batch).loss, abs=1e-6)
    two.engine.processes.close()


def test_a_served_policy_takes_adapters_of_its_target_modules(base: Path) -> None:
    names = ("q_proj", "v_proj")
    learner = loaded(load_mlx_model, base, rank=4, layers=(1, 3), target_modules=names)
    learner.update(batch_of(learner))
    policy = Policy(loaded(load_mlx_model, base, rank=4, target_modules=("v_proj", "self_attn.q_proj")), "base")
    assert policy.load("it", learner.state()) == learner.info().identity
    whole = loaded(load_mlx_model, base, rank=4, layers=(1, 3))
    with pytest.raises(BadInput, match="the adapter does not fit base: expected a state of blocks"):
        policy.load("whole", whole.state())


# PEFT's directories


@BACKENDS
@pytest.mark.parametrize("names", [("all-linear",), ("q_proj", "mlp.down_proj")], ids=str)
def test_a_checkpoint_comes_back_from_pefts_format_as_it_was(
    base: Path, load: Load, tmp_path: Path, names: tuple[str, ...]
) -> None:
    model = loaded(load, base, rank=4, scale=3.0, layers=(0, 2), target_modules=names)
    batch = batch_of(model)
    for _ in range(3):
        model.update(batch)
    state = model.state()
    adapter = read_adapter(files_of_state(1, state), "it")
    other = restored(load, base, written(tmp_path / "peft", adapter))
    fresh = other.state()
    assert all(np.array_equal(fresh.arrays[name], array) for name, array in state.arrays.items() if "adapter." in name)
    assert fresh.arrays["optimizer.step"] == 0
    assert np.abs(scores(other) - scores(model)).max() <= 1e-4
    assert np.abs(scores(other) - np.array(other.engine.scores(TOKENS, 1, adapter=False))).max() > 1e-3
    (found,) = other.sample(requests_of(1, temperature=0.0))
    (expected,) = model.sample(requests_of(1, temperature=0.0))
    assert found.token_ids == expected.token_ids
    assert other.update(batch).tokens > 0


REGEX = r".*(layers\.0\.self_attn\.q_proj|layers\.2\.mlp\.up_proj)"


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize(
    ("config", "modules"),
    [
        ({"target_modules": "all-linear"}, 28),
        ({"target_modules": ["q_proj", "v_proj"], "use_rslora": True}, 8),
        ({"target_modules": ["q_proj", "down_proj"], "layers_to_transform": [1, 3]}, 4),
        ({"target_modules": ["q_proj", "down_proj"], "layers_to_transform": 2, "layers_pattern": "layers"}, 2),
        ({"target_modules": REGEX}, 2),
        ({"target_modules": ["q_proj"], "init_lora_weights": "gaussian", "lora_dropout": 0.1}, 4),
        (
            {
                "target_modules": ["q_proj", "down_proj", "k_proj"],
                "rank_pattern": {"k_proj": 2, r"layers\.0\.self_attn\.q_proj": 6},
                "alpha_pattern": {"down_proj": 3},
            },
            12,
        ),
        ({"target_modules": ["q_proj"], "use_rslora": True, "rank_pattern": {"layers.1.self_attn.q_proj": 2}}, 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_adapter_of_peft_has_pefts_log_probabilities(
    base: Path, load: Load, tmp_path: Path, config: dict[str, Any], modules: int, dtype: str
) -> None:
    """`trainer.save_model` of TRL writes the same two files, beside a tokenizer."""
    torch, transformers, peft = (pytest.importorskip(name) for name in ("torch", "transformers", "peft"))
    from gce.adapters.models.backends.torch.exported import token_log_probabilities

    torch.manual_seed(0)
    plain = transformers.AutoModelForCausalLM.from_pretrained(base)
    model = peft.get_peft_model(plain, peft.LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=12, **config))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
        if "lora_" in name:
            parameter.data = parameter.data.to(getattr(torch, dtype))
    model.save_pretrained(tmp_path / "peft")
    found = restored(load, base, tmp_path / "peft")
    assert len(found.info().adapted_modules) == modules
    expected = token_log_probabilities(tmp_path / "peft", base, TOKENS)
    assert np.abs(scores(found) - expected).max() <= 1e-4
    assert np.abs(np.array(found.engine.scores(TOKENS, 1, adapter=False)) - expected).max() > 0.05


def test_names_with_default_inside_and_half_precision_are_read(tmp_path: Path) -> None:
    adapter = drawn(Q1)
    folder = written(tmp_path / "peft", adapter)
    path = folder / "adapter_model.safetensors"
    halves = {
        name.replace(".weight", ".default.weight"): array.astype(np.float16)
        for name, array in safetensors.load_file(path).items()
    }
    safetensors.save_file(halves, path)
    found = adapter_of(find_adapter(folder))
    assert (found.rank, found.scale) == (4, 2.0)
    for ours, theirs in zip(adapter.pairs[Q1], found.pairs[Q1], strict=True):
        assert theirs.dtype == np.float32 and np.array_equal(theirs, ours.astype(np.float16).astype(np.float32))


def test_other_ranks_and_scales_are_folded_by_hand(tmp_path: Path) -> None:
    """alpha 16 of r 4 is scale 4 for q, and alpha 4 of r 2 scale 2 for o: half the config's, so b is halved."""
    q, o = drawn(Q1).pairs[Q1], drawn(O2, rank=2).pairs[O2]
    config = {"lora_alpha": 16, "rank_pattern": {"o_proj": 2}, "alpha_pattern": {"layers.2.self_attn.o_proj": 4}}
    folder = written(tmp_path / "peft", LowRank(4, 4.0, 0.0, {Q1: q, O2: o}), **config)
    found = adapter_of(find_adapter(folder))
    assert (found.rank, found.scale) == (4, 4.0)
    assert all(np.array_equal(*pair) for pair in zip(found.pairs[Q1], q, strict=True))
    a, b = found.pairs[O2]
    np.testing.assert_allclose(found.scale * (a @ b), 2.0 * (o[0] @ o[1]), rtol=1e-6)
    assert a.shape == (32, 4) and not a[:, 2:].any() and not b[2:].any()
    assert find_adapter(folder).settings["layers"] == [1, 2]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"peft_type": "IA3"}, "has peft_type 'IA3', and gce reads LORA alone"),
        ({"use_dora": True}, "has use_dora True"),
        ({"lora_alpha": 0}, "has lora_alpha 0, expected a number above 0"),
        ({"bias": "lora_only"}, "has bias 'lora_only'"),
        ({"lora_bias": True}, "has lora_bias True"),
        ({"fan_in_fan_out": True}, "has fan_in_fan_out True"),
        ({"modules_to_save": ["lm_head"]}, r"has modules_to_save \['lm_head'\]"),
        ({"trainable_token_indices": [1]}, "has trainable_token_indices"),
        ({"layer_replication": [[0, 2]]}, "has layer_replication"),
        ({"init_lora_weights": "pissa_niter_4"}, "has init_lora_weights 'pissa_niter_4', which changes the base's"),
        ({"a_field_of_next_year": 1}, "has a_field_of_next_year 1"),
    ],
)
def test_an_adapter_that_is_more_than_lora_of_linears_is_refused_by_field(
    tmp_path: Path, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        find_adapter(written(tmp_path / "peft", drawn(Q1), **config))
    assert "\n" not in str(caught.value) and str(tmp_path / "peft") in str(caught.value)


def test_fields_that_are_off_are_taken(tmp_path: Path) -> None:
    off = {"use_dora": False, "bias": "none", "modules_to_save": None, "loftq_config": {}, "layers_pattern": []}
    assert find_adapter(written(tmp_path / "peft", drawn(Q1), **off, megatron_core="megatron.core"))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"r": 8}, "at rank 8"),
        ({"lora_alpha": None}, "is damaged"),
        ({"rank_pattern": {"(": 2}}, "is damaged"),
    ],
    ids=str,
)
def test_files_that_do_not_fit_together_are_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    with pytest.raises(DamagedStore, match=words):
        find_adapter(written(tmp_path / "peft", drawn(Q1), **config))


def test_damaged_and_missing_files_are_one_line(tmp_path: Path) -> None:
    folder = written(tmp_path / "peft", drawn(Q1))
    weights = (folder / "adapter_model.safetensors").read_bytes()
    for content, words in ((weights[:-4], "is damaged"), (b"", "is damaged"), (safetensors.save({}), "holds no LoRA")):
        (folder / "adapter_model.safetensors").write_bytes(content)
        with pytest.raises((BadInput, DamagedStore), match=words):
            find_adapter(folder)
    half = {f"base_model.model.{Q1}.lora_A.weight": np.zeros((4, 32), np.float32)}
    for arrays, words in (
        (half, "it lacks 'B'"),
        ({"base_model.model.lm_head.weight": np.zeros((2, 2), np.float32)}, "holds base_model.model.lm_head.weight"),
        ({name: array.astype(np.int32) for name, array in half.items()}, "weights of type I32"),
        ({name: np.full_like(array, np.nan) for name, array in safetensors.load(weights).items()}, "not finite"),
    ):
        (folder / "adapter_model.safetensors").write_bytes(safetensors.save(arrays))
        with pytest.raises((BadInput, DamagedStore), match=words):
            find_adapter(folder)
    (folder / "adapter_model.safetensors").unlink()
    with pytest.raises(BadInput, match="No such file"):
        find_adapter(folder)
    (folder / "adapter_model.bin").touch()
    with pytest.raises(BadInput, match=r"holds adapter_model\.bin, a pickle, which gce does not load"):
        find_adapter(folder)
    with pytest.raises(BadInput, match="expected a linear in a numbered block, got 'lm_head'"):
        find_adapter(written(tmp_path / "head", drawn("lm_head")))


@BACKENDS
def test_an_adapter_of_another_model_is_refused_and_nothing_is_adapted(base: Path, load: Load, tmp_path: Path) -> None:
    model = loaded(load, base, rank=4)
    for number, path in enumerate(("model.layers.1.self_attn.query", "model.layers.9.mlp.up_proj")):
        with pytest.raises(ModelError):
            model.restore(find_adapter(written(tmp_path / str(number), drawn(path))))
        assert model.info().adapted_modules == ()


@given(st.integers(1, 5), st.sampled_from([0.5, 1.0, 2.0, 3.75]), st.sets(st.sampled_from([Q1, O2]), min_size=1))
def test_what_is_written_for_peft_is_read_as_it_was(rank: int, scale: float, paths: set[str]) -> None:
    adapter = evolve(drawn(*paths, rank=rank), scale=scale)
    found = read_peft(peft_files(adapter, "base"), "it")
    assert (found.rank, found.scale, set(found.pairs)) == (rank, scale, paths)
    assert all(
        np.array_equal(*pair) for path in paths for pair in zip(found.pairs[path], adapter.pairs[path], strict=True)
    )
    assert set(adapter_of(state_of(found)).pairs) == paths


# The command line


SMALL = (
    "--iterations",
    "1",
    "--problems",
    "5",
    "--rollouts",
    "2",
    "--max-tokens",
    "8",
    "--updates",
    "1",
    "--batch",
    "2",
)
NO_TESTS = ("--test", "0", "--dev", "0", "--shifts", "0")


def gce(*arguments: Any) -> int:
    try:
        return cli.main([*map(str, arguments)])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    capsys.readouterr()
    assert gce(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.splitlines()[-1].startswith(f"gce {arguments[0]}: "), err
    return err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "hf:"])
def test_train_evaluate_and_export_take_an_adapter_of_peft(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], prefix: str
) -> None:
    model = f"{prefix}{base}"
    if prefix:
        pytest.importorskip("peft")
    run, peft, again = tmp_path / "run", tmp_path / "peft", tmp_path / "again"
    chosen = ("--target-modules", "q_proj,v_proj", "--rank", "3", "--warm-up", "1", "--layers", "2")
    assert gce("train", "--model", model, *chosen, *SMALL, *NO_TESTS, "--run-dir", run) == 0
    assert gce("export", run, "--to", "peft", "--model", base, "--out", peft) == 0
    config = json.loads((peft / "adapter_config.json").read_text())
    assert {path.rpartition(".")[2] for path in config["target_modules"]} == {"q_proj", "v_proj"}
    assert gce("evaluate", "--model", model, "--adapter", peft, "--n", "1", "--max-tokens", "8") == 0
    assert gce("train", "--model", model, "--adapter", peft, *SMALL, *NO_TESTS, "--run-dir", again) == 0
    with open_run(again) as reader:
        lora = reader.config["settings"]["lora"]
        assert (lora["rank"], lora["target_modules"]) == (3, ["self_attn.q_proj", "self_attn.v_proj"])
    assert gce("train", "--run-dir", again, "--resume", "--iterations", "2") == 0
    capsys.readouterr()
    assert gce("export", peft, "--to", "merged", "--model", base, "--out", tmp_path / "merged") == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path / 'merged'}: {peft}, 4 linears of rank 3\n")
    assert "leave out --checkpoint" in refusal(capsys, "export", peft, "--to", "mlx", "--checkpoint", "last")


def test_names_that_match_nothing_end_a_run_in_one_line(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--model", base, "--target-modules", "query", *SMALL, *NO_TESTS, "--run-dir", tmp_path / "run")
    assert "expected target modules among down_proj, gate_proj" in refusal(capsys, "train", *given)
    assert not (tmp_path / "run").exists()


def test_an_adapter_that_cannot_be_read_ends_a_run_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path / "peft", drawn(Q1), use_dora=True)
    given = ("--model", "no/such", "--adapter", folder, *SMALL, *NO_TESTS, "--run-dir", tmp_path / "run")
    assert f"{folder} has use_dora True" in refusal(capsys, "train", *given)


# What an export prints


@pytest.fixture
def checkpoint(base: Path, tmp_path: Path) -> Path:
    model = loaded(load_mlx_model, base, rank=4, layers=(0, 2))
    model.update(batch_of(model))
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name, content in files_of_state(1, model.state()).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("form", "program"), [("peft", "PEFT"), ("merged", "transformers")])
def test_an_export_prints_the_difference_that_was_measured(
    base: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, program: str
) -> None:
    pytest.importorskip("peft")
    out = tmp_path / "out"
    assert gce("export", checkpoint, "--to", form, "--model", base, "--out", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)["comparison"]
    found = re.fullmatch(rf"compared with {program} [\d.]+ on 48 tokens: maximum difference of .* (\S+) nats", said)
    assert found is not None and 0.0 <= float(found[1]) < 1e-4, said


def test_an_export_that_is_another_model_is_an_error_and_leaves_nothing(
    base: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here because the adapter is exported at another scale than it was learned with."""
    pytest.importorskip("peft")
    from gce.app.exports import adapter as exports

    monkeypatch.setattr(exports, "peft_files", lambda adapter, base: peft_files(evolve(adapter, scale=9.0), base))
    given = ("export", checkpoint, "--to", "peft", "--model", base, "--out", tmp_path / "out")
    assert gce(*given) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "reads the export as another model" in err and "--no-compare" in err
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))
    assert gce(*given, "--no-compare") == 0
    assert capsys.readouterr().out.endswith("\nnot compared\n")


def test_an_export_without_peft_says_that_it_was_not_compared(
    base: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "find_spec", lambda name: None if name == "peft" else object())
    assert gce("export", checkpoint, "--to", "merged", "--model", base, "--out", tmp_path / "out") == 0
    assert "\nnot compared: peft is not installed: run  pip install" in capsys.readouterr().out
    assert gce("export", checkpoint, "--to", "mlx", "--out", tmp_path / "mlx") == 0
    assert "\nnot compared: these are the checkpoint's own files\n" in capsys.readouterr().out


def test_a_merged_export_that_transformers_does_not_know_is_not_compared_and_peft_has_to_read_its_own(
    base: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("peft")
    from gce.adapters.models.backends.torch import exported

    def unread(*_: Any) -> Any:
        raise ValueError("does not recognize\nthis architecture")

    monkeypatch.setattr(exported, "token_log_probabilities", unread)
    assert gce("export", checkpoint, "--to", "merged", "--model", base, "--out", tmp_path / "out") == 0
    assert "\nnot compared: does not recognize this architecture\n" in capsys.readouterr().out
    assert gce("export", checkpoint, "--to", "peft", "--model", base, "--out", tmp_path / "peft") == 1
    assert "cannot read the export: does not recognize this architecture" in capsys.readouterr().err
    assert not (tmp_path / "peft").exists()
    shutil.rmtree(tmp_path / "out")
