"""Losses, gradients and metrics of one fixed batch are those of TRL's trainers, within 1e-5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("transformers")
pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

from test_mlx_model import batch_of  # noqa: E402
from tiny_llama import write_tiny_llama  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

from gce.adapters.models.backends.torch.model import load_torch_model  # noqa: E402
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings  # noqa: E402
from gce.domain.algorithms import ALGORITHMS, leave_one_out, truncated_ratios  # noqa: E402
from gce.domain.learning import TrainingBatch, Turn  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LONGEST = 12
CAP = 1.2


class Case:
    """A model with an adapter that has learned, a batch with ratios around 1, and the same batch as TRL takes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.model: Any = load_torch_model(
            directory,
            device="cpu",
            lora=LoraSettings(rank=4, layers=(0, 2)),
            optimizer=OptimizerSettings(learning_rate=0.02, max_gradient_norm=None),
        )
        drawn = batch_of(self.model, 8)
        for _ in range(2):
            self.model.update(drawn)
        self.start = self.model.state()
        rng = np.random.Generator(np.random.Philox(3))
        traces = []
        for trace in drawn.traces:
            said: Any = trace.completion
            moved = self.model.engine.scores(
                (*said.prompt_token_ids, *said.token_ids), len(said.prompt_token_ids), adapter=True
            )
            old = np.array(moved) + rng.normal(0, 0.2, len(moved))
            sampler = old + rng.normal(0, 0.3, len(moved))
            said = evolve(
                said, log_probabilities=tuple(old.tolist()), sampling_log_probabilities=tuple(sampler.tolist())
            )
            traces.append(evolve(trace, turns=(*trace.turns[:-1], evolve(trace.turns[-1], completion=said))))
        rewards = [1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0, 0.0]
        self.batch = TrainingBatch(tuple(traces), leave_one_out(rewards))

    def inputs(self) -> dict[str, Any]:
        """The batch padded: prompts on the left, completions on the right."""
        said: list[Any] = [trace.completion for trace in self.batch.traces]
        start = max(len(each.prompt_token_ids) for each in said)
        end = max(len(each.token_ids) for each in said)

        def right(rows: Any, kind: Any) -> Any:
            return torch.tensor([[*row, *[0] * (end - len(row))] for row in rows], dtype=kind)

        def left(rows: Any) -> Any:
            return torch.tensor([[*[0] * (start - len(row)), *row] for row in rows])

        base = [
            self.model.engine.scores(
                (*each.prompt_token_ids, *each.token_ids), len(each.prompt_token_ids), adapter=False
            )
            for each in said
        ]
        ratios = [truncated_ratios(each.log_probabilities, each.sampling_log_probabilities, cap=CAP) for each in said]
        mask = right([[1] * len(each.token_ids) for each in said], torch.long)
        return {
            "prompt_ids": left([each.prompt_token_ids for each in said]),
            "prompt_mask": left([[1] * len(each.prompt_token_ids) for each in said]),
            "completion_ids": right([each.token_ids for each in said], torch.long),
            "completion_mask": mask,
            "advantages": torch.tensor(self.batch.weights),
            "old_per_token_logps": right([each.log_probabilities for each in said], torch.float32),
            "old_logps": torch.tensor([sum(each.log_probabilities) for each in said]),
            "ref_per_token_logps": right(base, torch.float32),
            "importance_sampling_ratio": right(ratios, torch.float32),
            "num_items_in_batch": mask.sum(),
        }

    def trainer(self, kind: str, folder: Path, **settings: Any) -> Any:
        config = getattr(trl, f"{kind}Config")(
            output_dir=str(folder),
            report_to=[],
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=8,
            num_generations=8,
            max_completion_length=LONGEST,
            beta=0.0,
            **settings,
        )
        return getattr(trl, f"{kind}Trainer")(
            model=self.model.engine.model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config,
            train_dataset=datasets.Dataset.from_list([{"prompt": "w1"}] * 8),
            processing_class=AutoTokenizer.from_pretrained(self.directory),
        )

    def theirs(self, trainer: Any) -> tuple[float, dict[str, Any], dict[str, float]]:
        """Their loss, gradients of the adapter, and metrics."""
        self.model.restore(self.start)
        self.model.engine.model.eval()
        parameters = self.model.engine._adapter.parameters()
        for parameter in parameters.values():
            parameter.requires_grad_(True)
            parameter.grad = None
        loss = trainer._compute_loss(self.model.engine.model, self.inputs())
        loss.backward()
        found = {name: parameter.grad.clone() for name, parameter in parameters.items()}
        return loss.item(), found, {name: values[-1] for name, values in trainer._metrics["eval"].items()}

    def ours(self, batch: TrainingBatch) -> tuple[float, dict[str, Any], Any]:
        self.model.restore(self.start)
        report = self.model.update(batch)
        return report.loss, {n: p.grad.clone() for n, p in self.model.engine._adapter.parameters().items()}, report


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(write_tiny_llama(tmp_path_factory.mktemp("model"), layers=3, words=20, context=64))


def assert_alike(found: Any, expected: Any) -> None:
    (loss, gradients, report), (their_loss, their_gradients, metrics) = found, expected
    assert loss == pytest.approx(their_loss, abs=1e-5)
    assert gradients.keys() == their_gradients.keys() and any(each.abs().max() > 1e-3 for each in gradients.values())
    for name, gradient in their_gradients.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-5, atol=1e-5)
    assert report.clipped_low == pytest.approx(metrics["clip_ratio/low_mean"], abs=1e-6)
    assert report.clipped_high == pytest.approx(metrics["clip_ratio/high_mean"], abs=1e-6)
    assert report.clipped_low + report.clipped_high > 0
    if "kl" in metrics:
        assert report.kl == pytest.approx(metrics["kl"], abs=1e-5)


SAME: dict[str, dict[str, Any]] = {
    "grpo": {"normalization": "sequence"},
    "bnpo": {"normalization": "token"},
    "dapo": {"normalization": "token"},
    "dr_grpo": {"normalization": "constant", "length": LONGEST},
}
"""What TRL's kinds of loss are here."""


def with_kl(trainer: Any, kl: float) -> None:
    """Turn on the KL term without the reference model that `beta` would load, and without weights of its tokens."""
    trainer.beta, trainer.args.use_bias_correction_kl = kl, False


@pytest.mark.parametrize("kl", [0.0, 0.1])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("loss", SAME)
def test_a_loss_of_grpo_is_that_of_trl(case: Case, tmp_path: Path, loss: str, level: Any, kl: float) -> None:
    low, high = (0.1, 0.15) if level == "token" else (0.03, 0.04)
    trainer = case.trainer(
        "GRPO", tmp_path, loss_type=loss, importance_sampling_level=level, epsilon=low, epsilon_high=high
    )
    with_kl(trainer, kl)
    more: dict[str, Any] = {"clip": low, "clip_high": high, "ratio": level, "kl": kl, **SAME[loss]}
    assert_alike(case.ours(evolve(case.batch, **more)), case.theirs(trainer))


def test_truncated_importance_sampling_is_that_of_trl(case: Case, tmp_path: Path) -> None:
    trainer = case.trainer("GRPO", tmp_path, loss_type="dapo", epsilon=0.1, epsilon_high=0.15)
    with_kl(trainer, 0.1)
    trainer.use_vllm = True

    def corrected(turn: Turn) -> Turn:
        if (said := turn.completion) is None:
            return turn
        assert said.log_probabilities is not None and said.sampling_log_probabilities is not None
        ratios = truncated_ratios(said.log_probabilities, said.sampling_log_probabilities, cap=CAP)
        return evolve(turn, weights=ratios)

    traces = tuple(evolve(trace, turns=tuple(map(corrected, trace.turns))) for trace in case.batch.traces)
    batch = evolve(case.batch, traces=traces, clip=0.1, clip_high=0.15, kl=0.1)
    assert_alike(case.ours(batch), case.theirs(trainer))


def test_the_loss_of_rloo_is_that_of_trl(case: Case, tmp_path: Path) -> None:
    algorithm = ALGORITHMS["rloo"]
    trainer = case.trainer("RLOO", tmp_path, epsilon=0.2, epsilon_high=0.2)
    more: dict[str, Any] = {"clip": 0.2, "ratio": algorithm.ratio, "normalization": algorithm.normalization}
    assert_alike(case.ours(evolve(case.batch, **more)), case.theirs(trainer))
