"""What contestants that run language models share: the model, the conversations, and mlx-lm and PEFT as peers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gce.adapters.solvers.pure_python import ExactSolver
from gce.adapters.system.clocks import SystemClock
from gce.adapters.system.process import usable_cores
from gce.app.wiring.models import model_directory
from gce.domain.problems import Message, Problem
from gce.domain.tasks import TASKS, draw_problems

__all__ = [
    "chat",
    "grpo_trainer",
    "load_gce",
    "load_mlx_lm",
    "load_transformers",
    "lora_config",
    "mlx_lm_trainer",
    "problems",
    "turns",
]

RANK = 16
SCALE = 2.0


def problems(count: int, tier: str) -> tuple[Problem, ...]:
    """Problems of one tier; a prompt of T5 has about 300 tokens for SmolLM2."""
    solve = ExactSolver(SystemClock()).solve
    return draw_problems(TASKS["scheduling"], "grounded", tier, "dev", count, seed=3, solve=solve)


def turns(problem: Problem) -> list[dict[str, str]]:
    """The problem's conversation as chat templates take it."""
    return chat(problem.prompt)


def chat(messages: Iterable[Message]) -> list[dict[str, str]]:
    """The same of any conversation."""
    return [{"role": message.role, "content": message.content} for message in messages]


def load_gce(model: str, *, blocks: int, learning_rate: float) -> Any:
    """A model in mlx on the CPU with an adapter on its top blocks, as many as there are at most."""
    from gce.adapters.models.backends.mlx.model import LoraSettings, OptimizerSettings, load_mlx_model

    loaded = load_mlx_model(
        model_directory(model),
        device="cpu",
        lora=LoraSettings(rank=RANK, scale=SCALE),
        optimizer=OptimizerSettings(learning_rate=learning_rate),
    )
    layers = loaded.info().layers
    loaded.attach(range(max(0, layers - blocks), layers))
    return loaded


def load_mlx_lm(model: str, *, fast_blas: bool) -> tuple[Any, Any]:
    """Model and tokenizer in float32 on the CPU, with the BLAS that `gce` puts under mlx, or all as pip installs it.

    Raises:
        RuntimeError: the fast BLAS is not there.
    """
    import mlx.core as mx

    from gce.adapters.models.backends.mlx.blas import use_fast_blas

    mx.set_default_device(mx.cpu)
    if fast_blas:
        report = use_fast_blas(usable_cores())
        if not report.active:
            raise RuntimeError(f"no fast BLAS under mlx: {report.reason}")
        # As in gce: there mlx runs the C++ compiler for each fused kernel, which takes it seconds and gains nothing.
        mx.disable_compile()
    from mlx_lm import load

    loaded, tokenizer = load(str(model_directory(model)))[:2]
    loaded.set_dtype(mx.float32)
    return loaded, tokenizer


def mlx_lm_trainer(loaded: Any, *, blocks: int, learning_rate: float, **options: Any) -> Callable[[Any], None]:
    """Put the same adapter on mlx-lm's model; what comes back runs its trainer once over a data set.

    `options` are `TrainingArgs`, `batch_size` among them.
    """
    import mlx.optimizers as optimizers
    from mlx_lm.tuner.trainer import TrainingArgs, train
    from mlx_lm.tuner.utils import linear_to_lora_layers

    loaded.freeze()
    shape = {"rank": RANK, "scale": SCALE, "dropout": 0.0}
    linear_to_lora_layers(loaded, min(blocks, len(loaded.layers)), shape)
    optimizer = optimizers.Adam(learning_rate=learning_rate)
    folder = tempfile.TemporaryDirectory()

    def run(data: Any) -> None:
        never = 10**9
        args = TrainingArgs(
            iters=len(data) // options["batch_size"],
            steps_per_report=never,
            steps_per_save=never,
            steps_per_eval=never,
            val_batches=0,
            adapter_file=str(Path(folder.name) / "adapters.safetensors"),
            **options,
        )
        train(loaded, optimizer, data, args=args)

    return run


def load_transformers(model: str) -> tuple[Any, Any]:
    """Model and tokenizer of transformers in float32 on torch's CPU backend, on as many threads as there are cores."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(usable_cores())
    folder = model_directory(model)
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return loaded, AutoTokenizer.from_pretrained(folder)


def lora_config(loaded: Any, blocks: int) -> Any:
    """PEFT's configuration of the same adapter: on every linear of the top blocks of a model of transformers."""
    from peft import LoraConfig
    from torch.nn import Linear

    stack = loaded.model.layers
    names = sorted({name.rpartition(".")[2] for name, part in stack[0].named_modules() if isinstance(part, Linear)})
    adapted = list(range(max(0, len(stack) - blocks), len(stack)))
    shape = {"r": RANK, "lora_alpha": SCALE * RANK, "target_modules": names, "layers_to_transform": adapted}
    return LoraConfig(task_type="CAUSAL_LM", **shape)


def grpo_trainer(
    loaded: Any,
    tokenizer: Any,
    asked: Sequence[Sequence[dict[str, str]]],
    reward: Callable[[int, str], float],
    *,
    blocks: int,
    **options: Any,
) -> tuple[Any, Callable[[], None]]:
    """TRL's `GRPOTrainer` with PEFT's adapter on the top blocks, and what puts the adapter back to its beginning.

    `reward` is given the place of a conversation among those `asked`, and an answer. `options` are `GRPOConfig`'s.
    """
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    folder = tempfile.TemporaryDirectory()
    quiet = {"report_to": [], "logging_strategy": "no", "save_strategy": "no", "disable_tqdm": True}

    def rewards(completions: list[Any], place: list[int], **_: Any) -> list[float]:
        texts = (completion[-1]["content"] for completion in completions)
        return [reward(which, text) for which, text in zip(place, texts, strict=True)]

    trainer = GRPOTrainer(
        model=loaded,
        reward_funcs=rewards,
        args=GRPOConfig(output_dir=folder.name, top_k=0, gradient_checkpointing=False, **quiet, **options),
        train_dataset=Dataset.from_list([{"prompt": each, "place": place} for place, each in enumerate(asked)]),
        processing_class=tokenizer,
        peft_config=lora_config(loaded, blocks),
    )
    trained = [each for each in trainer.model.parameters() if each.requires_grad]
    before = [each.detach().clone() for each in trained]

    def restore() -> None:
        assert folder  # As long as the trainer.
        with torch.no_grad():
            for parameter, start in zip(trained, before, strict=True):
                parameter.copy_(start)

    return trainer, restore
