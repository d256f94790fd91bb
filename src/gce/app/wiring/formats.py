"""The formats of other programs: what is exported to them, and imported from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gce.adapters.datasets.atif import atif_of_trace
from gce.adapters.datasets.inspect_logs import inspect_log_of_traces
from gce.adapters.datasets.isopro_results import IsoproRun as ImportedRun
from gce.adapters.datasets.isopro_results import read_isopro
from gce.adapters.datasets.row_files import ROW_FORMATS, check_format, write_rows
from gce.adapters.models.formats.adapter_files import MLX_FILES, LowRank, peft_files, read_adapter
from gce.errors import MissingExtra

__all__ = [
    "IMPORTS",
    "MLX_FILES",
    "ROW_FORMATS",
    "ImportedRun",
    "LowRank",
    "atif_of_trace",
    "check_fits",
    "check_format",
    "inspect_log_of_traces",
    "peft_files",
    "read_adapter",
    "write_merged",
    "write_rows",
]

IMPORTS: Mapping[str, Callable[[Path], tuple[ImportedRun, ...]]] = {"isopro": read_isopro}
"""Readers of training runs, by the program that made them."""


def check_fits(base: Path, adapter: LowRank, *, by_mlx: bool) -> None:
    """Raise BadInput if the adapter does not fit this base; MissingExtra if the weights cannot be read."""
    try:
        from gce.adapters.models.formats import base_weights
    except ImportError as error:
        raise MissingExtra(error.name or "mlx", "mlx") from error
    base_weights.check_fits(base, adapter, by_mlx=by_mlx)


def write_merged(base: Path, adapter: LowRank, folder: Path) -> None:
    """Write the base with the adapter merged into its weights."""
    from gce.adapters.models.formats import base_weights

    base_weights.write_merged(base, adapter, folder)
