"""Frameworks that tasks are exported to."""

from __future__ import annotations

from collections.abc import Mapping

from gce.app.exports.tasks import gymnasium, harbor, inspect_ai, lm_eval, openenv, reasoning_gym, trl, verifiers
from gce.app.exports.tasks.exported import Exporter

__all__ = ["EXPORTS"]

EXPORTS: Mapping[str, Exporter] = {
    "gymnasium": gymnasium.export,
    "harbor": harbor.export,
    "inspect": inspect_ai.export,
    "lm-eval": lm_eval.export,
    "openenv": openenv.export,
    "reasoning-gym": reasoning_gym.export,
    "trl": trl.export,
    "verifiers": verifiers.export,
}
"""Exporters by framework, as `gce export-task --to` takes it."""
