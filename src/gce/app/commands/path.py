"""`gce path`: where the shipped model lies, for `mlx_lm.load` and other programs."""

from __future__ import annotations

import argparse

from gce.app.terminal import put, put_json
from gce.app.wiring.models import shipped_model_path

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce path`."""
    parser.description = "Print the directory of the shipped model, which mlx_lm.load and transformers can read."
    parser.add_argument("--json", action="store_true", help="print the directory as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    path = str(shipped_model_path())
    if arguments.json:
        put_json({"path": path})
    else:
        put(path)
    return 0
