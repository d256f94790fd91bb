"""What a language model is: its identity by contents, its size and its capabilities."""

from __future__ import annotations

from typing import Any, Literal, get_args

from attrs import field, frozen, validators

__all__ = ["AUTO_PRECISION", "BFLOAT16", "CAPABILITIES", "FLOAT32", "Capability", "ModelInfo", "Precision"]

Precision = Literal["float32", "bfloat16", "auto"]
"""Of the matrix products with which a model samples; `auto` is whichever decodes faster."""
FLOAT32: Precision = "float32"
BFLOAT16: Precision = "bfloat16"
AUTO_PRECISION: Precision = "auto"

Capability = Literal["sample", "score", "learn", "probe"]
"""One for each Protocol of `gce.ports.model`: `Sampler`, `Scorer`, `Learner`, `Probe`."""
CAPABILITIES: frozenset[Capability] = frozenset(get_args(Capability))


@frozen
class ModelInfo:
    """Description of a model at one moment. Fields that a backend does not report keep their defaults."""

    identity: str = field(validator=validators.min_len(1))
    """Hash that names base model and adapter by contents: equal for equal weights, different once they change."""
    capabilities: frozenset[Capability]
    parameters: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    """Number of parameters in base model and adapter; a packed word of quantized weights counts once."""
    trainable_parameters: int = field(default=0, validator=validators.ge(0))
    """Number of parameters in the adapter."""
    layers: int = field(default=0, validator=validators.ge(0))
    """Number of transformer blocks."""
    adapted_layers: tuple[int, ...] = ()
    """0-based indices of the blocks with an adapter, counted from the input, in ascending order."""
    adapted_modules: tuple[str, ...] = ()
    """Full paths of the linear modules with an adapter."""
    context: int | None = field(default=None, validator=validators.optional(validators.ge(1)))
    """Context length: maximum tokens of prompt and completion together."""
    note: str = ""
    """A change to the model that its user may not expect; empty if there is none."""
    precision: str = ""
    """That of the products of its sampling, such as `bfloat16`; empty where it cannot be chosen."""
    template_date: str = ""
    """The date (ISO 8601) that its chat template reads; empty if it reads none."""

    greedy: bool = False
    """Whether what it answers at temperature 0 is known not to depend on the seed."""

    @trainable_parameters.validator
    def _part_of_all(self, _attribute: Any, value: int) -> None:
        if value > (self.parameters or 0):
            raise ValueError(f"expected at most as many trainable parameters as all, {self.parameters}, got {value}")

    @property
    def trainable_share(self) -> float:
        """Trainable parameters over all parameters, in [0, 1]; 0 if the total is unknown."""
        return self.trainable_parameters / self.parameters if self.parameters else 0.0
