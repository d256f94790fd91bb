"""A model, and the adapters that it takes by name. Knows nothing of HTTP, and is used by one thread."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from attrs import evolve, frozen

from gce.app.evaluation.checkpoints import arrays_digest, shape_of
from gce.domain.completions import Completion, SampleRequest
from gce.domain.learning import ModelState
from gce.errors import BadInput, GceError, one_line
from gce.ports.model import Adaptable, Learner, Probe, Sampler

__all__ = ["AdaptableSampler", "OtherWeights", "Policy", "UnknownModel"]

MOST_ADAPTERS = 8
"""Held at a time; the one that was loaded first goes first."""
ADAPTER = "adapter."


class AdaptableSampler(Sampler, Adaptable, Protocol):
    """A model that can be served."""


class UnknownModel(Exception):
    """No adapter of this name is loaded, and the base is not called so."""


class OtherWeights(Exception):
    """Another adapter has this name already."""


@frozen(eq=False)
class _Held:
    """An adapter that is loaded."""

    state: ModelState
    digest: str
    identity: str
    """Of the model with it."""


class Policy:
    """A base model called `name`, with the adapters that were loaded."""

    def __init__(self, model: AdaptableSampler, name: str) -> None:
        self.name = name
        self.model = model
        self._base = model.info().identity
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._on = name
        """Whose weights the model has now; empty if that is not known."""
        self._last: ModelState | None = None

    def models(self) -> dict[str, str]:
        """Return the identity of each model: the base, and the base with each adapter."""
        return {self.name: self._base, **{name: held.identity for name, held in self._held.items()}}

    def load(self, name: str, state: ModelState) -> str:
        """Hold an adapter under a name; return the identity of the model with it. The same adapter again is no change.

        Raises:
            OtherWeights: the name is taken.
            BadInput: the adapter does not fit the model; nothing is held.
        """
        digest = hashlib.sha256(f"{arrays_digest(state)} {json.dumps(state.settings, sort_keys=True)}".encode())
        held = self._held.get(name)
        if name == self.name or (held is not None and held.digest != digest.hexdigest()):
            raise OtherWeights(name)
        if held is None:
            self._put_on(name, state)
            held = self._held[name] = _Held(state, digest.hexdigest(), self.model.info().identity)
            while len(self._held) > MOST_ADAPTERS:
                self._held.popitem(last=False)
        return held.identity

    def unload(self, name: str) -> None:
        """Forget an adapter. UnknownModel if there is none of this name."""
        if self._held.pop(name, None) is None:
            raise UnknownModel(name)

    def sample(self, name: str, requests: Sequence[SampleRequest]) -> Iterator[Completion]:
        """Return completions by the model of this name. UnknownModel if there is none."""
        if name != self.name and name not in self._held:
            raise UnknownModel(name)
        if name != self._on:
            self._put_on(name, self._held[name].state if name in self._held else self._nothing_learned())
        identity = self.models()[name]  # Of the base too, which has an adapter of zeros once it has had another.
        return (evolve(completion, policy=identity) for completion in self.model.sample(requests))

    def _put_on(self, name: str, state: ModelState) -> None:
        """Give the model an adapter. BadInput if it does not fit."""
        if isinstance(self.model, Learner):
            self._on = ""  # Blocks may be adapted before the adapter is refused.
        try:
            self.model.restore(self._whole(state))
        except GceError as error:
            raise BadInput(f"the adapter does not fit {self.name}: {one_line(error)}") from error
        except Exception as error:  # Settings and arrays are a client's.
            raise BadInput(
                f"the adapter does not fit {self.name}: {one_line(error) or type(error).__name__}"
            ) from error
        self._on, self._last = name, state

    def _whole(self, state: ModelState) -> ModelState:
        """Return the state with an optimizer that has not begun, if the model has one.

        Raises:
            BadInput: rank or scale are not those of the model's adapters.
        """
        model: Any = self.model
        if not isinstance(model, Learner):
            return state
        layers = tuple(state.settings.get("layers", ()))
        if isinstance(model, Probe) and model.info().adapted_layers != layers:
            model.attach(layers)
        fresh = model.state()
        own, given = [{**shape_of(each), "target_modules": None} for each in (fresh, state)]  # Arrays tell these.
        if own != given:
            words = [" and ".join(f"{name} {value}" for name, value in each.items() if value) for each in (own, given)]
            raise BadInput(f"expected {words[0]}, got {words[1]}: gce serve-policy has options for both")
        kept = {name: array for name, array in fresh.arrays.items() if not name.startswith(ADAPTER)}
        return evolve(state, arrays={**kept, **state.arrays})

    def _nothing_learned(self) -> ModelState:
        """Return an adapter of zeros, with which the model is the base."""
        state = self.model.state() if self._last is None and isinstance(self.model, Learner) else self._last
        assert state is not None  # Else nothing was put on, and the model is the base.
        return evolve(state, arrays={name: np.zeros_like(array) for name, array in state.arrays.items()})
