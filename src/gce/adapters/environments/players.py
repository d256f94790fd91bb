"""Observations of environments as sentences, and simple players of them, one line each in the tables.

Both are known by an environment's name without its version. `scripted_action` also plays environments that state their
own transitions (`P`, as those of `toy_text` do), by value iteration; it then knows what a model is not told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["SENTENCES", "Player", "scripted_player"]

Player = Callable[[Any], int]
"""From an observation to an action."""
DISCOUNT = 0.999
SWEEPS = 2_000
"""Rounds of value iteration at most."""


def _side(value: float, words: tuple[str, str] = ("left", "right")) -> str:
    return words[value > 0]


def _moves(speed: float, digits: int) -> str:
    return f"moves {_side(speed)} at {abs(speed):.{digits}f}" if speed else "stands still"


def _cart(seen: Sequence[float], _environment: Any) -> str:
    place, speed, lean, turning = map(float, seen)
    return (
        f"The cart is {abs(place):.2f} to the {_side(place)} of the middle and {_moves(speed, 2)}. The pole leans "
        f"{abs(lean):.3f} radians to the {_side(lean)} and turns {_side(turning)} at {abs(turning):.2f}."
    )


def _hill(seen: Sequence[float], _environment: Any) -> str:
    place, speed = map(float, seen)
    return (
        f"The car is at {place:.3f} in a valley whose lowest point is at -0.5, and {_moves(speed, 4)}. The goal is the "
        "top of the hill on the right, at 0.5."
    )


def _lake(seen: Any, environment: Any) -> str:
    """Where one stands on the map, which does not move."""
    lake = [[each.decode() for each in row] for row in environment.unwrapped.desc]
    size = len(lake[0])

    def places(kind: str) -> str:
        found = [
            f"row {y + 1} column {x + 1}" for y, row in enumerate(lake) for x, each in enumerate(row) if each == kind
        ]
        return ", ".join(found) or "nowhere"

    return (
        f"You stand in row {int(seen) // size + 1} column {int(seen) % size + 1} of a frozen lake of {len(lake)} rows"
        f" and {size} columns, row 1 at the top. Goal: {places('G')}. Holes: {places('H')}."
    )


def _lane(seen: Sequence[float], _environment: Any) -> str:
    offset, turn = map(float, seen)
    return (
        f"The car is {abs(offset):.2f} m to the {_side(offset)} of the middle of the lane and points {abs(turn):.1f}"
        f" degrees to the {_side(turn)}."
    )


SENTENCES: Mapping[str, Callable[[Any, Any], str]] = {
    "CarOnLane": _lane,
    "CartPole": _cart,
    "FrozenLake": _lake,
    "FrozenLake8x8": _lake,
    "MountainCar": _hill,
}
"""(observation, environment) -> sentences."""

_RULES: Mapping[str, Player] = {
    "Blackjack": lambda seen: int(seen[0] < 17),
    "CarOnLane": lambda seen: 1 + (seen[0] * 3 + seen[1] < -1) - (seen[0] * 3 + seen[1] > 1),
    "CartPole": lambda seen: int(3 * seen[2] + seen[3] > 0),
    "MountainCar": lambda seen: 2 if seen[1] >= 0 else 0,
}
"""Draws to 17; steers to the middle; pushes to where the pole leans and falls; pushes to where the car moves."""


def scripted_player(name: str, environment: Any) -> Player | None:
    """A rule of thumb for an environment, or the best actions where it states its transitions; None where neither."""
    rule = _RULES.get(name)
    transitions = getattr(environment.unwrapped, "P", None)
    if rule is not None or not isinstance(transitions, dict):
        return rule
    best = best_actions(transitions)
    return lambda seen: best[int(seen)]


def best_actions(transitions: Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]) -> dict[int, int]:
    """The best action in each state, by value iteration (Sutton and Barto, section 4.4)."""
    values = dict.fromkeys(transitions, 0.0)

    def worth(state: int, action: int) -> float:
        ways = transitions[state][action]
        return sum(
            share * (reward + DISCOUNT * (0.0 if over else values[after])) for share, after, reward, over in ways
        )

    for _ in range(SWEEPS):
        found = {state: max(worth(state, action) for action in actions) for state, actions in transitions.items()}
        change = max(abs(found[state] - values[state]) for state in values)
        values = found
        if change < 1e-9:
            break
    return {state: max(actions, key=lambda action: worth(state, action)) for state, actions in transitions.items()}
