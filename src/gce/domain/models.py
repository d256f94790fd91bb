"""What a language model is: its name by contents, its size, and what it can do."""

from __future__ import annotations

from typing import Any, Literal, get_args

from attrs import field, frozen, validators

__all__ = ["CAPABILITIES", "Capability", "ModelInfo"]

Capability = Literal["sample", "score", "learn", "probe"]
"""One for each Protocol of `gce.ports.model`: `Sampler`, `Scorer`, `Learner`, `Probe`."""
CAPABILITIES: frozenset[Capability] = frozenset(get_args(Capability))


@frozen
class ModelInfo:
    """What a model is at one moment. What a backend cannot tell has its default."""

    identity: str = field(validator=validators.min_len(1))
    """Names base and adapter by their contents: equal for equal weights, another once they change."""
    capabilities: frozenset[Capability]
    parameters: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    """Numbers in base and adapter; a packed word of quantized weights counts once."""
    trainable_parameters: int = field(default=0, validator=validators.ge(0))
    """Of these, numbers in the adapter."""
    layers: int = field(default=0, validator=validators.ge(0))
    """Transformer blocks."""
    adapted_layers: tuple[int, ...] = ()
    """Blocks with an adapter, from the input, 0-based, in ascending order."""
    adapted_modules: tuple[str, ...] = ()
    """Full paths of the linears that learn."""
    context: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    """Tokens that a prompt and its completion may have together."""
    note: str = ""
    """What was done to the model that its user may not expect; empty for nothing."""

    @trainable_parameters.validator
    def _part_of_all(self, _attribute: Any, value: int) -> None:
        if value > (self.parameters or 0):
            raise ValueError(f"expected at most as many trainable parameters as all, {self.parameters}, got {value}")

    @property
    def trainable_share(self) -> float:
        """Trainable parameters over all, from 0 to 1; 0 where their number is not known."""
        return self.trainable_parameters / self.parameters if self.parameters else 0.0
