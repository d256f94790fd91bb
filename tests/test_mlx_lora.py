"""The adapter sits on the blocks it should, repeats to the byte, and its files are read by plain mlx-lm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

mx = pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
pytest.importorskip("tokenizers")

import mlx_lm  # noqa: E402
from mlx.utils import tree_flatten, tree_unflatten  # noqa: E402
from mlx_lm.tuner.lora import LoRALinear  # noqa: E402
from mlx_lm.utils import load_model  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.mlx.lora import Adapter  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.adapters.runs.checkpoint_files import files_of_state  # noqa: E402
from gce.errors import ModelError  # noqa: E402

TOKENS = [[3, 7, 8, 9, 1, 4, 20, 30]]
LINEARS = {
    "mlp.down_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "self_attn.k_proj",
    "self_attn.o_proj",
    "self_attn.q_proj",
    "self_attn.v_proj",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    mx.set_default_device(mx.cpu)
    mx.disable_compile()
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=5)


@pytest.fixture
def model(directory: Path) -> Any:
    return load_model(directory)[0]


def adapter_on(model: Any, *layers: Any, seed: int = 0, **lora: Any) -> Adapter:
    settings = LoraSettings(rank=4, layers=tuple(layers), **lora)
    return Adapter(model, settings, OptimizerSettings(learning_rate=0.05), seed=seed)


def logits(model: Any) -> Any:
    return np.array(model(mx.array(TOKENS)))


def moved(adapter: Any, steps: int = 2) -> Any:
    """Some steps on made-up gradients, so that the adapter does something."""
    rng = np.random.Generator(np.random.Philox(3))
    for _ in range(steps):
        gradients = {
            path: mx.array(rng.standard_normal(array.shape).astype(np.float32))
            for path, array in adapter.parameters().items()
        }
        adapter.step(gradients, norm=1.0, rate=1.0)
    return adapter


def bytes_of(adapter: Any) -> dict[Any, Any]:
    return {name: array.tobytes() for name, array in adapter.state().arrays.items()}


def test_the_linears_of_the_chosen_blocks_are_adapted_and_no_others(model: Any) -> None:
    adapter = adapter_on(model, 3, 1)
    assert adapter.layers == (1, 3)
    assert set(adapter.modules) == {f"model.layers.{layer}.{name}" for layer in (1, 3) for name in LINEARS}
    found = {path for path, module in model.named_modules() if isinstance(module, LoRALinear)}
    assert found == set(adapter.modules)
    assert set(adapter.parameters()) == {f"{path}.{name}" for path in found for name in ("lora_a", "lora_b")}


def test_target_modules_choose_among_the_linears(model: Any) -> None:
    adapter = adapter_on(model, 0, target_modules=("self_attn.q_proj", "self_attn.v_proj"))
    assert adapter.modules == ("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj")


@pytest.mark.parametrize("layers", [(5,), (-1,), (1, 1)])
def test_blocks_that_do_not_exist_are_refused(model: Any, layers: tuple[int] | tuple[int, int]) -> None:
    adapter = adapter_on(model, 2)
    before = bytes_of(adapter)
    with pytest.raises(ModelError, match=r"blocks from 0 to 4, got \["):
        adapter.attach(layers)
    assert bytes_of(adapter) == before


def test_a_linear_that_does_not_exist_is_refused(model: Any) -> None:
    with pytest.raises(ModelError, match=r"among down_proj.*v_proj, or all-linear, got 'query'"):
        adapter_on(model, 2, target_modules=("query",))
    assert not [module for _, module in model.named_modules() if isinstance(module, LoRALinear)]


def test_a_fresh_adapter_changes_nothing(model: Any) -> None:
    bare = logits(model)
    adapter_on(model, 1, 2)
    assert np.array_equal(logits(model), bare)


def test_attaching_anew_leaves_nothing_of_the_old(model: Any) -> None:
    adapter = moved(adapter_on(model, 0, 1))
    adapter.attach((2, 4))
    fresh = adapter_on(load_model_again(model), 2, 4)
    assert bytes_of(adapter) == bytes_of(fresh)


def load_model_again(model: Any) -> Any:
    twin = type(model)(model.args)
    plain = [
        (p.replace(".linear.", "."), a) for p, a in dict(tree_flatten(model.parameters())).items() if "lora_" not in p
    ]
    twin.update(tree_unflatten(plain))
    return twin


def test_initial_values_depend_on_the_seed_and_the_path_alone(directory: Path) -> None:
    """Not on mlx's global generator, nor on which other blocks are adapted; and they are uniform within 1/sqrt(32)."""
    mx.random.seed(1)
    one = adapter_on(load_model(directory)[0], 1, 3).parameters()
    mx.random.seed(2)
    two = adapter_on(load_model(directory)[0], 3).parameters()
    path = "model.layers.3.self_attn.q_proj.lora_a"
    assert np.array_equal(one[path], two[path])
    assert not np.array_equal(one[path], one[path.replace("3", "1")])
    assert not np.array_equal(one[path], adapter_on(load_model(directory)[0], 3, seed=1).parameters()[path])
    assert 0.9 / 32**0.5 < np.abs(np.array(one[path])).max() <= 1 / 32**0.5
    assert not np.array(one[path.replace("lora_a", "lora_b")]).any()


def test_mlxs_global_generator_is_left_alone(model: Any) -> None:
    mx.random.seed(11)
    expected = mx.random.normal((3,)).tolist()
    mx.random.seed(11)
    adapter = moved(adapter_on(model, 1, dropout=0.5))
    adapter.merged()
    with adapter.training():
        mx.eval(model(mx.array(TOKENS)))
    assert mx.random.normal((3,)).tolist() == expected


def test_the_base_is_frozen(model: Any) -> None:
    def base() -> dict[Any, Any]:
        found = dict(tree_flatten(model.parameters()))
        return {p.replace(".linear.", "."): np.array(a).tobytes() for p, a in found.items() if "lora_" not in p}

    before = base()
    moved(adapter_on(model, 1, 3))
    assert base() == before


@pytest.mark.parametrize("layers", [(3, 4), (0, 2, 3), (1,), (0, 1, 2, 3, 4)], ids=str)
def test_plain_mlx_lm_loads_the_files(directory: Path, model: Any, layers: tuple[int, ...], tmp_path: Path) -> None:
    """The last blocks, blocks with gaps, one block, all blocks."""
    adapter = moved(adapter_on(model, *layers, scale=3.0))
    bare = logits(load_model(directory)[0])
    for name, content in files_of_state(1, adapter.state()).items():
        (tmp_path / name).write_bytes(content)
    loaded, *_ = mlx_lm.load(str(directory), adapter_path=str(tmp_path))
    assert np.abs(logits(model) - bare).max() > 0.1
    assert np.allclose(logits(loaded), logits(model), atol=1e-4)
    found = {path for path, module in loaded.named_modules() if isinstance(module, LoRALinear)}
    assert found == set(adapter.modules)


def test_a_restored_adapter_goes_on_to_the_same_bytes(directory: Path, model: Any) -> None:
    adapter = moved(adapter_on(model, 1, 3))
    state = adapter.state()
    moved(adapter, steps=3)
    end = bytes_of(adapter)
    assert int(adapter.state().arrays["optimizer.step"]) == 5
    adapter.restore(state)
    assert bytes_of(adapter) == {name: array.tobytes() for name, array in state.arrays.items()}
    assert bytes_of(moved(adapter, steps=3)) == end
    bare = adapter_on(load_model(directory)[0])
    bare.restore(state)
    assert bare.layers == (1, 3)
    assert bytes_of(moved(bare, steps=3)) == end


def test_a_state_of_other_blocks_or_rank_is_refused(directory: Path, model: Any) -> None:
    state = adapter_on(load_model(directory)[0], 1, 2).state()
    adapter = adapter_on(model, 3)
    before = bytes_of(adapter)
    with pytest.raises(ValueError, match=r"blocks \[3\].*model.layers"):
        adapter.restore(state)
    assert bytes_of(adapter) == before
    bare = Adapter(load_model(directory)[0], LoraSettings(rank=5), OptimizerSettings(), seed=0)
    with pytest.raises(ValueError, match=r"expected adapter\..*lora_a as float32\(32, 5\), got float32\(32, 4\)"):
        bare.restore(state)
    assert bare.layers == () and not bare.parameters()


def test_a_state_of_another_number_format_is_refused(model: Any) -> None:
    adapter = moved(adapter_on(model, 3))
    state = adapter.state()
    arrays = {name: array.astype(np.float16) for name, array in state.arrays.items()}
    before = bytes_of(adapter)
    with pytest.raises(ValueError, match="float16"):
        adapter.restore(evolve(state, arrays=arrays))
    assert bytes_of(adapter) == before


def test_gradients_are_scaled_down_to_the_largest_norm(model: Any) -> None:
    """A gradient of norm 10 with a limit of 1: AdamW's first moment is a tenth of (1 - 0.9) times the gradient."""
    adapter = adapter_on(model, 2, target_modules=("self_attn.q_proj",))
    shapes = {path: array.shape for path, array in adapter.parameters().items()}
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    gradients = {path: mx.full(shape, 10 / count**0.5) for path, shape in shapes.items()}
    adapter.step(gradients, norm=10.0, rate=1.0)
    first = {name: array for name, array in adapter.state().arrays.items() if name.endswith(".m")}
    assert len(first) == 2
    for array in first.values():
        assert array == pytest.approx(np.full(array.shape, 0.1 / count**0.5), rel=1e-5)


def test_the_first_step_is_as_long_as_the_learning_rate(model: Any) -> None:
    """With bias correction AdamW's first step moves each number by the learning rate against its gradient's sign."""
    adapter = adapter_on(model, 2, target_modules=("self_attn.q_proj",))
    before = {path: np.array(array) for path, array in adapter.parameters().items()}
    adapter.step({path: mx.full(array.shape, -0.3) for path, array in before.items()}, norm=0.5, rate=1.0)
    for path, array in adapter.parameters().items():
        assert np.array(array) - before[path] == pytest.approx(np.full(array.shape, 0.05), abs=1e-5)


def test_the_adapter_can_be_switched_off_and_comes_back(model: Any) -> None:
    bare = logits(model)
    adapter = moved(adapter_on(model, 1, 3))
    changed = logits(model)
    with pytest.raises(RuntimeError, match="inside"), adapter.off():
        assert np.array_equal(logits(model), bare)
        raise RuntimeError("inside")
    assert np.array_equal(logits(model), changed)
    assert np.abs(changed - bare).max() > 0.1


def test_dropout_is_on_in_training_only_and_keyed_by_seed_and_step(directory: Path) -> None:
    def trained_logits(adapter: Any) -> Any:
        with adapter.training():
            return logits(adapter.model)

    adapter = moved(adapter_on(load_model(directory)[0], 1, dropout=0.5))
    still = logits(adapter.model)
    dropped = trained_logits(adapter)
    assert not np.array_equal(dropped, still)
    assert np.array_equal(trained_logits(adapter), dropped)
    assert np.array_equal(logits(adapter.model), still)
    twin = moved(adapter_on(load_model(directory)[0], 1, dropout=0.5))
    assert np.array_equal(trained_logits(twin), dropped)
    still_there = adapter_on(load_model(directory)[0], 1, dropout=0.5)
    still_there.model.update(tree_unflatten([(p, a + 0.1) for p, a in still_there.parameters().items()]))
    before = trained_logits(still_there)
    still_there.step({p: mx.zeros_like(a) for p, a in still_there.parameters().items()}, norm=0.0, rate=1.0)
    assert not np.array_equal(trained_logits(still_there), before), "the step counts, though nothing moved"


def test_the_merged_model_answers_alike_and_later_updates_do_not_reach_it(model: Any) -> None:
    adapter = moved(adapter_on(model, 1, 3))
    merged = adapter.merged()
    then = logits(merged)
    assert np.allclose(then, logits(model), atol=1e-4)
    assert not [module for _, module in merged.named_modules() if isinstance(module, LoRALinear)]
    before = bytes_of(adapter)
    moved(adapter, steps=1)
    assert np.array_equal(logits(merged), then)
    assert np.allclose(logits(adapter.merged()), logits(model), atol=1e-4)
    assert not np.allclose(logits(model), then, atol=1e-3)
    assert bytes_of(adapter) != before


def test_the_merged_model_shares_the_arrays_that_are_not_adapted(model: Any) -> None:
    adapter = adapter_on(model, 3)
    arrays = {id(array) for _, array in dict(tree_flatten(model.parameters())).items()}
    own = [path for path, array in dict(tree_flatten(adapter.merged().parameters())).items() if id(array) not in arrays]
    assert {path.removesuffix(".weight") for path in own} == set(adapter.modules)


def test_weights_of_fewer_bits_keep_their_adapters_when_merged(model: Any) -> None:
    model.set_dtype(mx.bfloat16)
    adapter = moved(adapter_on(model, 3))
    kept = {path for path, module in adapter.merged().named_modules() if isinstance(module, LoRALinear)}
    assert kept == set(adapter.modules)


def test_the_digest_names_the_adapter(directory: Path, model: Any) -> None:
    adapter = adapter_on(model, 1)
    fresh = adapter.digest()
    assert adapter_on(load_model(directory)[0], 1).digest() == fresh
    assert adapter_on(load_model(directory)[0], 2).digest() != fresh
    assert adapter_on(load_model(directory)[0], 1, scale=1.0).digest() != fresh
    assert moved(adapter).digest() != fresh


@pytest.mark.parametrize("settings", [{"rank": 0}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        LoraSettings(**settings)


@pytest.mark.parametrize("settings", [{"learning_rate": 0.0}, {"max_gradient_norm": 0.0}, {"weight_decay": -1.0}])
def test_optimizer_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        OptimizerSettings(**settings)
