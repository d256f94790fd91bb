"""`gce critic`: how well scores follow from how answers were written, and what that is good for."""

from __future__ import annotations

import argparse

from gce.app.evaluation.critic import critic
from gce.app.options import NAME, NAMES, PROBLEMS, RUN, SAMPLES, SEED, SEED_COUNT, TEMPERATURE, THREADS
from gce.app.terminal import Terminal, put, put_json
from gce.app.wiring.tasks import TASK_HELP
from gce.domain.evaluators.scores import VERIFIER
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Sample several answers to each problem and fit a critic: a regression that predicts an answer's score before the
evaluator judges it, from its token log-probabilities, length and repetitions. Every prediction is out of fold: the
critic was fitted to answers to other problems.

  quality   R^2, AUROC and calibration error, compared with critics that know only the length or only the tier
  choice    best of a problem's answers by the critic, compared with shortest, majority and the verifier (an oracle)
  stopping  tokens saved and right answers lost if rollouts with low predictions are stopped early

A critic that is no better than the tier has learned which problems are hard, and nothing about answers.
"""
EXAMPLES = """\
examples:
  gce critic                                               the shipped model, 40 problems per tier, 8 answers each
  gce critic --adapter runs/1/checkpoints/last             the same after a training run
  gce critic --task programs --model smollm2 --n 20 --evaluator tests
                                                           another task, model and evaluator
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce critic`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=NAME, default="scheduling", help=TASK_HELP)
    parser.add_argument("--preset", type=NAME, help="set of tiers (default: the task's first)")
    parser.add_argument("--tiers", type=NAMES, default=(), metavar="TIER,...", help="tiers (default: all)")
    parser.add_argument("--model", type=NAME, help="model to sample (default: as in gce evaluate)")
    parser.add_argument("--adapter", type=RUN, help="adapter: RUN/checkpoints/last, or a PEFT directory")
    parser.add_argument(
        "--evaluator",
        type=NAME,
        default=VERIFIER,
        help=f"evaluator whose scores are predicted: {VERIFIER}, one that gce tasks TASK lists, or module:ATTR",
    )
    parser.add_argument("--n", type=PROBLEMS, default=40, help="problems per tier (default 40)")
    parser.add_argument("--samples", type=SAMPLES, default=8, help="answers to each problem, from 2 (default 8)")
    parser.add_argument("--temperature", type=TEMPERATURE, default=0.8, help="above 0 (default 0.8)")
    parser.add_argument("--seed", type=SEED, default=0, help="seed of sampling (default 0)")
    parser.add_argument("--seeds", type=SEED_COUNT, default=5, help="random splits into folds (default 5)")
    parser.add_argument("--threads", type=THREADS, help="CPU threads (default: one per core)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    names = ("evaluator", "preset", "tiers", "adapter", "n", "samples", "temperature", "seed", "seeds", "threads")
    given = {name: vars(arguments)[name] for name in names if vars(arguments)[name] not in (None, ())}
    found = critic(arguments.task, arguments.model, watcher=Terminal(0), **given)
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put(*str(found).split("\n"))
    return 0
