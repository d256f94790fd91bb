"""The torch backend for `LocalModel`: a causal language model of transformers with a LoRA adapter of PEFT.

Runs on CUDA if available, otherwise on Apple's GPU or the CPU. `lora` holds the adapter, whose state has mlx-lm's
layout, so a checkpoint can be continued with either backend. Works on tokens, not text.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gce.adapters.models.formats.model_files import check_speaks, directory_digest, find_directory
from gce.adapters.models.local.continuous_batching import roll_out
from gce.adapters.models.local.lora import LoraSettings, OptimizerSettings
from gce.adapters.models.local.model import LocalModel, RollOut
from gce.adapters.models.local.token_sampling import Array
from gce.adapters.models.local.token_sequences import Example, Scored, batch_arrays, passes, pooled, scored
from gce.domain.learning import LayerActivation, ModelState, Objective
from gce.errors import MissingExtra, ModelError, one_line

try:
    import torch
    from torch import Tensor
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from gce.adapters.models.backends.torch.decoder import decoder_maker
    from gce.adapters.models.backends.torch.lora import Adapter
except ImportError as error:
    raise MissingExtra((error.name or "torch").split(".")[0], "hf") from error

__all__ = ["TorchEngine", "load_torch_model"]


def load_torch_model(
    path_or_repo: str | Path,
    *,
    device: Literal["cpu"] | None = None,
    lora: LoraSettings | None = None,
    optimizer: OptimizerSettings | None = None,
    seed: int = 0,
    max_batch: int = 128,
    threads: int | None = None,
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

    Weights are float32 on a CPU, and elsewhere as stored; the adapter is always float32.

    Raises:
        ModelError: the model does not exist or cannot be used.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    name, directory = str(path_or_repo), find_directory(path_or_repo)
    place = torch.device("cpu" if device == "cpu" else _accelerator())
    try:
        tokenizer = AutoTokenizer.from_pretrained(directory)
        kind = torch.float32 if place.type == "cpu" else "auto"
        with _no_bars():
            model = AutoModelForCausalLM.from_pretrained(directory, dtype=kind, use_safetensors=True).to(place)
    except Exception as error:  # The vendor may raise anything for a damaged or foreign file.
        raise ModelError(f"could not load a model from {name!r}: {one_line(error)}") from error
    check_speaks(name, template=bool(tokenizer.chat_template), end=tokenizer.eos_token_id)
    engine = TorchEngine(
        model,
        lora or LoraSettings(),
        optimizer or OptimizerSettings(),
        digest=directory_digest(directory),
        seed=seed,
        max_batch=max_batch,
    )
    stop = model.generation_config.eos_token_id
    stops = {tokenizer.eos_token_id, *(stop if isinstance(stop, list) else [] if stop is None else [stop])}
    context = getattr(model.config, "max_position_embeddings", None) or None
    return LocalModel(engine, tokenizer, end=tokenizer.eos_token_id, stop=stops, context=context)


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Turn off transformers' progress bars within the context."""
    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()


def _accelerator() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


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
    ) -> None:
        self.model = model.eval().requires_grad_(False)
        self._digest = digest
        self._max_batch = max_batch
        self._base_size = sum(parameter.numel() for parameter in model.parameters())
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

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer."""
        self._adapter.attach(layers)

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """Return a sampler of the model in its current state; later updates do not affect it."""
        make = decoder_maker(self._adapter.merged())
        return lambda jobs: roll_out(jobs, make, stop=stop, max_rows=self._max_batch)

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
        total, scores = 0.0, Scored()
        with self._adapter.training():
            for chunk in passes(examples, self._adapter.settings.tokens_per_pass):
                losses, found = self._loss(chunk, objective)
                loss = losses / trained
                loss.backward()
                total += loss.item()
                scores += scored(chunk, found.detach().cpu().numpy())
        return total, self._adapter.step(rate=rate), scores

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

    def _loss(self, chunk: Sequence[Example], objective: Objective) -> tuple[Tensor, Tensor]:
        """Return the sum of the losses of all trained tokens of a chunk, and their log-probabilities."""
        inputs, places, targets, *of_tokens = (
            torch.from_numpy(array).to(self.model.device) for array in batch_arrays(chunk)
        )
        # Padding is on the right, so a causal model never attends to it.
        logits = self._to_logits(self._to_hidden(inputs).flatten(0, 1)[places]).float()
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
