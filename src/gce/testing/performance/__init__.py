"""Hostile patches: what a candidate may try instead of making code faster."""

from __future__ import annotations

from gce.testing.performance.hostile_patches import (
    BASE_TREE,
    HOSTILE_PATCHES,
    HOSTILE_TASK,
    HUMAN_TREE,
    HostilePatch,
)

__all__ = ["BASE_TREE", "HOSTILE_PATCHES", "HOSTILE_TASK", "HUMAN_TREE", "HostilePatch"]
