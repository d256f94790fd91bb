"""`gce export`: what a run learned, as files for other programs."""

from __future__ import annotations

import argparse

from gce.app.exports.adapter import FORMATS, export_adapter
from gce.app.options import PATH, RUN, Choice
from gce.app.terminal import put, put_json
from gce.app.wiring.runs import find_checkpoint

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Export a trained adapter as files that other programs read. Works while the run is in progress, and does not change it.

formats:
  mlx      the adapter, for mlx_lm.load(BASE, adapter_path=DIR) and mlx_lm.generate --adapter-path
  peft     the adapter, for PEFT and libraries built on it
  merged   a standalone model in the Hugging Face layout: the base with the adapter merged into its weights in
           float32, then rounded once to the base's own type

peft and merged: the export is loaded with PEFT or transformers, if they are installed, and its log-probabilities are
compared with those of the model here. Above 1e-3 nats it is an error (status 1), and nothing is written.
"""
EXAMPLES = """\
examples:
  gce export runs/1 --to peft                          runs/1/export/peft
  gce export runs/1 --to merged --checkpoint best      the checkpoint with the best accuracy on dev
  gce export runs/1 --to merged --model ./my-model     if the run's base is a hub name, or was moved
  gce export runs/1/checkpoints/iteration-0003 --to mlx --out adapter
"""
WHICH = ("last", "best")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce export`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help="a run directory, or one of its checkpoints")
    parser.add_argument("--to", type=Choice(FORMATS), choices=FORMATS, required=True, help="format, as listed above")
    parser.add_argument(
        "--out", type=PATH, metavar="DIR", help="new or empty folder to write to (default: RUN/export/FORMAT)"
    )
    parser.add_argument(
        "--checkpoint", type=Choice(WHICH), choices=WHICH, help="checkpoint of the run to export (default last)"
    )
    parser.add_argument("--model", type=PATH, metavar="DIR", help="directory of the base model (default: the run's)")
    parser.add_argument(
        "--no-compare", action="store_true", help="do not load the export to compare it, which takes its memory twice"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    checkpoint = find_checkpoint(arguments.run, arguments.checkpoint)
    out = arguments.out or checkpoint.home / "export" / arguments.to
    found = export_adapter(checkpoint, arguments.to, out, base=arguments.model, compare=not arguments.no_compare)
    if arguments.json:
        said = {"path": str(out), "format": arguments.to, "checkpoint": checkpoint.name, "load": found.load}
        base = None if found.base is None else str(found.base)
        put_json(said | {"base": base, "comparison": found.comparison})
    else:
        put(f"{out}: {checkpoint.name}, {len(found.adapter.pairs)} linears of rank {found.adapter.rank}", found.load)
        put(found.comparison)
    return 0
