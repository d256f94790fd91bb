"""A LoRA adapter on chosen blocks of an mlx-lm model: layers, optimizer, state and files.

The base stays frozen and unchanged. Layers are mlx-lm's own `LoRALinear`, addressed by full module path, so blocks need
not be contiguous and `mlx_lm.load(base, adapter_path=...)` can read the files. Works on modules and arrays; independent
of text, traces and how gradients are computed.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.lora import LoRALinear
from mlx_lm.tuner.utils import remove_lora_layers

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
from gce.domain.learning import ModelState

__all__ = ["Adapter", "twin"]


class Adapter:
    """The trainable part of one model."""

    def __init__(self, model: nn.Module, lora: LoraSettings, optimizer: OptimizerSettings, *, seed: int) -> None:
        self.model = model
        self.lora = lora
        self.settings = optimizer
        self.layers: tuple[int, ...] = ()
        self.modules: tuple[str, ...] = ()
        """Full paths of the adapted linears."""
        self._seed = seed
        self._optimizer = self._new_optimizer()
        model.freeze()
        if lora.layers:
            self.attach(lora.layers)

    def attach(self, layers: Sequence[int], modules: Sequence[str] | None = None) -> None:
        """Adapt these blocks only, with a newly initialised adapter and optimizer.

        The initial values depend only on the seed and the module's path. `modules` overrides the settings' target
        modules.

        Raises:
            ModelError: a block does not exist, and nothing changes; or a linear does not exist, and nothing is adapted.
        """
        check_layers(layers, len(self.model.layers))
        self.detach()
        linears = {path: module for layer in sorted(layers) for path, module in self._linears(layer).items()}
        found = targeted(linears, modules or self.lora.target_modules)
        with _random_state_untouched():
            adapted = {path: self._new_layer(path, linears[path]) for path in found}
        self.model.update_modules(tree_unflatten(list(adapted.items())))
        self.model.eval()
        self.layers, self.modules = tuple(sorted(layers)), tuple(found)
        self._optimizer.init(self.parameters())
        mx.eval(self.parameters(), self._optimizer.state)

    def detach(self) -> None:
        """Remove the adapter, which leaves the bare base."""
        remove_lora_layers(self.model)
        self.layers, self.modules = (), ()
        self._optimizer = self._new_optimizer()

    def parameters(self) -> dict[str, mx.array]:
        """Return the adapter's arrays by full path."""
        return _flat(self.model.trainable_parameters())

    def step(self, gradients: Mapping[str, mx.array], *, norm: float, rate: float) -> None:
        """Take one optimizer step on gradients by full path, of norm `norm`, at `rate` times the learning rate."""
        most = self.settings.max_gradient_norm
        if most is not None and norm > most:
            gradients = {path: gradient * (most / norm) for path, gradient in gradients.items()}
        self._optimizer.learning_rate = rate * self.settings.learning_rate
        moved = self._optimizer.apply_gradients(dict(gradients), self.parameters())
        self.model.update(tree_unflatten(list(moved.items())))
        mx.eval(self.parameters(), self._optimizer.state)

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """Turn on dropout within the context, seeded by the seed and the number of steps taken."""
        if not self.lora.dropout:
            yield
            return
        with _random_state_untouched():
            mx.random.seed(int(np.random.Philox([self._seed, int(self._optimizer.step)]).random_raw()) >> 1)
            for layer in self._layers():
                layer.dropout.train()
            try:
                yield
            finally:
                self.model.eval()

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Turn off the adapter within the context."""
        layers = self._layers()
        scales = [layer.scale for layer in layers]
        for layer in layers:
            layer.scale = 0.0
        try:
            yield
        finally:
            for layer, scale in zip(layers, scales, strict=True):
                layer.scale = scale

    def merged(self) -> nn.Module:
        """Return a model for sampling with the adapter merged into float32 linears; it shares the base's arrays.

        Later updates do not change it. Linears of lower precision keep separate adapters, which rounding would destroy.
        """
        merged = twin(self.model)
        layers = {path: module for path, module in merged.named_modules() if isinstance(module, LoRALinear)}
        with _random_state_untouched():
            fused = [(p, m.fuse()) for p, m in layers.items() if m.linear.weight.dtype == mx.float32]
        if fused:
            merged.update_modules(tree_unflatten(fused))
        mx.eval(merged.parameters())
        return merged

    def digest(self) -> str:
        """Return the SHA-256 of the adapter: paths, scale and arrays."""
        found = hashlib.sha256(repr(self.lora.scale).encode())
        for path, array in sorted(self.parameters().items()):
            found.update(path.encode())
            found.update(np.array(array).tobytes())
        return found.hexdigest()

    def state(self) -> ModelState:
        """Return a copy of adapter and optimizer."""
        config = adapter_config(self.lora, self.layers, self.modules)
        return ModelState(
            arrays={name: np.array(array) for name, array in self._arrays().items()},
            settings={"layers": list(self.layers), "adapter_config": config},
        )

    def restore(self, state: ModelState) -> None:
        """Continue from `state`; if no block is adapted yet, adapt those of the state."""
        attached = bool(self.layers)
        if not attached and state.settings.get("layers"):
            self.attach(*placement(state))
        try:
            self._check(state)
        except ValueError:
            if not attached:
                self.detach()
            raise
        arrays = {name: mx.array(array) for name, array in state.arrays.items()}
        kept = {name.removeprefix("adapter."): array for name, array in arrays.items() if name.startswith("adapter.")}
        self.model.update(tree_unflatten(list(kept.items())))
        optimizer = {path: {k: arrays[f"optimizer.{path}.{k}"] for k in self._optimizer.state[path]} for path in kept}
        self._optimizer.state.update(optimizer, step=arrays["optimizer.step"])
        mx.eval(self.parameters(), self._optimizer.state)

    def _new_optimizer(self) -> optimizers.AdamW:
        return optimizers.AdamW(
            learning_rate=self.settings.learning_rate,
            betas=list(self.settings.betas),
            eps=self.settings.epsilon,
            weight_decay=self.settings.weight_decay,
            bias_correction=True,
        )

    def _layers(self) -> list[LoRALinear]:
        return [module for _, module in self.model.named_modules() if isinstance(module, LoRALinear)]

    def _linears(self, layer: int) -> dict[str, nn.Module]:
        """Return the linears of one block by full path."""
        block = self.model.layers[layer]
        prefix = next(path for path, module in self.model.named_modules() if module is block)
        linears = {p: m for p, m in block.named_modules() if isinstance(m, nn.Linear | nn.QuantizedLinear)}
        # A router of experts is no linear in transformers, so PEFT could not read an adapter on it.
        linears = {p: m for p, m in linears.items() if p.rpartition(".")[2] not in ("gate", "router")}
        return {f"{prefix}.{path}": linears[path] for path in sorted(linears)}

    def _new_layer(self, path: str, linear: Any) -> LoRALinear:
        layer: LoRALinear = LoRALinear.from_base(
            linear, r=self.lora.rank, dropout=self.lora.dropout, scale=self.lora.scale
        )
        layer.lora_a = mx.array(first_values(self._seed, path, layer.lora_a.shape))
        return layer

    def _arrays(self) -> dict[str, mx.array]:
        state = self._optimizer.state
        arrays = {"optimizer.step": state["step"]}
        for path, array in self.parameters().items():
            arrays[f"adapter.{path}"] = array
            arrays.update({f"optimizer.{path}.{name}": moment for name, moment in state[path].items()})
        return arrays

    def _check(self, state: ModelState) -> None:
        check_same_shapes({name: np.array(array) for name, array in self._arrays().items()}, state, self.layers)


def twin(model: nn.Module) -> nn.Module:
    """Return a copy of the modules, which share the model's arrays."""
    found: nn.Module = copy.deepcopy(model, {id(array): array for array in _flat(model.parameters()).values()})
    return found


@contextlib.contextmanager
def _random_state_untouched() -> Iterator[None]:
    """Restore mlx's global generator afterwards."""
    state: Any = mx.random.state
    (key,) = state
    high, low = np.array(key).tolist()
    try:
        yield
    finally:
        mx.random.seed(high << 32 | low)  # A seed equals its key as two words.


def _flat(tree: Any) -> dict[str, mx.array]:
    """Return arrays by full path."""
    return dict(tree_flatten(tree))
