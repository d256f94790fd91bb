"""Find strategies by the names that `--strategies` takes."""

from __future__ import annotations

from gce.app.options import ChoiceOrOwn
from gce.app.wiring.names import entry
from gce.domain.strategies import STRATEGIES, Strategy

__all__ = ["STRATEGY", "TRAINED", "find_strategy", "is_trained"]

TRAINED = "trained"
"""Names the first strategy with the trained adapter; as a prefix, it names another strategy with it."""

_FIRST = next(iter(STRATEGIES))


def is_trained(name: str) -> bool:
    """True if the name is of a strategy with the trained adapter."""
    return name == TRAINED or name.startswith(f"{TRAINED}-")


def find_strategy(name: str) -> Strategy:
    """Return the strategy of this name, which may begin with `TRAINED`, or a user's own as module:ATTR.

    Raises:
        BadInput: there is no such object, or it is not a strategy.
    """
    bare = _FIRST if name == TRAINED else name.removeprefix(f"{TRAINED}-")
    return entry(bare, STRATEGIES, Strategy, "strategy")


STRATEGY = ChoiceOrOwn((*STRATEGIES, TRAINED, *(f"{TRAINED}-{name}" for name in STRATEGIES if name != _FIRST)))
"""The values that `--strategies` takes."""
