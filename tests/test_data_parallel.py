"""Two learner processes give the update of one, resume exactly, and end with one line if one of them dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")
pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from test_mlx_model import batch_of  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402

from gce.adapters.models.backends.torch.data_parallel import check_processes  # noqa: E402
from gce.adapters.models.backends.torch.model import load_torch_model  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.app import cli  # noqa: E402
from gce.app.settings.values import with_recipe  # noqa: E402
from gce.app.wiring.models import find_model  # noqa: E402
from gce.domain.tasks import TASKS  # noqa: E402
from gce.errors import MissingExtra, ModelError, SettingError  # noqa: E402
from gce.testing.contracts.model import assert_same_arrays  # noqa: E402


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64)


def loaded(directory: Path, **given: Any) -> Any:
    return load_torch_model(
        directory,
        device="cpu",
        lora=LoraSettings(rank=4, layers=(0, 2), dropout=0.1),
        optimizer=OptimizerSettings(learning_rate=0.02, tokens_per_pass=32),
        threads=1,
        **given,
    )


def test_two_processes_learn_as_one_and_resume_exactly(directory: Path) -> None:
    """Over 50 updates with dropout, in passes dealt to both; a process that dies is one line, then a new one."""
    one, two = loaded(directory), loaded(directory, processes=2)
    batch = batch_of(one)
    for number in range(50):
        expected, found = one.update(batch), two.update(batch)
        assert found.loss == pytest.approx(expected.loss, abs=1e-6)
        if number == 24:
            half = two.state()
    ours, theirs = one.state().arrays, two.state().arrays
    end = two.state()
    assert max(np.abs(ours[name] - theirs[name]).max() for name in ours) <= 1e-6
    two.restore(half)
    for _ in range(25):
        two.update(batch)
    assert_same_arrays(two.state(), end)

    two.attach([1])  # The other process follows.
    one.attach([1])
    assert two.update(batch) == one.update(batch)
    before = two.state()
    os.kill(two.engine.processes._others[0]._process.pid, signal.SIGKILL)
    with pytest.raises(ModelError, match=r"^learner process 2 of 2 died \(signal 9\): nothing learned in this"):
        two.update(batch)
    assert_same_arrays(two.state(), before)
    assert two.update(batch) == one.update(batch)
    two.engine.processes.close()


def test_a_run_whose_process_dies_ends_in_one_line_and_is_resumed_to_the_same_bytes(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gce.adapters.models.backends.torch.data_parallel import Processes

    common = [
        *("--task", "toy_task:ADDITION", "--model", f"hf:{directory}", "--learner-processes", "2", "--device", "cpu"),
        *("--threads", "2", "--admission", "all", "--problems", "4", "--rollouts", "2", "--iterations", "2"),
        *("--updates", "2", "--tokens-per-pass", "64", "--max-tokens", "8", "--dev", "0", "--test", "0"),
        *("--layers", "1", "--targeting", "last"),
    ]
    assert cli.main(["train", *common, "--run-dir", str(tmp_path / "whole")]) == 0
    capsys.readouterr()
    whole, calls = Processes.gradients, []

    def dying(self: Any, *given: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:  # The last step of the last iteration.
            os.kill(self._others[0]._process.pid, signal.SIGKILL)
        return whole(self, *given)

    monkeypatch.setattr(Processes, "gradients", dying)
    assert cli.main(["train", *common, "--run-dir", str(tmp_path / "cut")]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "learner process 2 of 2 died (signal 9): nothing learned in this iteration is kept" in said
    assert cli.main(["train", "--resume", "--run-dir", str(tmp_path / "cut")]) == 0
    last = "checkpoints/last/adapters.safetensors"
    assert (tmp_path / "cut" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()


@pytest.mark.parametrize("bf16", [False, True])
def test_checkpointing_changes_no_gradient_and_bf16_hardly_any(directory: Path, bf16: bool) -> None:
    plain, other = loaded(directory), loaded(directory, gradient_checkpointing=True, bf16=bf16)
    batch = batch_of(plain)
    expected, found = plain.update(batch), other.update(batch)
    assert found.loss == pytest.approx(expected.loss, rel=0.05 if bf16 else 1e-6)
    assert found.gradient_norm == pytest.approx(expected.gradient_norm, rel=0.2 if bf16 else 1e-5)
    assert (found.loss != expected.loss) == bf16
    assert not any(module.training for module in other.engine.model.modules())


def test_checkpointed_blocks_run_again_in_the_backward_pass(directory: Path) -> None:
    """A block runs once in each pass without checkpointing, twice with it."""
    batch = batch_of(loaded(directory))
    runs = []
    for checkpointing in (False, True):
        model = loaded(directory, gradient_checkpointing=checkpointing)
        count: list[int] = []
        model.engine._adapter.blocks[1].mlp.register_forward_pre_hook(lambda *_, count=count: count.append(1))
        model.update(batch)
        runs.append(len(count))
    assert runs[1] == 2 * runs[0]


def test_processes_that_the_machine_does_not_offer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: True)
    check_processes(2, torch.device("cuda"))
    with pytest.raises(ModelError, match="at most one learner process for each of 2 GPUs, got 3"):
        check_processes(3, torch.device("cuda"))
    with pytest.raises(ModelError, match="one learner process on Apple's GPU"):
        check_processes(2, torch.device("mps"))
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    with pytest.raises(ModelError, match=r"torch\.distributed with gloo"):
        check_processes(2, torch.device("cpu"))


def test_a_process_that_cannot_load_says_why(directory: Path) -> None:
    model = loaded(directory, processes=2)
    model.engine.processes._load["directory"] = directory / "absent"
    with pytest.raises(ModelError, match=r"^learner process 2 of 2 failed: ModelError: could not load a model"):
        model.update(batch_of(model))


def test_four_bits_need_bitsandbytes_or_learn_in_them(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    if find("bitsandbytes"):
        model = loaded(directory, load_in_4bit=True)
        assert model.info().identity != loaded(directory).info().identity
        batch = batch_of(model)
        losses = [model.update(batch).loss for _ in range(5)]
        assert losses[-1] < losses[0]
        assert "Linear4bit" in {type(module.base_layer).__name__ for module in _adapted(model)}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bitsandbytes" else find(name))
    with pytest.raises(MissingExtra, match=r"pip install 'grounded-eval\[4bit\]'"):
        loaded(directory, load_in_4bit=True)


def _adapted(model: Any) -> list[Any]:
    return [model.engine.model.get_submodule(path) for path in model.engine.modules]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("optimizer.learner_processes", 2),
        ("optimizer.bf16", True),
        ("optimizer.gradient_checkpointing", True),
        ("model.load_in_4bit", True),
    ],
)
def test_other_models_refuse_what_is_for_torch(setting: str, value: Any) -> None:
    settings = with_recipe("gce", {setting: value, "model.name": "gce-tiny"})
    with pytest.raises(SettingError, match="it is for hf:NAME"):
        find_model(settings, TASKS["scheduling"])
