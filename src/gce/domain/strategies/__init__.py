"""Prompting strategies: one file for one or a few of them, and one line each in `STRATEGIES`."""

from __future__ import annotations

from collections.abc import Mapping

from gce.domain.strategies.multi_turn import MULTI_TURN
from gce.domain.strategies.requests import Strategy
from gce.domain.strategies.simulate import SIMULATE
from gce.domain.strategies.single_turn import FEW_SHOT, ZERO_SHOT

__all__ = ["STRATEGIES", "Strategy"]

STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy for strategy in (ZERO_SHOT, FEW_SHOT, MULTI_TURN, SIMULATE)
}
