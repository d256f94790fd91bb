"""`gce geometry`: the path of a run through the space of scores, with its nulls, and as a file for a viewer."""

from __future__ import annotations

import argparse
import json

from gce.app.evaluation.probing import hidden_geometry
from gce.app.exports.geometry import SCHEMAS, exported, geometry_of
from gce.app.options import PATH, PROBLEMS, RUN, SEED, Choice
from gce.app.shown import lines_of
from gce.app.tables.geometry import geometry_parts
from gce.app.terminal import Terminal, put, put_json
from gce.app.wiring.files import check_output, write_output
from gce.app.wiring.runs import add_no_verify, open_run, verifies
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Describe the path of a run through the space of scores: the mean score of its rollouts by evaluator and tier, iteration
by iteration, standardised. Three statistics stand beside nulls, because chance alone makes paths, too:

  movement             larger than if the same problems had come in other iterations?
  straightness         larger than with the iterations in another order?
  effective dimension  smaller than if each score moved by itself?

With --hidden, the path is that of the model's hidden states on identical fixed texts, from the base model over the
checkpoints that the run keeps: train with --keep-every 1 to keep each one.

--out writes the path as JSON in the schema of ScalarScope's viewer.
"""
EXAMPLES = """\
examples:
  gce geometry runs/1
  gce geometry runs/1 --out geometry.json                  schema 1.1, with nulls
  gce geometry runs/1 --out geometry.json --schema 1.0
  gce geometry runs/1 --hidden                             hidden states of fixed texts at the checkpoints
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce geometry`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, metavar="RUN", help="directory of a training run")
    parser.add_argument("--out", type=PATH, metavar="FILE", help="write the path as JSON to this file")
    parser.add_argument(
        "--schema",
        type=Choice(SCHEMAS),
        choices=SCHEMAS,
        default=SCHEMAS[-1],
        help="version of the schema (default 1.1)",
    )
    parser.add_argument("--hidden", action="store_true", help="follow hidden states of fixed texts, not scores")
    parser.add_argument("--n", type=PROBLEMS, default=20, help="with --hidden: texts per tier (default 20)")
    parser.add_argument("--seed", type=SEED, default=0, help="seed of nulls and bootstrap (default 0)")
    parser.add_argument("--json", action="store_true", help="print the exported path instead of the table")
    add_no_verify(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.out is not None:
        check_output(arguments.out)
    with open_run(arguments.run, verify=verifies(arguments)) as reader:
        if arguments.hidden:
            found = hidden_geometry(reader, n=arguments.n, watcher=Terminal(0), seed=arguments.seed)
        else:
            found = geometry_of(reader, seed=arguments.seed)
        plain = exported(reader, found, arguments.schema, hidden=arguments.hidden)
    if arguments.out is not None:
        write_output(arguments.out, f"{json.dumps(plain, indent=1)}\n".encode())
    if arguments.json:
        put_json(to_plain(plain), indent=1)
    else:
        put(*lines_of(geometry_parts(found)))
    return 0
