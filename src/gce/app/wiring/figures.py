"""How figures are drawn."""

from __future__ import annotations

from gce.adapters.matplotlib_figures import png, svg

__all__ = [
    "png",
    "svg",
]
