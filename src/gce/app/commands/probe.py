"""`gce probe`: whether training moved what evaluators judge into hidden states of identical fixed texts."""

from __future__ import annotations

import argparse

from gce.app.evaluation.probing import probe, probe_parts
from gce.app.options import PROBLEMS, RUN, SAMPLES, SEED_COUNT, TEMPERATURE
from gce.app.shown import lines_of
from gce.app.terminal import Terminal, put, put_json
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Compare the base model of a run with its newest checkpoint: can an evaluator's scores be read from hidden states better
after training? The texts are answers of the base model to test problems, the same before and after. A probe is a ridge
regression on their mean hidden states, fitted to the texts of other problems.

  gain      R^2 after minus before, with an interval over problems; p: scores permuted within problems
  pairs     share of pairs of texts of one problem that the probe orders right, before and after
  held out  how far the teaching evaluators' mean predicts a held-out evaluator: by arithmetic alone, from the length,
            and from hidden states before and after training

Only "after - before" is owed to training. Give runs of several seeds for the gain over runs.
"""
EXAMPLES = """\
examples:
  gce probe runs/1
  gce probe runs/1 runs/2 runs/3 --n 40        three seeds, 40 problems per tier
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce probe`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("runs", type=RUN, nargs="+", metavar="RUN", help="directory of a training run")
    parser.add_argument("--n", type=PROBLEMS, default=20, help="problems per tier (default 20)")
    parser.add_argument("--samples", type=SAMPLES, default=4, help="texts of each problem (default 4)")
    parser.add_argument("--temperature", type=TEMPERATURE, default=0.8, help="of sampling the texts (default 0.8)")
    parser.add_argument("--seeds", type=SEED_COUNT, default=5, help="random splits into folds (default 5)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    names = ("n", "samples", "temperature", "seeds")
    found = probe(arguments.runs, watcher=Terminal(0), **{name: vars(arguments)[name] for name in names})
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put(*lines_of(probe_parts(found)))
    return 0
