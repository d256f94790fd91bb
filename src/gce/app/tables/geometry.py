"""The path of a run as a sentence and a table, for a terminal and a report."""

from __future__ import annotations

from gce.app.shown import Part
from gce.app.tables.cells import p_cell
from gce.domain.figures import Table
from gce.domain.geometry import Geometry
from gce.domain.statistics import Estimate
from gce.domain.text import counted

__all__ = ["geometry_parts"]

MOST_NAMES = 40
"""Dimensions that are named."""


def geometry_parts(found: Geometry) -> list[Part]:
    """What the path has, and its statistics beside their nulls."""
    explained = " and ".join(f"{100 * share:.0f} %" for share in found.explained)
    few = len(found.dimensions) <= MOST_NAMES
    names = f" ({', '.join(found.dimensions)})" if few else ""
    rows = tuple(
        (each.statistic, _cell(each.observed), _cell(each.null), p_cell(each.p), each.says) for each in found.nulls
    )
    iterations, dimensions = counted(len(found.iterations), "iteration"), counted(len(found.dimensions), "dimension")
    return [
        f"{iterations}, {dimensions}{names}; two principal components have {explained} of the variance",
        Table(("statistic", "observed (95 %)", "null (95 %)", "p", "what a small p means"), rows),
    ]


def _cell(found: Estimate) -> str:
    return f"{found.value:.3g} ({found.low:.3g} to {found.high:.3g})"
