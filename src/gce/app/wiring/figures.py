"""How figures are drawn."""

from __future__ import annotations

from gce.adapters.matplotlib_figures import can_draw, png, svg

__all__ = [
    "can_draw",
    "png",
    "svg",
]
