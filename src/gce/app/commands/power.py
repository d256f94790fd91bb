"""`gce power`: how many problems a comparison needs, before anything is spent on it."""

from __future__ import annotations

import argparse

from gce.app.evaluation.power import power
from gce.app.options import COMPARISONS, PROBLEMS, RUN, SEED_COUNT, SHARE, SHARE_ABOVE_0, SHARE_INSIDE, TIERS
from gce.app.terminal import put, put_json
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Compute the power of the paired exact test (McNemar) by which gce compares two models, strategies or conditions on the
same problems: the chance of finding a gain, the smallest gain that is found with 80 % power, and the number of problems
per tier that a gain takes. Only discordant problems, which exactly one of the two solves, carry information: their
share follows from the base rate and the correlation of outcomes, or is given with --discordant. With RUN, it is taken
from stored answers: a run's test before and after training, or the strategies in a file of gce evaluate --answers. All
sums are exact; nothing is simulated.
"""
EXAMPLES = """\
examples:
  gce power                                  200 problems: what gains of 1, 2, 5 and 10 points need
  gce power --n 100 --tiers 6 --gain 0.05    is a gain of 5 points found on 600 problems?
  gce power --base 0.2 --correlation 0       few right answers; outcomes of the two are independent
  gce power --discordant 0.12 --gain 0.03 --comparisons 10   ten conditions, with Holm's correction
  gce power runs/1                           what a finished run could decide, and how many problems would have
  gce power answers.jsonl --n 1000           the same of strategies in a file of gce evaluate --answers
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce power`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, nargs="?", metavar="RUN", help="a run, or a file of gce evaluate --answers")
    parser.add_argument("--n", type=PROBLEMS, help="problems per tier (default 200, or the stored ones)")
    parser.add_argument("--tiers", type=TIERS, help="number of tiers (default 1, or the stored ones)")
    parser.add_argument("--gain", type=SHARE_ABOVE_0, help="expected difference of solve rates (default: several)")
    parser.add_argument("--base", type=SHARE, help="solve rate of the first (default 0.5, or the stored one)")
    parser.add_argument("--discordant", type=SHARE, help="share of discordant problems (default: by --correlation)")
    parser.add_argument(
        "--correlation",
        type=SHARE,
        default=0.5,
        help="correlation of the two outcomes on a problem; 0 needs most problems (default 0.5)",
    )
    parser.add_argument(
        "--seeds", type=SEED_COUNT, default=1, help="training seeds that are averaged; speaks of these only (default 1)"
    )
    parser.add_argument("--power", type=SHARE_INSIDE, default=0.8, help="wanted power (default 0.8)")
    parser.add_argument(
        "--comparisons",
        type=COMPARISONS,
        help="rows compared with one; 5 %% are divided by it (default 1, or those stored)",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    names = ("n", "tiers", "gain", "base", "discordant", "correlation", "seeds", "power", "comparisons")
    found = power(arguments.run, **{each: vars(arguments)[each] for each in names})
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put(*str(found).split("\n"))
    return 0
