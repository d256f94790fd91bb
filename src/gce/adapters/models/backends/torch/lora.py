"""A LoRA adapter of PEFT on a model of transformers, with its AdamW optimizer.

Its state has mlx-lm's layout. Works on weights and gradients, not on tokens or losses.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import Linear as LoraLinear
from torch import Tensor, nn

from gce.adapters.models.local.lora import (
    LoraSettings,
    OptimizerSettings,
    adapter_config,
    check_layers,
    check_same_shapes,
    first_values,
    placement,
    targeted,
)
from gce.adapters.models.local.token_sampling import Array
from gce.domain.learning import ModelState
from gce.errors import ModelError, one_line

__all__ = ["Adapter"]

_ADAPTER = "default"
_ADAM = {"m": "exp_avg", "v": "exp_avg_sq"}
"""Names of the optimizer's moments here and in torch."""


class Adapter:
    """The adapter on the linears of chosen blocks; there is none until `attach`."""

    def __init__(self, model: Any, lora: LoraSettings, settings: OptimizerSettings, *, seed: int) -> None:
        """Prepare an adapter for a frozen `model`; ModelError if the model has no list of blocks."""
        self.layers: tuple[int, ...] = ()
        """The adapted blocks."""
        self.modules: tuple[str, ...] = ()
        """Full paths of the adapted linears."""
        self.settings = settings
        self._prefix, self.blocks = _blocks_of(model)
        self._model = model
        self._lora = lora
        self._seed = seed
        self._optimizer: torch.optim.AdamW | None = None

    def attach(self, layers: Sequence[int], modules: Sequence[str] | None = None) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer.

        `modules` overrides the settings' target modules.
        """
        check_layers(layers, len(self.blocks))
        self.detach()
        linears = [path for layer in sorted(layers) for path in self._linears(layer)]
        paths = targeted(linears, modules or self._lora.target_modules)
        config = LoraConfig(
            r=self._lora.rank,
            lora_alpha=cast(Any, self._lora.scale * self._lora.rank),  # PEFT accepts a float here.
            lora_dropout=self._lora.dropout,
            target_modules=paths,
        )
        try:
            with torch.random.fork_rng(devices=[]):
                inject_adapter_in_model(config, self._model, _ADAPTER)
        except ValueError as error:
            what = ", ".join(paths) or "no linears"
            raise ModelError(f"PEFT cannot adapt {what}: {one_line(error)}") from error
        self.modules = tuple(path for path in paths if hasattr(self._model.get_submodule(path), "lora_A"))
        if left_out := sorted(set(paths) - set(self.modules)):
            self.detach()
            raise ModelError(
                f"PEFT does not adapt {left_out[0]}", hint="choose other linears with {lora.target_modules}"
            )
        self.layers, self.modules = tuple(sorted(layers)), tuple(paths)
        for path in paths:
            side = self._side(path, "lora_a")
            values = first_values(self._seed, path, (side.shape[1], side.shape[0]))
            side.data = torch.from_numpy(values.T.copy()).to(side.device)
            other = self._side(path, "lora_b")
            other.data = torch.zeros_like(other, dtype=torch.float32)
        self._model.eval()
        self._optimizer = self._new_optimizer()

    def detach(self) -> None:
        """Remove the adapter, which leaves the bare base."""
        for path in self.modules:
            parent, _, name = path.rpartition(".")
            setattr(self._model.get_submodule(parent), name, self._model.get_submodule(path).base_layer)
        self._model.__dict__.pop("peft_config", None)
        self.layers, self.modules, self._optimizer = (), (), None

    def parameters(self) -> dict[str, nn.Parameter]:
        """Return the adapter's matrices by full path, (outputs, inputs) as in torch."""
        return {f"{path}.{side}": self._side(path, side) for path in self.modules for side in ("lora_a", "lora_b")}

    def flat(self) -> Tensor:
        """Return a copy of all matrices as one array."""
        return torch.cat([parameter.detach().ravel() for parameter in self.parameters().values()])

    def place(self, flat: Tensor) -> None:
        """Take the matrices from such an array."""
        for parameter, part in self._parts(flat):
            parameter.data.copy_(part)

    def take_gradients(self) -> Tensor:
        """Return the gradients as one array, and set them to zero."""
        parameters = self.parameters().values()
        # An expert that no token reached has none.
        found = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).ravel() for p in parameters])
        for parameter in parameters:
            parameter.grad = None
        return found

    def step(self, gradients: Tensor, *, rate: float) -> float:
        """Take one optimizer step on gradients as one array, at `rate` times the learning rate.

        Returns their global norm before clipping.
        """
        assert self._optimizer is not None
        for parameter, part in self._parts(gradients):
            parameter.grad = part.float()
        parameters = list(self.parameters().values())
        norms = torch.stack([torch.linalg.vector_norm(p.grad) for p in parameters])
        norm: float = torch.linalg.vector_norm(norms).item()
        most = self.settings.max_gradient_norm
        if most is not None and norm > most:
            for parameter in parameters:
                parameter.grad *= most / norm
        for group in self._optimizer.param_groups:
            group["lr"] = rate * self.settings.learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad()
        return norm

    def digest(self, base: str) -> str:
        """Return the SHA-256 of the base's digest and the adapter."""
        found = hashlib.sha256(f"{base} {self._lora.scale!r}".encode())
        for name, parameter in sorted(self.parameters().items()):
            found.update(name.encode())
            found.update(_turned(parameter).tobytes())
        return found.hexdigest()

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer, in mlx-lm's layout."""
        config = adapter_config(self._lora, self.layers, self.modules)
        return ModelState(arrays=self._arrays(), settings={"layers": list(self.layers), "adapter_config": config})

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; if no block is adapted yet, adapt those of the state."""
        attached = bool(self.layers)
        if not attached and state.settings.get("layers"):
            self.attach(*placement(state))
        try:
            check_same_shapes(self._arrays(), state, self.layers)
        except ValueError:
            if not attached:
                self.detach()
            raise
        if self._optimizer is None:
            return
        step = torch.tensor(float(state.arrays["optimizer.step"]))
        for name, parameter in self.parameters().items():
            values = state.arrays[f"adapter.{name}"]
            parameter.data = torch.from_numpy(values.T.copy()).to(parameter.device)
            moments = {
                theirs: torch.from_numpy(state.arrays[f"optimizer.{name}.{ours}"].T.copy()).to(parameter.device)
                for ours, theirs in _ADAM.items()
            }
            self._optimizer.state[parameter] = {"step": step.clone(), **moments}

    def merged(self) -> Any:
        """Return a model for sampling with the adapter merged into float32 linears; it shares the base's tensors.

        Later updates do not change it. Linears of lower precision keep separate adapters, which rounding would destroy.
        """
        shared = {id(tensor): tensor for tensor in (*self._model.parameters(), *self._model.buffers())}
        for parameter in self.parameters().values():
            del shared[id(parameter)]
        twin = copy.deepcopy(self._model, shared)
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
    def off(self) -> Iterator[None]:
        """Turn off the adapter within the context."""
        layers: list[Any] = [self._model.get_submodule(path) for path in self.modules]
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
    def training(self, steps: int, number: int) -> Iterator[None]:
        """Train within the context, with dropout seeded by the steps so far and the number of the pass."""
        if not self._lora.dropout:
            yield
            return
        layers: list[Any] = [self._model.get_submodule(path) for path in self.modules]
        device = self._model.device
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(np.random.SeedSequence([self._seed, steps, number]).generate_state(1, np.uint64).item())
            for layer in layers:
                layer.train()
            try:
                yield
            finally:
                self._model.eval()

    def _linears(self, layer: int) -> list[str]:
        """Return the full paths of the linears of one block."""
        found = {path for path, module in self.blocks[layer].named_modules() if isinstance(module, nn.Linear)}
        return [f"{self._prefix}.{layer}.{path}" for path in sorted(found)]

    def _new_optimizer(self) -> torch.optim.AdamW:
        return torch.optim.AdamW(
            self.parameters().values(),
            lr=self.settings.learning_rate,
            betas=self.settings.betas,
            eps=self.settings.epsilon,
            weight_decay=self.settings.weight_decay,
        )

    def _side(self, path: str, side: str) -> nn.Parameter:
        """Return one of the two matrices of a linear, (outputs, inputs) as in torch."""
        layer = self._model.get_submodule(path)
        found: nn.Parameter = (layer.lora_A if side == "lora_a" else layer.lora_B)[_ADAPTER].weight
        return found

    def _parts(self, flat: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Yield each matrix with its part of an array of all of them."""
        parameters = list(self.parameters().values())
        parts = flat.split([parameter.numel() for parameter in parameters])
        for parameter, part in zip(parameters, parts, strict=True):
            yield parameter, part.view_as(parameter)

    def steps(self) -> int:
        """Return the number of optimizer steps so far."""
        states = {} if self._optimizer is None else self._optimizer.state
        return max((int(found["step"]) for found in states.values()), default=0)

    def _arrays(self) -> dict[str, Array]:
        parameters = self.parameters()
        states = {} if self._optimizer is None else self._optimizer.state
        arrays: dict[str, Array] = {"optimizer.step": np.array(self.steps(), np.uint64)}
        for name, parameter in parameters.items():
            arrays[f"adapter.{name}"] = _turned(parameter)
            for ours, theirs in _ADAM.items():
                moment = states.get(parameter, {}).get(theirs)
                arrays[f"optimizer.{name}.{ours}"] = _turned(torch.zeros_like(parameter) if moment is None else moment)
        return arrays


def _blocks_of(model: Any) -> tuple[str, Any]:
    """Return the path and the list of the transformer blocks."""
    found = [
        (path, module)
        for path, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == model.config.get_text_config().num_hidden_layers
    ]
    if not found:
        raise ModelError(f"expected a model with a list of blocks, {type(model).__name__} has none")
    return found[0]


def _turned(tensor: Tensor) -> Array:
    """Transpose (outputs, inputs) to (inputs, outputs)."""
    array: Array = tensor.detach().float().cpu().numpy().T.copy()
    return array


def _sum(layer: LoraLinear) -> Tensor:
    weight: Tensor = layer.base_layer.weight
    a, b = layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight
    return (weight + layer.scaling[_ADAPTER] * (b @ a)).detach()
