"""A car on a straight lane, as the environment `gce.adapters.environments.car_on_lane:CarOnLane-v0` of Gymnasium.

The car moves at a fixed speed and is steered left, straight on or right. Each step that begins on the lane earns up to
1, the more the nearer to its middle; off the lane the episode ends. Wind pushes the car sideways, drawn by the seed.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

__all__ = ["CarOnLane"]

HALF_WIDTH = 2.0
"""Metres from the middle of the lane to its edge."""
SPEED, SECONDS = 10.0, 0.1
"""Metres a second, and seconds of a step."""
STEERING = math.radians(2.0)
"""By which a step of steering turns the car, in radians."""
WIND = 0.1
"""Standard deviation of the sideways push in a step, in metres."""
STEPS = 100
MOST_TURN = math.radians(45.0)


class CarOnLane(gymnasium.Env):  # type: ignore[misc, type-arg, unused-ignore]
    """Drive on the lane.

    ## Action Space
    0: steer left, 1: straight on, 2: steer right

    ## Observation Space
    Metres to the right of the middle of the lane (negative: to the left), and degrees that the car points to the right.
    """

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(3)
        edges = np.array([2 * HALF_WIDTH, math.degrees(MOST_TURN)], np.float32)
        self.observation_space = gymnasium.spaces.Box(-edges, edges, dtype=np.float32)
        self._offset = self._turn = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin somewhere near the middle, pointing nearly ahead."""
        super().reset(seed=seed)
        self._offset = float(self.np_random.uniform(-1.0, 1.0))
        self._turn = float(self.np_random.uniform(-0.1, 0.1))
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Steer, then move for a tenth of a second."""
        reward = max(0.0, 1.0 - abs(self._offset) / HALF_WIDTH)
        self._turn = min(MOST_TURN, max(-MOST_TURN, self._turn + (int(action) - 1) * STEERING))
        self._offset += SPEED * SECONDS * math.sin(self._turn) + float(self.np_random.normal(0.0, WIND))
        over = abs(self._offset) > HALF_WIDTH
        self._offset = min(2 * HALF_WIDTH, max(-2 * HALF_WIDTH, self._offset))
        return self._observation(), reward, over, False, {}

    def _observation(self) -> np.ndarray:
        return np.array([self._offset, math.degrees(self._turn)], np.float32)


gymnasium.register("CarOnLane-v0", entry_point=CarOnLane, max_episode_steps=STEPS)
