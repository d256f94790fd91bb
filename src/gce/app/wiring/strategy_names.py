"""From names behind `--strategies` to strategies."""

from __future__ import annotations

from gce.app.options import ChoiceOrOwn
from gce.app.wiring.names import entry
from gce.domain.strategies import STRATEGIES, Strategy

__all__ = ["STRATEGY", "TRAINED", "find_strategy", "is_trained"]

TRAINED = "trained"
"""Names the first strategy with an adapter, and begins the names of the others with it."""

_FIRST = next(iter(STRATEGIES))


def is_trained(name: str) -> bool:
    """Whether the name is of a strategy with an adapter."""
    return name == TRAINED or name.startswith(f"{TRAINED}-")


def find_strategy(name: str) -> Strategy:
    """The strategy of this name, which may begin with `TRAINED`, or one's own as module:ATTR.

    Raises:
        BadInput: nothing of that name, or it is no strategy.
    """
    bare = _FIRST if name == TRAINED else name.removeprefix(f"{TRAINED}-")
    return entry(bare, STRATEGIES, Strategy, "strategy")


STRATEGY = ChoiceOrOwn((*STRATEGIES, TRAINED, *(f"{TRAINED}-{name}" for name in STRATEGIES if name != _FIRST)))
"""What `--strategies` takes."""
