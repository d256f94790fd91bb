"""The torch backend for `LocalModel`: a causal language model of transformers with a LoRA adapter of PEFT.

Runs on CUDA if available, otherwise on Apple's GPU or the CPU. `lora` holds the adapter, whose state has mlx-lm's
layout, so a checkpoint can be continued with either backend. Works on tokens, not text.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gce.adapters.models.formats.model_files import directory_digest, end_tokens, find_directory
from gce.adapters.models.local.chat_format import chat_format
from gce.adapters.models.local.chat_template import TemplateSettings
from gce.adapters.models.local.continuous_batching import Job, all_together, roll_out
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.local.model import LocalModel, RollOut
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import Example, Scored, batch_arrays, passes, pooled, scored
from gce.domain.learning import LayerActivation, ModelState, Objective
from gce.errors import MissingExtra, ModelError, one_line

try:
    import torch
    from torch import Tensor
    from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
    from transformers.modeling_layers import GradientCheckpointingLayer
    from transformers.utils import logging

    from gce.adapters.models.backends.torch.data_parallel import Passes, PassResult, Processes, Step, check_processes
    from gce.adapters.models.backends.torch.decoder import decoder_maker
    from gce.adapters.models.backends.torch.lora import Adapter
except ImportError as error:
    raise MissingExtra((error.name or "torch").split(".")[0], "hf") from error

__all__ = ["TorchEngine", "load_engine", "load_torch_model", "no_bars"]


def load_torch_model(
    path_or_repo: str | Path,
    *,
    device: Literal["cpu"] | None = None,
    lora: LoraSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    seed: int = 0,
    max_batch: int = 128,
    threads: int | None = None,
    load_in_4bit: bool = False,
    bf16: bool = False,
    gradient_checkpointing: bool = False,
    processes: int = 1,
    template: TemplateSettings | None = None,
) -> LocalModel:
    """Load a model from a directory in the Hugging Face layout, or from the hub by name.

    Args:
        path_or_repo: a directory with config.json, model*.safetensors and a tokenizer's files.
        device: `cpu` forces the CPU; None uses an accelerator if available.
        lora: shape of the adapter; `LocalModel.attach` can choose its blocks later.
        optimizer: settings of the optimizer.
        seed: seed of the adapter's initial values and of dropout.
        max_batch: maximum sequences per sampling batch.
        threads: CPU threads; None leaves the choice to torch. The number may change the last bits of results.
        load_in_4bit: quantize the base's linears to 4 bits (NF4) with bitsandbytes, as in QLoRA.
        bf16: run forward and backward passes of optimizer steps in bfloat16 autocast.
        gradient_checkpointing: compute a block's activations again in the backward pass instead of storing them.
        processes: data-parallel processes of the learner, one per GPU, or on the CPU with a share of the threads.
        template: which chat template is used, and how; None for the model's own.

    Weights are float32 on a CPU, and elsewhere as stored; the adapter is always float32.

    Raises:
        ModelError: the model does not exist or cannot be used.
    """
    name, directory = str(path_or_repo), find_directory(path_or_repo)
    load: dict[str, Any] = {
        "name": name,
        "directory": directory,
        "device": device,
        "lora": lora or LoraSettings(),
        "optimizer": optimizer or OptimizerSettings(),
        "seed": seed,
        "max_batch": max_batch,
        "threads": threads,
        "load_in_4bit": load_in_4bit,
        "bf16": bf16,
        "gradient_checkpointing": gradient_checkpointing,
    }
    check_processes(processes, _place(device))
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory)
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {name!r}: {one_line(error)}") from error
    engine = load_engine(**load)
    rows = engine.model.get_input_embeddings().weight.shape[0]
    chat = chat_format(name, tokenizer, template, ends=end_tokens(directory), rows=rows)
    if processes > 1:
        engine.processes = Processes(processes, _place(device), load, threads=threads)
    return LocalModel(engine, chat, context=_context(engine.model.config))


def _context(config: Any) -> int | None:
    """Return the maximum tokens of prompt and completion together; None if the config does not say."""
    context = getattr(config, "max_position_embeddings", None) or None
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") == "longrope":  # Keys in the cache are not turned again where a longer text turns others.
        return int(rope["original_max_position_embeddings"])
    return context


def load_engine(
    *,
    name: str,
    directory: Path,
    device: Literal["cpu"] | None,
    lora: LoraSettings,
    optimizer: OptimizerSettings,
    seed: int,
    max_batch: int,
    threads: int | None,
    load_in_4bit: bool,
    bf16: bool,
    gradient_checkpointing: bool,
    rank: int = 0,
) -> TorchEngine:
    """Load the model without its tokenizer, for the learner process `rank`. See `load_torch_model`."""
    if threads is not None:
        torch.set_num_threads(threads)
    place = _place(device, rank)
    if place.type == "cuda":
        torch.cuda.set_device(place)
    given: dict[str, Any] = {"dtype": torch.float32 if place.type == "cpu" else "auto", "use_safetensors": True}
    if load_in_4bit:
        given |= {"quantization_config": _four_bits(place), "device_map": {"": place}}
    try:
        with no_bars():
            model = AutoModelForCausalLM.from_pretrained(directory, **given)
            model = model if load_in_4bit else model.to(place)
            for module in model.modules():
                if hasattr(module, "support_avx512bf16_for_cpu"):
                    # bitsandbytes packs weights for a CPU kernel of inference, through which no gradient passes.
                    module.support_avx512bf16_for_cpu = False
            with torch.no_grad():  # Some models load and cannot be computed.
                model(torch.tensor([[0, 1]], device=place), use_cache=False)
            if gradient_checkpointing:
                model.gradient_checkpointing_enable({"use_reentrant": False})
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {name!r}: {one_line(error)}") from error
    digest = directory_digest(directory) + (" in 4 bits" if load_in_4bit else "")
    return TorchEngine(
        model,
        lora,
        optimizer,
        digest=digest,
        seed=seed,
        max_batch=max_batch,
        bf16=bf16,
        gradient_checkpointing=gradient_checkpointing,
    )


def _four_bits(place: torch.device) -> BitsAndBytesConfig:
    """Return the settings of QLoRA.

    Source: Dettmers et al. (2023), QLoRA: Efficient Finetuning of Quantized LLMs.
    """
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtra("bitsandbytes", "4bit")
    kind = torch.float32 if place.type == "cpu" else torch.bfloat16
    return BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=kind
    )


@contextlib.contextmanager
def no_bars() -> Iterator[None]:
    """Turn off transformers' progress bars within the context."""
    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()


def _place(device: Literal["cpu"] | None, rank: int = 0) -> torch.device:
    """Return the device of a learner process."""
    if device is None and torch.cuda.is_available():
        return torch.device("cuda", rank)
    return torch.device("mps" if device is None and torch.backends.mps.is_available() else "cpu")


class TorchEngine:
    """Base model and adapter in torch. See `gce.adapters.models.local.model.Engine`."""

    def __init__(
        self,
        model: Any,
        lora: LoraSettings,
        optimizer: OptimizerSettings,
        *,
        digest: str,
        seed: int,
        max_batch: int,
        bf16: bool = False,
        gradient_checkpointing: bool = False,
    ) -> None:
        self.processes: Processes | None = None
        """The other processes that share the optimizer steps; None for none."""
        self.model = model.eval().requires_grad_(False)
        self._digest = digest
        self._max_batch = max_batch
        self._base_size = sum(parameter.numel() for parameter in model.parameters())
        self._bf16 = bf16
        self._checkpointed = [each for each in model.modules() if isinstance(each, GradientCheckpointingLayer)]
        if not gradient_checkpointing:
            self._checkpointed = []
        elif not self._checkpointed:
            raise ModelError(f"{type(model).__name__} takes no gradient checkpointing")
        self._adapter = Adapter(self.model, lora, optimizer, seed=seed)
        self._to_hidden, self._to_logits = _split_head(model)
        if lora.layers:
            self.attach(lora.layers)

    @property
    def blocks(self) -> int:
        """Number of transformer blocks."""
        return len(self._adapter.blocks)

    @property
    def layers(self) -> tuple[int, ...]:
        """The adapted blocks."""
        return self._adapter.layers

    @property
    def modules(self) -> tuple[str, ...]:
        """Full paths of the adapted linears."""
        return self._adapter.modules

    @property
    def trainable_parameters(self) -> int:
        """Number of parameters in the adapter."""
        return sum(parameter.numel() for parameter in self._adapter.parameters().values())

    @property
    def total_parameters(self) -> int:
        """Number of parameters in base and adapter."""
        return int(self._base_size) + self.trainable_parameters

    def digest(self) -> str:
        """Return the SHA-256 of the base's files and the adapter."""
        return self._adapter.digest(self._digest)

    def attach(self, layers: Sequence[int], modules: Sequence[str] | None = None) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer; of their linears, `modules`."""
        self._adapter.attach(layers, modules)

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model in its current state; later updates do not affect it."""
        make = decoder_maker(self._adapter.merged())
        return lambda jobs, whole=False: roll_out(jobs, make, stop=stop, max_rows=self._max_batch)

    def deal(self, jobs: Sequence[Job]) -> list[list[int]]:
        """All jobs share one batch."""
        return all_together(jobs)

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Return the log-probabilities of the tokens from `start` on."""
        row = torch.tensor([list(tokens)], device=self.model.device)
        with contextlib.nullcontext() if adapter else self._adapter.off(), torch.no_grad():
            logits = self.model(row[:, :-1], use_cache=False).logits[0, start - 1 :].float()
        found = logits.log_softmax(dim=-1).gather(1, row[0, start:, None])[:, 0]
        return tuple(found.tolist())

    def step(self, examples: Sequence[Example], objective: Objective, *, rate: float) -> tuple[float, float, Scored]:
        """See `gce.adapters.models.local.model.Engine`."""
        trained = sum(example.trained for example in examples)
        step = Step(self.layers, self.modules, self._adapter.steps(), objective, trained)
        numbered = list(enumerate(passes(examples, self._adapter.settings.tokens_per_pass)))
        if self.processes is None:
            total, results = self.gradients(numbered, step)
        else:
            total, results = self.processes.gradients(self, numbered, step)
        scores = [
            pair for (_, chunk), (_, _, found) in zip(numbered, results, strict=True) for pair in scored(chunk, found)
        ]
        return sum(loss for _, loss, _ in results), self._adapter.step(total, rate=rate), scores

    def gradients(self, numbered: Passes, step: Step) -> tuple[Tensor, list[PassResult]]:
        """Return the sum of the passes' gradients, and the result of each pass.

        The sum is in double precision where the device has it, so that neither the order of the passes nor the number
        of processes shows after rounding to single precision.
        """
        kind = torch.float32 if self.model.device.type == "mps" else torch.float64
        total = torch.zeros(self.trainable_parameters, dtype=kind, device=self.model.device)
        results = []
        for number, chunk in numbered:
            with self._adapter.training(step.steps, number), self._recomputing():
                losses, found = self._loss(chunk, step.objective)
                loss = losses / step.trained
                loss.backward()
            total += self._adapter.take_gradients()
            results.append((number, loss.item(), found.detach().cpu().numpy()))
        return total, results

    def parameters(self) -> Tensor:
        """Return the adapter's numbers as one array."""
        return self._adapter.flat()

    def place(self, parameters: Tensor) -> None:
        """Take the adapter's numbers from such an array."""
        self._adapter.place(parameters)

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer, in mlx-lm's layout."""
        return self._adapter.state()

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; if no block is adapted yet, adapt those of the state."""
        self._adapter.restore(state)

    def block_statistics(self, sequences: Iterable[Sequence[int]]) -> tuple[LayerActivation, ...]:
        """Return activation statistics of each block on token sequences, with the adapter off."""
        sums = np.zeros((self.blocks, 2))
        numbers = 0

        def watch(layer: int) -> Any:
            def seen(_module: Any, given: Any, named: Any, out: Any) -> None:
                into = given[0] if given else named["hidden_states"]
                out = out[0] if isinstance(out, tuple) else out
                out, into = out.float(), into.float()
                sums[layer] += [out.square().sum().item(), (out - into).square().sum().item()]

            return seen

        hooks = [
            block.register_forward_hook(watch(i), with_kwargs=True) for i, block in enumerate(self._adapter.blocks)
        ]
        try:
            with self._adapter.off(), torch.no_grad():
                for tokens in sequences:
                    row = torch.tensor([list(tokens)], device=self.model.device)
                    self.model(row, use_cache=False, logits_to_keep=1)
                    numbers += len(tokens) * self.model.config.get_text_config().hidden_size
        finally:
            for hook in hooks:
                hook.remove()
        means = sums / max(numbers, 1)
        return tuple(
            LayerActivation(layer=layer, mean_square=float(mean), update_mean_square=float(update))
            for layer, (mean, update) in enumerate(means)
        )

    def hidden(self, tokens: Sequence[int], start: int, *, adapter: bool) -> Array:
        """See `gce.adapters.models.local.model.Engine`."""
        row = torch.tensor([list(tokens)], device=self.model.device)
        with contextlib.nullcontext() if adapter else self._adapter.off(), torch.no_grad():
            found: Array = self._to_hidden(row)[0, start:].float().cpu().numpy()
        return found

    def clear_caches(self) -> None:
        """Nothing to do: nothing is kept between calls."""

    @contextlib.contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Let the checkpointed blocks recompute their activations; only they are in training mode."""
        for block in self._checkpointed:
            block.training = True
        try:
            yield
        finally:
            for block in self._checkpointed:
                block.training = False

    def _loss(self, chunk: Sequence[Example], objective: Objective) -> tuple[Tensor, Tensor]:
        """Return the sum of the losses of all trained tokens of a chunk, and their log-probabilities."""
        inputs, places, targets, *of_tokens = (
            torch.from_numpy(array).to(self.model.device) for array in batch_arrays(chunk)
        )
        # Padding is on the right, so a causal model never attends to it.
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._to_logits(self._to_hidden(inputs).flatten(0, 1)[places])
        logits = logits.float()
        found = logits.log_softmax(dim=-1).gather(1, targets.long()[:, None])[:, 0]
        return _token_losses(objective, found, *of_tokens).sum(), found


def _split_head(model: Any) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Split the model before its head, so that logits are computed only where they are needed.

    If the two parts do not reproduce the model's output, as with scaled or capped logits, the whole model is the first
    part and the second does nothing.
    """
    body, head = model.get_decoder(), model.get_output_embeddings()

    def to_hidden(inputs: Tensor) -> Tensor:
        found: Tensor = body(inputs, use_cache=False).last_hidden_state
        return found

    def to_logits(inputs: Tensor) -> Tensor:
        found: Tensor = model(inputs, use_cache=False).logits
        return found

    tokens = torch.tensor([[0, 1, 2]], device=model.device)
    with torch.no_grad():
        try:
            same = torch.equal(head(to_hidden(tokens)), to_logits(tokens))
        except (TypeError, ValueError, AttributeError):
            same = False
    return (to_hidden, head) if same else (to_logits, lambda logits: logits)


def _token_losses(
    objective: Objective,
    found: Tensor,
    weights: Tensor,
    sampled: Tensor,
    base: Tensor,
    scales: Tensor,
    members: Tensor,
) -> Tensor:
    """Compute `gce.adapters.models.local.token_sequences.token_losses` in torch, with automatic differentiation."""
    losses = weights * -found
    if objective.clip is not None:
        ratio = pooled(objective, found - sampled, members).clamp(max=80.0).exp()
        losses = -torch.minimum(ratio * weights, ratio.clamp(*objective.bounds) * weights)
    if objective.kl:
        apart = (base - found).clamp(max=80.0)
        losses = losses + objective.kl * (apart.expm1() - apart)
    return losses * scales
