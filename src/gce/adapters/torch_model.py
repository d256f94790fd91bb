"""A causal language model of transformers with a LoRA adapter of PEFT: the engine of `LocalModel` on torch.

On CUDA where there is one, else on Apple's GPU or the CPU. The adapter's state has mlx-lm's layout, so that a
checkpoint goes on in either backend. Knows tokens, not text.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from gce.adapters.continuous_batching import roll_out
from gce.adapters.draws import Array
from gce.adapters.durable_files import write_file
from gce.adapters.examples import Example, Objective, batch_arrays, passes
from gce.adapters.local_model import LocalModel, RollOut
from gce.adapters.lora import LoraSettings, OptimizerSettings, adapter_config, check_same_shapes, first_values
from gce.adapters.model_files import check_speaks, directory_digest, find_directory
from gce.domain.types import LayerActivation, ModelState
from gce.errors import MissingExtra, ModelError, one_line

try:
    import torch
    from peft import LoraConfig, inject_adapter_in_model
    from peft.tuners.lora import Linear as LoraLinear
    from torch import Tensor, nn
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from gce.adapters.torch_decoder import decoder_maker
except ImportError as error:
    raise MissingExtra((error.name or "torch").split(".")[0], "hf") from error

__all__ = ["TorchEngine", "load_torch_model"]

_ADAPTER = "default"
_ADAM = {"m": "exp_avg", "v": "exp_avg_sq"}
"""Names of the optimizer's moments here and in torch."""


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
    """Load a model from a directory in the Hugging Face layout, or from the hub by its name.

    Args:
        path_or_repo: a directory with config.json, model*.safetensors and a tokenizer's files.
        device: `cpu` forces the CPU; None takes an accelerator where there is one.
        lora: the adapter's shape; blocks may also be chosen later, by `LocalModel.attach`.
        optimizer: how the adapter learns.
        seed: of the adapter's initial values and dropout.
        max_batch: sequences that are sampled in one batch, at most.
        threads: of work on the CPU; None leaves them to torch. Their number may change last bits of results.

    Weights are float32 on a CPU, elsewhere as they are stored; the adapter is float32 everywhere.
    Raises ModelError where there is no such model, or it cannot be used.
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
    except Exception as error:  # What a damaged or foreign file raises is up to the vendor.
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
    context = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    return LocalModel(engine, tokenizer, end=tokenizer.eos_token_id, stop=stops, context=context)


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Without the bars that transformers draws while it loads."""
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
    """Base and adapter in torch. See `gce.adapters.local_model.Engine`."""

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
        self.layers: tuple[int, ...] = ()
        """The adapted blocks."""
        self.modules: tuple[str, ...] = ()
        """Full paths of the linears that learn."""
        self._lora = lora
        self._settings = optimizer
        self._digest = digest
        self._seed = seed
        self._max_batch = max_batch
        self._base_size = sum(parameter.numel() for parameter in model.parameters())
        self._prefix, self._blocks = _blocks_of(model)
        self._to_hidden, self._to_logits = _split_head(model)
        self._optimizer: torch.optim.AdamW | None = None
        if lora.layers:
            self.attach(lora.layers)

    @property
    def blocks(self) -> int:
        """How many transformer blocks there are."""
        return len(self._blocks)

    @property
    def trainable_parameters(self) -> int:
        """Numbers in the adapter."""
        return sum(parameter.numel() for parameter in self._parameters().values())

    @property
    def total_parameters(self) -> int:
        """Numbers in base and adapter."""
        return int(self._base_size) + self.trainable_parameters

    def digest(self) -> str:
        """SHA-256 over the base's files and the adapter."""
        found = hashlib.sha256(f"{self._digest} {self._lora.scale!r}".encode())
        for name, parameter in sorted(self._parameters().items()):
            found.update(name.encode())
            found.update(_turned(parameter).tobytes())
        return found.hexdigest()

    def attach(self, layers: Sequence[int]) -> None:
        """Adapt these blocks alone, from fresh initial values and with a fresh optimizer."""
        if len(set(layers)) != len(layers) or not all(0 <= layer < self.blocks for layer in layers):
            raise ModelError(f"expected different blocks from 0 to {self.blocks - 1}, got {list(layers)!r}")
        self._detach()
        paths = [path for layer in sorted(layers) for path in self._linears(layer)]
        config = LoraConfig(
            r=self._lora.rank,
            lora_alpha=cast(Any, self._lora.scale * self._lora.rank),  # Any number will do.
            lora_dropout=self._lora.dropout,
            target_modules=paths,
        )
        try:
            with torch.random.fork_rng(devices=[]):
                inject_adapter_in_model(config, self.model, _ADAPTER)
        except ValueError as error:
            what = ", ".join(paths) or "no linears"
            raise ModelError(f"PEFT cannot adapt {what}: {one_line(error)}") from error
        self.layers, self.modules = tuple(sorted(layers)), tuple(paths)
        for path in paths:
            side = self._side(path, "lora_a")
            values = first_values(self._seed, path, (side.shape[1], side.shape[0]))
            side.data = torch.from_numpy(values.T.copy()).to(side.device)
            other = self._side(path, "lora_b")
            other.data = torch.zeros_like(other, dtype=torch.float32)
        self.model.eval()
        self._optimizer = self._new_optimizer()

    def sampler(self, stop: frozenset[int]) -> RollOut:
        """What samples from the model as it is now; later updates do not reach it."""
        make = decoder_maker(self._merged())
        return lambda jobs: roll_out(jobs, make, stop=stop, max_rows=self._max_batch)

    def scores(self, tokens: Sequence[int], start: int, *, adapter: bool) -> tuple[float, ...]:
        """Log-probabilities of the tokens from `start` on."""
        row = torch.tensor([list(tokens)], device=self.model.device)
        with contextlib.nullcontext() if adapter else self._off(), torch.no_grad():
            logits = self.model(row[:, :-1], use_cache=False).logits[0, start - 1 :].float()
        found = logits.log_softmax(dim=-1).gather(1, row[0, start:, None])[:, 0]
        return tuple(found.tolist())

    def step(self, examples: Sequence[Example], objective: Objective, *, rate: float) -> tuple[float, float]:
        """See `gce.adapters.local_model.Engine`."""
        assert self._optimizer is not None
        self._optimizer.zero_grad()
        trained = sum(len(example.tokens) - example.start for example in examples)
        total = 0.0
        with self._training():
            for chunk in passes(examples, self._settings.tokens_per_pass):
                loss = self._loss(chunk, objective) / trained
                loss.backward()
                total += loss.item()
        parameters = list(self._parameters().values())
        norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.grad) for p in parameters])).item()
        most = self._settings.max_gradient_norm
        if most is not None and norm > most:
            for parameter in parameters:
                parameter.grad *= most / norm
        for group in self._optimizer.param_groups:
            group["lr"] = rate * self._settings.learning_rate
        self._optimizer.step()
        return total, norm

    def state(self) -> ModelState:
        """A copy of adapter and optimizer, in mlx-lm's layout."""
        config = adapter_config(self._lora, self.layers, self.modules)
        return ModelState(arrays=self._arrays(), settings={"layers": list(self.layers), "adapter_config": config})

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; where no block is adapted yet, those of the state are."""
        attached = bool(self.layers)
        if not attached and state.settings.get("layers"):
            self.attach([int(layer) for layer in state.settings["layers"]])
        try:
            check_same_shapes(self._arrays(), state, self.layers)
        except ValueError:
            if not attached:
                self._detach()
            raise
        if self._optimizer is None:
            return
        step = torch.tensor(float(state.arrays["optimizer.step"]))
        for name, parameter in self._parameters().items():
            values = state.arrays[f"adapter.{name}"]
            parameter.data = torch.from_numpy(values.T.copy()).to(parameter.device)
            moments = {
                theirs: torch.from_numpy(state.arrays[f"optimizer.{name}.{ours}"].T.copy()).to(parameter.device)
                for ours, theirs in _ADAM.items()
            }
            self._optimizer.state[parameter] = {"step": step.clone(), **moments}

    def block_statistics(self, sequences: Iterable[Sequence[int]]) -> tuple[LayerActivation, ...]:
        """What each block does with token sequences, adapter off."""
        sums = np.zeros((self.blocks, 2))
        numbers = 0

        def watch(layer: int) -> Any:
            def seen(_module: Any, given: Any, named: Any, out: Any) -> None:
                into = given[0] if given else named["hidden_states"]
                out = out[0] if isinstance(out, tuple) else out
                out, into = out.float(), into.float()
                sums[layer] += [out.square().sum().item(), (out - into).square().sum().item()]

            return seen

        hooks = [block.register_forward_hook(watch(i), with_kwargs=True) for i, block in enumerate(self._blocks)]
        try:
            with self._off(), torch.no_grad():
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

    def write(self, directory: str) -> None:
        """Write the adapter so that `mlx_lm.load(base, adapter_path=directory)` reads it."""
        from safetensors.numpy import save

        root = Path(directory)
        root.mkdir(parents=True, exist_ok=True)
        arrays = {name: _turned(parameter) for name, parameter in sorted(self._parameters().items())}
        write_file(root / "adapters.safetensors", save(arrays))
        config = adapter_config(self._lora, self.layers, self.modules)
        write_file(root / "adapter_config.json", (json.dumps(config, indent=2) + "\n").encode())

    def _linears(self, layer: int) -> list[str]:
        """Full paths of the linears of one block that are to be adapted."""
        block = self._blocks[layer]
        found = {path for path, module in block.named_modules() if isinstance(module, nn.Linear)}
        keys = sorted(found) if self._lora.keys is None else self._lora.keys
        unknown = [key for key in keys if key not in found]
        if unknown:
            raise ModelError(f"expected linears of block {layer} among {', '.join(sorted(found))}, got {unknown!r}")
        return [f"{self._prefix}.{layer}.{key}" for key in keys]

    def _detach(self) -> None:
        for path in self.modules:
            parent, _, name = path.rpartition(".")
            setattr(self.model.get_submodule(parent), name, self.model.get_submodule(path).base_layer)
        self.model.__dict__.pop("peft_config", None)
        self.layers, self.modules, self._optimizer = (), (), None

    def _new_optimizer(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            self._parameters().values(),
            lr=self._settings.learning_rate,
            betas=self._settings.betas,
            eps=self._settings.epsilon,
            weight_decay=self._settings.weight_decay,
        )

    def _side(self, path: str, side: str) -> nn.Parameter:
        """One of the two matrices of a linear, (outputs, inputs) as torch has them."""
        layer = self.model.get_submodule(path)
        found: nn.Parameter = (layer.lora_A if side == "lora_a" else layer.lora_B)[_ADAPTER].weight
        return found

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {f"{path}.{side}": self._side(path, side) for path in self.modules for side in ("lora_a", "lora_b")}

    def _steps(self) -> int:
        """Optimizer steps so far."""
        states = {} if self._optimizer is None else self._optimizer.state
        return max((int(found["step"]) for found in states.values()), default=0)

    def _arrays(self) -> dict[str, Array]:
        parameters = self._parameters()
        states = {} if self._optimizer is None else self._optimizer.state
        arrays: dict[str, Array] = {"optimizer.step": np.array(self._steps(), np.uint64)}
        for name, parameter in parameters.items():
            arrays[f"adapter.{name}"] = _turned(parameter)
            for ours, theirs in _ADAM.items():
                moment = states.get(parameter, {}).get(theirs)
                arrays[f"optimizer.{name}.{ours}"] = _turned(torch.zeros_like(parameter) if moment is None else moment)
        return arrays

    def _loss(self, chunk: Sequence[Example], objective: Objective) -> Tensor:
        """The sum of the losses of all trained tokens of a chunk."""
        inputs, places, targets, weights, sampled, base = (
            torch.from_numpy(array).to(self.model.device) for array in batch_arrays(chunk)
        )
        # Padding stands on the right, so a causal model never looks at it.
        logits = self._to_logits(self._to_hidden(inputs).flatten(0, 1)[places]).float()
        found = logits.log_softmax(dim=-1).gather(1, targets.long()[:, None])[:, 0]
        return _token_losses(objective, found, weights, sampled, base).sum()

    def _merged(self) -> Any:
        """A model for sampling that shares the base's tensors, with float32 linears and their adapters made one.

        Later updates do not change it. Weights of fewer bits keep their adapters, which would drown in rounding.
        """
        shared = {id(tensor): tensor for tensor in (*self.model.parameters(), *self.model.buffers())}
        for parameter in self._parameters().values():
            del shared[id(parameter)]
        twin = copy.deepcopy(self.model, shared)
        for path in self.modules:
            layer: Any = twin.get_submodule(path)
            if layer.base_layer.weight.dtype != torch.float32:
                continue
            linear = nn.Linear(1, 1, bias=False, device="meta")
            linear.weight = nn.Parameter(_sum(layer), requires_grad=False)
            linear.bias = layer.base_layer.bias
            parent, _, name = path.rpartition(".")
            setattr(twin.get_submodule(parent), name, linear)
        return twin.eval()

    @contextlib.contextmanager
    def _off(self) -> Iterator[None]:
        """The model answers as the bare base inside."""
        layers: list[Any] = [self.model.get_submodule(path) for path in self.modules]
        for layer in layers:
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in layers:
                layer.enable_adapters(True)
                layer.requires_grad_(True)
                layer.base_layer.requires_grad_(False)

    @contextlib.contextmanager
    def _training(self) -> Iterator[None]:
        """Dropout is on inside, drawn from the seed and the number of steps taken."""
        if not self._lora.dropout:
            yield
            return
        layers: list[Any] = [self.model.get_submodule(path) for path in self.modules]
        with torch.random.fork_rng():
            torch.manual_seed(self._seed + (self._steps() << 32))
            for layer in layers:
                layer.train()
            try:
                yield
            finally:
                self.model.eval()


def _blocks_of(model: Any) -> tuple[str, Any]:
    """The list of transformer blocks, and its path."""
    found = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == model.config.get_text_config().num_hidden_layers
    ]
    if not found:
        raise ModelError(f"expected a model with a list of blocks, {type(model).__name__} has none")
    return found[0]


def _split_head(model: Any) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Tokens to hidden states and hidden states to logits, so that logits are computed only where they are needed.

    Where the two do not give what the model gives, as with scaled or capped logits, the whole model is the first and
    the second does nothing.
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


def _turned(tensor: Tensor) -> Array:
    """(outputs, inputs) as (inputs, outputs)."""
    array: Array = tensor.detach().float().cpu().numpy().T.copy()
    return array


def _sum(layer: LoraLinear) -> Tensor:
    weight: Tensor = layer.base_layer.weight
    a, b = layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight
    return (weight + layer.scaling[_ADAPTER] * (b @ a)).detach()


def _token_losses(objective: Objective, found: Tensor, weights: Tensor, sampled: Tensor, base: Tensor) -> Tensor:
    """See `gce.adapters.examples.token_losses`; torch finds the slopes itself."""
    losses = weights * -found
    if objective.clip is not None:
        ratio = (found - sampled).clamp(max=80.0).exp()
        losses = -torch.minimum(ratio * weights, ratio.clamp(1 - objective.clip, 1 + objective.clip) * weights)
    if objective.kl:
        apart = (base - found).clamp(max=80.0)
        losses = losses + objective.kl * (apart.expm1() - apart)
    return losses
