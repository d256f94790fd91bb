"""How the shipped model was made."""

from __future__ import annotations

from pathlib import Path

__all__ = ["INSTALLED", "SEED", "SHARDS"]

INSTALLED = Path(__file__).parent.parent / "src" / "gce" / "data" / "gce-tiny"
"""The shipped model."""
SEED = 7
"""The seed of its training."""
SHARDS = 2
"""Processes that shared each batch."""
