"""`gce plan`: what training would take on more workers, before anything is spent on it."""

from __future__ import annotations

import argparse

from gce.app.options import (
    DECIMAL,
    DOLLARS,
    ITERATIONS,
    LEARNERS,
    RUN,
    THREADS,
    TOKENS,
    Listed,
    ModelSize,
)
from gce.app.terminal import put, put_json
from gce.app.training.planning import WORKERS, plan
from gce.domain.serialization import to_plain

__all__ = ["add_arguments", "run"]

DESCRIPTION = """\
Predict what an iteration of training takes on more workers (gce train --executor ray --workers N): seconds by stage,
bytes between machines, money, and the stage that bounds it. Stage times are those of a finished run, or, without RUN,
those measured for the default run; another model, more rollouts or longer answers change them in proportion.

An iteration is bound by
  sampling   more workers make it shorter
  shares     some workers have nothing to do: more rollouts per iteration would use them
  driver     the process of the run cannot deal and write as fast as workers sample
  learner    more or faster learners make it shorter (--learners)
  network    sending adapters takes longest
"""
EXAMPLES = """\
examples:
  gce plan                                           the default run on 1, 8, 64 and 1,000 workers
  gce plan runs/1 --workers 1,2,4                    a run of yours, with more workers
  gce plan --model-size 7b --workers 64 --rollouts 8192 --tokens 1000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `gce plan`."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("run", type=RUN, nargs="?", metavar="RUN", help="a finished run of gce train")
    parser.add_argument(
        "--workers",
        type=Listed(THREADS),
        default=WORKERS,
        metavar="N,...",
        help="numbers of workers, a row each (default 1,8,64,1000)",
    )
    parser.add_argument("--learners", type=LEARNERS, default=1, help="learner processes, one device each (default 1)")
    parser.add_argument("--model-size", type=ModelSize(), metavar="SIZE", help="parameters of the model, such as 7b")
    parser.add_argument("--rollouts", type=TOKENS, help="rollouts per iteration (default: as measured)")
    parser.add_argument(
        "--tokens", type=TOKENS, help="mean tokens of a rollout, prompt and completion (default: as measured)"
    )
    parser.add_argument("--iterations", type=ITERATIONS, help="iterations (default: those of RUN, or 6)")
    parser.add_argument(
        "--speed", type=DECIMAL, default=1.0, help="of your workers and learners, relative to the measured (default 1)"
    )
    parser.add_argument(
        "--bandwidth", type=DECIMAL, default=10.0, help="into each worker, in gigabits per second (default 10)"
    )
    parser.add_argument("--price", type=DOLLARS, help="of a worker, and of a learner, per hour")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    names = ("workers", "learners", "speed", "bandwidth")
    given = ("model_size", "rollouts", "tokens", "iterations", "price")
    chosen = {name: value for name in given if (value := vars(arguments)[name]) is not None}
    found = plan(arguments.run, **{name: vars(arguments)[name] for name in names}, **chosen)
    if arguments.json:
        put_json(to_plain(found), indent=1)
    else:
        put(*str(found).split("\n"))
    return 0
